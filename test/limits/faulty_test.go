package limits_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// weather is how an API server behaves.
type weather int

const (
	fair weather = iota
	// mixed: some answers are slow, lost or refused; watches end in the middle of a line.
	mixed
	// refusing: all that it says is 429, 500 and 503.
	refusing
)

// retryAfter is what it asks for with each 429, in whole seconds.
const retryAfter = 2 * time.Second

// faulty stands between a part and the API server, with a weather that is the same for the same seed and order of requests.
type faulty struct {
	server *httptest.Server
	next   *httputil.ReverseProxy
	seed   uint64

	mu       sync.Mutex
	weather  weather
	requests uint64
	// since the weather changed:
	asked int
	told  map[string]time.Time // when it may be asked again
	early map[string]int       // how often it was asked before
}

func startFaulty(t *testing.T, hub *rest.Config, seed uint64) *faulty {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{Host: hub.Host, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CAData}})
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(hub.Host)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{seed: seed, told: map[string]time.Time{}, early: map[string]int{}}
	f.next = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if after, ok := r.Request.Context().Value(cutAfter{}).(int64); ok {
				r.Body = &cut{r.Body, after}
			}
			return nil
		},
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = f.next.ErrorLog
	f.server.StartTLS()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// through is a kubeconfig that goes through f.
func (f *faulty) through(t *testing.T, kubeconfig string) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cfg.Clusters {
		c.Server = f.server.URL
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// become changes the weather, ends what is open if it is to be refused, and returns what was asked for under the weather before.
func (f *faulty) become(w weather) (asked int, early map[string]int) {
	f.mu.Lock()
	asked, early = f.asked, f.early
	f.weather, f.asked, f.told, f.early = w, 0, map[string]time.Time{}, map[string]int{}
	f.mu.Unlock()
	if w == refusing {
		f.server.CloseClientConnections()
	}
	return asked, early
}

// note counts a request, and draws its luck.
func (f *faulty) note(what string) (weather, *rand.Rand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	f.asked++
	if time.Now().Before(f.told[what]) {
		f.early[what]++
	}
	return f.weather, rand.New(rand.NewPCG(f.seed, f.requests))
}

// refuse answers with a status; 429 says when to come again.
func (f *faulty) refuse(w http.ResponseWriter, what string, status int) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter/time.Second)))
		f.mu.Lock()
		f.told[what] = time.Now().Add(retryAfter - 100*time.Millisecond)
		f.mu.Unlock()
	}
	http.Error(w, "bad weather", status)
}

// ServeHTTP implements http.Handler.
func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") != ""
	what := fmt.Sprintf("%s %s watch=%v", r.Method, r.URL.Path, watch)
	now, luck := f.note(what)
	switch n := luck.IntN(100); {
	case now == fair:
	case now == refusing && n < 50, n < 8:
		f.refuse(w, what, http.StatusTooManyRequests)
		return
	case now == refusing && n < 75, n < 12:
		f.refuse(w, what, http.StatusInternalServerError)
		return
	case now == refusing, n < 20:
		f.refuse(w, what, http.StatusServiceUnavailable)
		return
	case n < 30:
		panic(http.ErrAbortHandler) // a reset; nobody was asked
	case n < 40 && !watch: // it is done, and the answer is lost
		r = cutting(r, 0)
	case watch && n < 80:
		r = cutting(r, luck.Int64N(20_000))
	case n < 70:
		select {
		case <-time.After(time.Duration(luck.IntN(1500)) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	f.next.ServeHTTP(w, r)
}
