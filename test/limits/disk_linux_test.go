package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cantFile is what a proxy logs where its last-good file can't be written.
const cantFile = "last-good file can't be written"

// smallDisk mounts a file system of 128 KiB. It needs root.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k,mode=0700"); err != nil {
		t.Fatalf("mounting a small disk, as root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no page of a disk free.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return ballast
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A proxy whose disk is full serves on and follows the hub, but says nothing that a restart from its file would undo: an address
// that it has let go of isn't free. It says why, once, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	h := startHubWithManager(t)
	dir, log := smallDisk(t), filepath.Join(t.TempDir(), "edge-1.log")
	metrics := netip.AddrPortFrom(h.address(50), 9400)
	c := h.proxyCommand("edge-1", h.proxyAccount("edge-1"), dir, "--metrics-address="+metrics.String())
	c.Log = log
	proxy := kept(t, c)
	target := startTarget(t)
	first := loadBalancer("shop", "first", target)
	h.create(targets("shop", target), first)
	at := h.served(first)
	h.programmed(first)

	ballast := fill(t, dir)
	added := 0
	more := func() {
		t.Helper()
		l := loadBalancer("shop", "more-"+strconv.Itoa(added), target)
		h.create(l)
		h.served(l)
		added++
	}
	// The file's last page has room for a few.
	for said(t, log) == 0 {
		if more(); added > 30 {
			t.Fatal("the disk is full, and the file is written")
		}
	}
	more()
	if err := h.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	h.eventually("the first to be refused, and its address to be let go of", func(ctx context.Context) error {
		if err := answers(ctx, at); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("got %v", err)
		}
		return h.releasing(ctx, at)
	})
	// As often as it tries in that time, it must not say that it has let go.
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		if err := h.releasing(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	h.eventually("the Proxy to say why", func(ctx context.Context) error {
		px := &v1alpha1.Proxy{}
		if err := h.api.Get(ctx, client.ObjectKey{Name: "edge-1"}, px); err != nil {
			return err
		}
		c := meta.FindStatusCondition(px.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != "FileFailed" || !strings.Contains(c.Message, "no space left on device") || px.Status.Through == (v1alpha1.Through{}) {
			return fmt.Errorf("it says %+v, and through %+v", c, px.Status.Through)
		}
		return nil
	})
	if n := said(t, log); n != 1 {
		t.Errorf("it is said %d times in the log, want once", n)
	}
	if n := metric(t, metrics, "fairlead_proxy_file_failures_total"); n < 2 {
		t.Errorf("the metric of failures counts %v", n)
	}

	// A process that is killed meanwhile serves again: what the old file has, then what the hub says. It frees nothing either, and lives.
	if err := proxy.Kill(); err != nil {
		t.Fatal(err)
	}
	more()
	if err := h.releasing(t.Context(), at); err != nil {
		t.Error(err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h.eventually("the address to be free once there is room", func(ctx context.Context) error {
		if err := h.releasing(ctx, at); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	if n := count(t, log, "proxy starts"); n != 2 {
		t.Errorf("%d processes have run, want the one that was killed, and the next", n)
	}
}

// startHubWithManager has a tenant called shop.
func startHubWithManager(t *testing.T) *hub {
	t.Helper()
	h := startHub(t, testkit.Options{Name: "hub"})
	h.basics(tenant("shop", nil))
	h.manager(h.managerAccount())
	h.account("shop", v1alpha1.AgentServiceAccount)
	return h
}

func (h *hub) programmed(l *clusterv1.LoadBalancer) {
	h.t.Helper()
	h.eventually(l.Name+" to be programmed", func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		for _, c := range l.Status.Conditions {
			if c.Type == clusterv1.ConditionProgrammed && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", l.Status.Conditions)
	})
}

// releasing is an error unless the ledger has that address, as one that is to be let go of.
func (h *hub) releasing(ctx context.Context, at netip.AddrPort) error {
	a := &v1alpha1.Address{}
	if err := h.api.Get(ctx, client.ObjectKey{Name: at.Addr().String()}, a); err != nil {
		return err
	}
	if a.Spec.Phase != v1alpha1.AddressReleasing {
		return fmt.Errorf("%s is %s", a.Name, a.Spec.Phase)
	}
	return nil
}

// said counts how often a proxy's log has that the file can't be written.
func said(t *testing.T, log string) int { t.Helper(); return count(t, log, cantFile) }

// count is how often a log has a text.
func count(t *testing.T, log, text string) int {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), text)
}

// metric reads one without labels.
func metric(t *testing.T, at netip.AddrPort, name string) float64 {
	t.Helper()
	res, err := http.Get("http://" + at.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
