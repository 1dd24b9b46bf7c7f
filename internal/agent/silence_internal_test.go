package agent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// While a hub hangs two hundred Clusters wait for its word: those who ask for them wait for it once each, then one of them at a time,
// and so go on with whatever else is to be done. Once it answers all ask it.
func TestASilentHubIsAskedForOneOfMany(t *testing.T) {
	var hangs atomic.Bool
	var asked atomic.Int32
	hangs.Store(true)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if hangs.Load() {
			<-r.Context().Done() // when the asker has hung up
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	defer hub.Close()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds, err := mapper(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(&rest.Config{Host: hub.URL, QPS: -1}, client.Options{Scheme: scheme, Mapper: kinds})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &mirrors{hubLive: live, namespace: "mgmt", silent: &silence{now: func() time.Time { return now }}}
	const clusters, askers = 200, 4
	round := func(want string, most int32) {
		t.Helper()
		asked.Store(0)
		waiting := make(chan *clusterv1.LoadBalancer, clusters)
		for range clusters {
			waiting <- &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "api"}}
		}
		close(waiting)
		var all sync.WaitGroup
		for range askers {
			all.Go(func() {
				for l := range waiting {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					if got := r.Unsure(ctx, l); !strings.Contains(got, want) {
						t.Errorf("it says %q, not %q", got, want)
					}
					cancel()
				}
			})
		}
		all.Wait()
		if n := asked.Load(); n < 1 && most > 0 || n > most {
			t.Errorf("asked %d times, and %d at most are meant", n, most)
		}
	}
	round("can't be asked", askers)
	round("can't be asked", 0)
	now = now.Add(silentFor)
	round("can't be asked", 1)
	hangs.Store(false)
	now = now.Add(silentFor)
	round("", clusters)
	round("hasn't got it", clusters)
}

// An asker that is told to end has found out nothing: another one asks.
func TestWhoeverEndsHasFoundOutNothing(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &silence{now: func() time.Time { return now }}
	s.heard(context.DeadlineExceeded)
	if s.breaks() {
		t.Error("it is asked at once")
	}
	now = now.Add(silentFor)
	if !s.breaks() || s.breaks() {
		t.Error("one asks")
	}
	if s.heard(context.Canceled); !s.breaks() {
		t.Error("nobody asks again")
	}
	s.heard(nil)
	for range 2 {
		if !s.breaks() {
			t.Error("all ask")
		}
	}
}
