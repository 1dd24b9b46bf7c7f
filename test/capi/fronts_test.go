package capi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

// A front must fail in the ways in which an API server fails, or what is judged on it says nothing.
func TestFrontFails(t *testing.T) {
	asked := make(chan *url.URL, 1)
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watch" {
			asked <- r.URL
		}
		fmt.Fprint(w, "it is I, "+r.Host)
	}))
	t.Cleanup(backend.Close)
	at := netip.MustParseAddrPort("127.77.200.1:6443")
	cert, key, err := serving(nil, at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	f, err := startFront("machine-1", at, netip.MustParseAddrPort(strings.TrimPrefix(backend.URL, "https://")), pair)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.crash)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	get := func(path string, patience time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return visit(ctx, &tls.Config{RootCAs: roots}, "https://"+at.String()+path)
	}
	serves := func() {
		t.Helper()
		for _, path := range []string{"/readyz", "/api"} {
			if who, err := get(path, soon); err != nil || who != "machine-1" {
				t.Errorf("%s: %q, %v", path, who, err)
			}
		}
	}
	serves()

	if _, err := get("/watch?watch=true&sendInitialEvents=true&resourceVersion=7", soon); err != nil {
		t.Error(err)
	}
	if q := (<-asked).Query(); q.Has("resourceVersion") || !q.Has("watch") {
		t.Errorf("the backend was asked for %s", q.Encode())
	}

	f.hang()
	if _, err := get("/api", 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hangs answered: %v", err)
	}
	f.resume()
	serves()

	open := func(n int) {
		t.Helper()
		kubetest.Eventually(t, soon, fmt.Sprintf("%d open connections", n), func(context.Context) error {
			if has := len(f.open()); has != n {
				return fmt.Errorf("there are %d", has)
			}
			return nil
		})
	}
	open(0)
	answered := make(chan error)
	f.hang()
	go func() {
		_, err := get("/api", soon)
		answered <- err
	}()
	open(1)
	f.crash()
	if err := <-answered; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hung and crashed answered: %v", err)
	}
	if _, err := get("/api", soon); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one that has crashed answered: %v", err)
	}
}
