package capi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

const (
	// visitPatience is how long an answer may take. It is long, so that a busy machine isn't taken for a lost request.
	visitPatience = 10 * time.Second
	// holders hold a watch each.
	holders = 2
	// apart is how far from each other failed requests are that belong to two outages.
	apart = time.Second
	clock = "15:04:05.000"
)

// visitEvery is the time between two requests, each on a connection of its own.
var visitEvery = flag.Duration("every", 40*time.Millisecond, "`time` between two requests to a control plane")

// visitor is a client of the workload cluster's API server that tries nothing twice: requests at a steady pace, and watches that are
// held, and begun again when they end.
type visitor struct {
	t      testing.TB
	url    string
	client *tls.Config
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	sent     int
	answered []time.Time    // when requests were begun that got a good answer
	members  map[string]int // answers by who gave them
	watched  map[string]int // watches by who they are with
	failures []failure
	excused  time.Time      // what was begun before may be lost
	ends     map[string]int // watches that ended, by how
}

// failure is a request that got no good answer, or a watch that couldn't be begun.
type failure struct {
	at  time.Time
	why string
}

// startVisitor begins to visit a server, until leave.
func startVisitor(t testing.TB, url string, client *tls.Config) *visitor {
	ctx, cancel := context.WithCancel(context.Background())
	v := &visitor{t: t, url: url, client: client, cancel: cancel, members: map[string]int{}, watched: map[string]int{}, ends: map[string]int{}}
	v.all.Go(func() { v.pace(ctx) })
	for range holders {
		v.all.Go(func() { v.hold(ctx) })
	}
	t.Cleanup(v.leave)
	return v
}

// leave waits for the answers that are out.
func (v *visitor) leave() {
	v.cancel()
	v.all.Wait()
}

// pace begins requests evenly: a slow answer delays no other request, and one that is late is begun all the same.
func (v *visitor) pace(ctx context.Context) {
	paths := []string{"/readyz", "/api"}
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		v.all.Go(func() { v.ask(context.WithoutCancel(ctx), paths[n%len(paths)]) })
		next = next.Add(*visitEvery)
		timer.Reset(time.Until(next))
	}
}

func (v *visitor) ask(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(ctx, visitPatience)
	defer cancel()
	began := time.Now()
	who, err := visit(ctx, v.client, v.url+path)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent++
	if err != nil {
		v.failures = append(v.failures, failure{began, err.Error()})
		return
	}
	v.answered = append(v.answered, began)
	v.members[who]++
}

// hold watches Nodes, again and again.
func (v *visitor) hold(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		member, end := v.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		v.mu.Lock()
		if member == "" {
			v.failures = append(v.failures, failure{began, "beginning a watch: " + end})
		} else {
			v.ends[end]++
		}
		v.mu.Unlock()
		if member != "" {
			continue
		}
		select { // what refuses isn't asked without a pause
		case <-ctx.Done():
		case <-time.After(*visitEvery):
		}
	}
}

// watch returns how it ended, and who it was with; "" if it didn't begin.
func (v *visitor) watch(ctx context.Context) (member, end string) {
	transport := &http.Transport{TLSClientConfig: v.client, DisableKeepAlives: true, ResponseHeaderTimeout: visitPatience, TLSHandshakeTimeout: visitPatience}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+"/api/v1/nodes?watch=true", nil)
	if err != nil {
		return "", err.Error()
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err.Error()
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", res.Status
	}
	member = res.Header.Get(memberHeader)
	v.watches(member, 1)
	defer v.watches(member, -1)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return member, "cut"
	}
	return member, "ended"
}

func (v *visitor) watches(member string, more int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watched[member] += more
}

// lost is what became of the visits to a control plane.
type lost struct {
	sent, failed int // requests; failed ones with watches that couldn't be begun
	// longest is the longest time in which no request was begun that got a good answer.
	longest time.Duration
}

// worth is how long as many requests are sent as were lost.
func (l lost) worth() time.Duration { return time.Duration(l.failed) * *visitEvery }

// lost is what became of the visits so far.
func (v *visitor) lost() lost {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := lost{sent: v.sent, failed: len(v.failures)}
	slices.SortFunc(v.answered, time.Time.Compare)
	for i, at := range v.answered {
		if i > 0 {
			l.longest = max(l.longest, at.Sub(v.answered[i-1]))
		}
	}
	return l
}

// excuse has it count for nothing what is lost of what has been begun.
func (v *visitor) excuse() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.excused = time.Now()
}

// unexcused is how many requests and watches have failed that nothing excuses.
func (v *visitor) unexcused() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.failures {
		if f.at.After(v.excused) {
			n++
		}
	}
	return n
}

// failed is how many requests and watches have failed so far.
func (v *visitor) failed() int { return v.lost().failed }

// more waits until that many more requests have been answered, well or not.
func (v *visitor) more(requests int) {
	v.t.Helper()
	until := v.lost().sent + requests
	kubetest.Eventually(v.t, time.Duration(requests)**visitEvery+soon, fmt.Sprintf("%d more visits", requests), func(context.Context) error {
		if sent := v.lost().sent; sent < until {
			return fmt.Errorf("there were %d", sent-until+requests)
		}
		return nil
	})
}

// watchedMember is a Machine that a watch is held with.
func (v *visitor) watchedMember() string {
	v.t.Helper()
	with := ""
	kubetest.Eventually(v.t, soon, "a watch", func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		for member, n := range v.watched {
			if n > 0 {
				with = member
				return nil
			}
		}
		return errors.New("none is held")
	})
	return with
}

// ended is how many watches ended in a way.
func (v *visitor) ended(how string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ends[how]
}

// of is how many answers a Machine gave.
func (v *visitor) of(machine string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.members[machine]
}

// String tells of the visits so far: outages, who answered, what became of the watches.
func (v *visitor) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := &strings.Builder{}
	fmt.Fprintf(b, "%d requests, %d failed; watches ended: %v", v.sent, len(v.failures), v.ends)
	slices.SortFunc(v.failures, func(a, b failure) int { return a.at.Compare(b.at) })
	for i := 0; i < len(v.failures); {
		last := i
		for last+1 < len(v.failures) && v.failures[last+1].at.Sub(v.failures[last].at) < apart {
			last++
		}
		first := v.failures[i]
		fmt.Fprintf(b, "\n  %s: %d failed within %s: %s", first.at.Format(clock), last-i+1,
			v.failures[last].at.Sub(first.at).Round(time.Millisecond), first.why)
		i = last + 1
	}
	for _, m := range slices.Sorted(maps.Keys(v.members)) {
		fmt.Fprintf(b, "\n  %d answers of %s", v.members[m], m)
	}
	return b.String()
}
