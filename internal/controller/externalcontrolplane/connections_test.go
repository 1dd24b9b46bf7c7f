package externalcontrolplane

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// open counts a server's connections.
type open struct {
	mu      sync.Mutex
	now     map[net.Conn]bool
	ever    int
	changed chan struct{}
}

func newOpen() *open { return &open{now: map[net.Conn]bool{}, changed: make(chan struct{}, 1)} }

func (o *open) set(c net.Conn, s http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s {
	case http.StateNew:
		o.now[c] = true
		o.ever++
	case http.StateClosed:
		delete(o.now, c)
	default:
		return
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// none waits until none is left; for less than one may be idle, so that it is the probe that closes them.
func (o *open) none(t *testing.T, least int) {
	t.Helper()
	end := time.After(idle / 2)
	for {
		o.mu.Lock()
		now, ever := len(o.now), o.ever
		o.mu.Unlock()
		if now == 0 && ever >= least {
			return
		}
		select {
		case <-o.changed:
		case <-end:
			t.Fatalf("%d of %d connections are left, of %d at least that there were to be", now, ever, least)
		}
	}
}

// With whatever credentials, and however it ends, a probe leaves no connection to a control plane.
func TestAProbeLeavesNoConnection(t *testing.T) {
	says := map[string]string{"/version": `{"gitVersion": "v1.37.0"}`, "/api/v1/namespaces/kube-system": `{"metadata": {"uid": "its-uid"}}`}
	for name, c := range map[string]struct {
		with  rest.Config
		code  int
		found bool
	}{
		"a token":                    {rest.Config{BearerToken: "token"}, http.StatusOK, true},
		"a password":                 {rest.Config{Username: "a", Password: "b"}, http.StatusOK, true},
		"a user agent":               {rest.Config{UserAgent: "a"}, http.StatusOK, true},
		"no credentials":             {rest.Config{}, http.StatusOK, true},
		"a token that isn't known":   {rest.Config{BearerToken: "token"}, http.StatusUnauthorized, false},
		"a server that isn't itself": {rest.Config{BearerToken: "token"}, http.StatusServiceUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			connections := newOpen()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, says[r.URL.Path]) // who doesn't get it finds nothing
			}))
			s.Config.ConnState = connections.set
			s.StartTLS()
			t.Cleanup(s.Close)
			at := c.with
			at.Host, at.CAData = s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			for probe := range 3 {
				if got := ask(t.Context(), &at); got.available() != c.found {
					t.Fatalf("found %+v", got)
				}
				connections.none(t, probe+1)
			}
		})
	}
}

// Neither is one left to a server that says nothing, whose handshake the probe gave up.
func TestAProbeThatIsGivenUpLeavesNoConnection(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	connections := newOpen()
	for probe := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			c, err := frozen.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			connections.set(c, http.StateNew)
			go func() {
				_, _ = io.Copy(io.Discard, c) // until the other side closes it, with whatever error
				_ = c.Close()
				connections.set(c, http.StateClosed)
			}()
		}()
		if got := ask(ctx, &rest.Config{Host: "https://" + frozen.Addr().String(), BearerToken: "token"}); got.available() {
			t.Fatalf("found %+v", got)
		}
		connections.none(t, probe+1)
	}
}
