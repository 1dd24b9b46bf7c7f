package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// Somebody else has the address of metrics, and their certificate isn't there yet: the proxy serves all the same, and shows
// them once it can.
func TestAProxyServesWithoutItsMetrics(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	away := `{"clusters": [{"name": "hub", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "hub", "context": {"cluster": "hub"}}], "current-context": "hub"}`
	if err := os.WriteFile(kubeconfig, []byte(away), 0o600); err != nil {
		t.Fatal(err)
	}
	certificates := t.TempDir()
	o := ProxyOptions{
		Kubeconfig: kubeconfig, Name: "edge-1", Pool: "edge", Dataplane: "builtin", StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Metrics: MetricsOptions{Address: taken.Addr().String(), Secure: true, CertDir: certificates},
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- RunProxy(ctx, o) }()

	waits := func(what string, is func() error) {
		t.Helper()
		var early error
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := testkit.Poll(limit, 20*time.Millisecond, what, func(context.Context) error {
			select {
			case early = <-ended:
				stop()
				return early
			default:
				return is()
			}
		}); err != nil {
			t.Fatalf("%v; the proxy has ended: %v", err, early)
		}
	}
	waits("the proxy to have its lock", func() error {
		_, err := os.Stat(filepath.Join(o.StateDir, "edge-1.lock"))
		return err
	})
	writePair(t, certificates)
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	waits("its health to be shown", func() error {
		res, err := insecure().Get("https://" + o.Metrics.Address + "/healthz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if again, err := net.Listen("tcp", o.Metrics.Address); err != nil {
		t.Errorf("the address is not given back: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// What no later attempt can mend is said at once.
func TestAProxyDoesNotStartWithWrongMetricsOptions(t *testing.T) {
	o := ProxyOptions{Name: "edge-1", Pool: "edge", Metrics: MetricsOptions{Address: "127.0.0.1:0", CertDir: t.TempDir()}}
	if err := o.check(); err == nil {
		t.Error("certificates without TLS are let through")
	}
}
