package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// api answers reviews as an API server does: it knows the tokens prometheus and stranger, and lets prometheus get /metrics.
func api(t *testing.T) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			review := &authenticationv1.TokenReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "stranger"
			review.Status.User.Username = review.Spec.Token
			_ = json.NewEncoder(w).Encode(review)
			return
		}
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		a := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && a != nil && a.Path == "/metrics" && a.Verb == "get"
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// serving is a server that shows one metric as the options say, and its address.
func serving(t *testing.T, o MetricsOptions) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_test"}))
	stop, err := serveMetrics(o, api(t), healthMux(func() bool { return true }, ""), registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return o.Address
}

// insecure reads by TLS from servers that make their certificates themselves: nobody can know those.
func insecure() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// Health is everybody's, metrics are for those whom the API server allows.
func TestMetricsAreSecure(t *testing.T) {
	address := serving(t, MetricsOptions{Secure: true})
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", http.StatusOK},
		{"/readyz", "", http.StatusOK},
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "nobody", http.StatusInternalServerError}, // controller-runtime's word for a token that is none
		{"/metrics", "stranger", http.StatusForbidden},
		{"/metrics", "prometheus", http.StatusOK},
		{"/else", "prometheus", http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.token != "" {
			req.Header.Set("Authorization", "Bearer "+test.token)
		}
		res, err := insecure().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != test.want {
			t.Errorf("%s as %q answers %d %s %v, want %d", test.path, test.token, res.StatusCode, body, err, test.want)
		}
		if shown := strings.Contains(string(body), "fairlead_test"); shown != (test.path == "/metrics" && test.want == http.StatusOK) {
			t.Errorf("%s as %q shows metrics: %t", test.path, test.token, shown)
		}
	}
	// Nothing is shown without TLS.
	if res, err := http.Get("http://" + address + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS it answers %s", res.Status)
		}
	}
}

// Certificates from files are used, and those that replace them.
func TestMetricsHaveTheCertificateOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	first := writePair(t, dir)
	address := serving(t, MetricsOptions{Secure: true, CertDir: dir})
	if got := shown(t, address); !bytes.Equal(got, first) {
		t.Error("it shows another certificate than that in the directory")
	}
	second := writePair(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := testkit.Poll(ctx, 20*time.Millisecond, "the next certificate", func(context.Context) error {
		if !bytes.Equal(shown(t, address), second) {
			return errors.New("it shows that which was replaced")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A directory for a server without TLS is a mistake, and so is an empty one.
func TestWrongMetricsOptions(t *testing.T) {
	for says, o := range map[string]MetricsOptions{
		"--metrics-secure":   {Address: "127.0.0.1:0", CertDir: t.TempDir()},
		"--metrics-cert-dir": {Address: "127.0.0.1:0", Secure: true, CertDir: t.TempDir()},
	} {
		stop, err := serveMetrics(o, api(t), http.NotFoundHandler(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err == nil {
			stop()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// writePair writes a new certificate and its key as the files tls.crt and tls.key, and returns it.
func writePair(t *testing.T, dir string) []byte {
	t.Helper()
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.key": key, "tls.crt": pem} {
		// As kubelets and tools do it: whole, or not at all.
		whole := filepath.Join(dir, name+".new")
		if err := os.WriteFile(whole, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(whole, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(pem, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate[0]
}

// shown is the certificate that a server shows.
func shown(t *testing.T, address string) []byte {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Raw
}

// Whoever comes with tokens that nobody knows costs the API server a few reviews, and the log a few lines.
func TestTokensThatNobodyKnowsCostLittle(t *testing.T) {
	hub := api(t)
	var reviews atomic.Int32
	var agent atomic.Value
	hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			reviews.Add(1)
			agent.Store(r.UserAgent())
			return next.RoundTrip(r)
		})
	})
	hub.UserAgent, hub.QPS, hub.Burst = "fairlead-proxy/1.0", -1, -1
	lines := &countingWriter{}
	h, err := askFirst(http.NotFoundHandler(), hub, slog.New(slog.NewTextHandler(lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const strangers = 200
	began := time.Now()
	var all sync.WaitGroup
	for i := range strangers {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", fmt.Sprintf("Bearer none-%d", i))
		all.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	}
	all.Wait()
	took := time.Since(began)
	if n, most := reviews.Load(), reviewBurst+reviewsPerSecond*took.Seconds()+1; float64(n) > most || n == 0 {
		t.Errorf("%d tokens cost %d reviews in %v, want at most %v", strangers, n, took, most)
	}
	if n, most := lines.n.Load(), 1+int32(took/sayEvery); n > most || n == 0 {
		t.Errorf("%d tokens cost %d lines in %v, want at most %d", strangers, n, took, most)
	}
	if got := agent.Load(); got != "fairlead-proxy/1.0/metrics-review" {
		t.Errorf("reviews are asked for by %v", got)
	}
}

// roundTripper is a function that is one.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls it.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// countingWriter counts writes.
type countingWriter struct{ n atomic.Int32 }

// Write counts.
func (w *countingWriter) Write(b []byte) (int, error) {
	w.n.Add(1)
	return len(b), nil
}
