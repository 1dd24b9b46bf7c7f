package patience

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// get asks an address for what an informer would.
func get(ctx context.Context, t *testing.T, address, query string) (*http.Response, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(Config(&rest.Config{Host: "http://" + address}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/pods?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(r)
	if err == nil {
		t.Cleanup(func() { res.Body.Close() })
	}
	return res, err
}

// closedAddress is one where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serveAfter begins to serve after a while: at first it answers 403, as often as refusals says.
func serveAfter(t *testing.T, address string, d time.Duration, refusals int32) *atomic.Int32 {
	t.Helper()
	asked := &atomic.Int32{}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) <= refusals {
			w.WriteHeader(http.StatusForbidden)
		}
	})}
	timer := time.AfterFunc(d, func() {
		if l, err := net.Listen("tcp", address); err == nil {
			_ = s.Serve(l)
		}
	})
	t.Cleanup(func() { timer.Stop(); s.Close() })
	return asked
}

func TestWatchWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	address := closedAddress(t)
	serveAfter(t, address, 300*time.Millisecond, 0)
	res, err := get(t.Context(), t, address, "watch=true")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
}

func TestWatchWaitsForAServerBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed := make(chan error, 1)
	go func() { // the first three find nobody behind it
		for range 3 {
			c, err := l.Accept()
			if err == nil {
				// All of the request is read, else the close would be a reset.
				_, err = http.ReadRequest(bufio.NewReader(c))
				err = errors.Join(err, c.Close())
			}
			if err != nil {
				closed <- err
				return
			}
		}
		s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		closed <- nil
		_ = s.Serve(l) // until the test ends
	}()
	res, err := get(t.Context(), t, l.Addr().String(), "watch=true")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

func TestWatchWaitsForTheRolesOfAServerThatIsBack(t *testing.T) {
	t.Parallel()
	address := closedAddress(t)
	asked := serveAfter(t, address, 200*time.Millisecond, 2)
	res, err := get(t.Context(), t, address, "resourceVersion=7")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

func TestRefusalOfAServerThatWasThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	res, err := get(t.Context(), t, s.Listener.Addr().String(), "watch=true")
	if err != nil || res.StatusCode != http.StatusForbidden {
		t.Fatalf("%v, %v", res, err)
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}

func TestOtherReadsFailAtOnce(t *testing.T) {
	t.Parallel()
	if _, err := get(t.Context(), t, closedAddress(t), ""); err == nil {
		t.Error("nobody listens, and there was an answer")
	}
}

func TestPatienceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := get(ctx, t, closedAddress(t), "watch=true"); err == nil {
		t.Error("nobody listens, and there was an answer")
	}
}
