package traffic

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// spare is what is sent above Service.Rate, so that a busy machine still shows the rate.
const spare = 1.1

// Generator sends requests to its Services for as long as it runs and remembers
// each one. Its methods may be called from several goroutines.
type Generator struct {
	start time.Time // all times are offsets from here, on the monotonic clock

	mu      sync.Mutex
	streams []*stream
	all     sync.WaitGroup
}

// stream is the requests to one Service.
type stream struct {
	service Service
	stop    context.CancelFunc
	failed  []atomic.Int64 // by way
	asked   []atomic.Int64 // by way

	mu      sync.Mutex
	records []record           // in the order of begun
	settled int                // all records before this one have ended
	who     map[Identity]int32 // identities, so that a record is small
	names   []Identity
	errors  []string // texts of failures, each once
	texts   map[string]int32
}

// record is one request.
type record struct {
	begun   time.Duration
	took    time.Duration // 0: not finished
	way     int32
	who     int32 // index of names, -1: nobody
	text    int32 // index of errors
	failure Failure
}

// NewGenerator returns a Generator without Services.
func NewGenerator() *Generator { return &Generator{start: time.Now()} }

// Add starts sending to a Service, until ctx ends or the returned function is
// called; the function waits for the answers that are out.
func (g *Generator) Add(ctx context.Context, s Service) (remove func()) {
	ctx, cancel := context.WithCancel(ctx)
	st := &stream{
		service: s, stop: cancel, failed: make([]atomic.Int64, len(s.Ways)), asked: make([]atomic.Int64, len(s.Ways)),
		who: map[Identity]int32{}, texts: map[string]int32{},
	}
	g.mu.Lock()
	g.streams = append(g.streams, st)
	g.mu.Unlock()
	done := make(chan struct{})
	g.all.Go(func() {
		defer close(done)
		g.pace(ctx, st)
	})
	return func() {
		cancel()
		<-done
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, other := range g.streams {
			if other == st {
				g.streams = append(g.streams[:i:i], g.streams[i+1:]...)
				break
			}
		}
	}
}

// Stop ends all streams and waits for the answers that are out.
func (g *Generator) Stop() {
	for _, st := range g.snapshot() {
		st.stop()
	}
	g.all.Wait()
}

// Count is how many requests a Service got through one Way, and how many failed, as far as answers
// are in. Answers of the wrong Pod are not told apart here: that is for Report.
type Count struct {
	Service, Way string
	Sent, Failed int64
}

// Counts returns the counts so far, for a live view.
func (g *Generator) Counts() []Count {
	counts := []Count{}
	for _, st := range g.snapshot() {
		for i, w := range st.service.Ways {
			counts = append(counts, Count{st.service.Name, w.Name, st.asked[i].Load(), st.failed[i].Load()})
		}
	}
	return counts
}

func (g *Generator) snapshot() []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*stream{}, g.streams...)
}

// pace begins requests evenly, in open loop: a slow answer delays no other
// request. What a busy machine held up is begun late, never left out.
func (g *Generator) pace(ctx context.Context, st *stream) {
	out := sync.WaitGroup{}
	defer out.Wait()
	interval := time.Duration(float64(time.Second) / (float64(st.service.Rate) * spare))
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		way := n % len(st.service.Ways)
		i := st.begin(time.Since(g.start), way)
		out.Go(func() {
			began := time.Now()
			a, err := ask(context.WithoutCancel(ctx), st.service.dial(st.service.Ways[way]), st.service.Ways[way].Address, "/")
			st.end(i, time.Since(began), a.Identity, err)
		})
		next = next.Add(interval)
		timer.Reset(time.Until(next))
	}
}

// unfinished tells whether a request begun before that moment has no end yet.
func (st *stream) unfinished(before time.Duration) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range st.records[st.settled:] {
		r := &st.records[st.settled+i]
		if r.begun >= before {
			break
		}
		if r.took == 0 {
			st.settled += i
			return true
		}
	}
	return false
}

func (st *stream) begin(at time.Duration, way int) int {
	st.asked[way].Add(1)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.records = append(st.records, record{begun: at, way: int32(way), who: -1, text: -1})
	return len(st.records) - 1
}

func (st *stream) end(i int, took time.Duration, who Identity, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := &st.records[i]
	r.took = max(took, 1)
	if err != nil {
		st.failed[r.way].Add(1)
		r.failure = KindOf(err)
		text := err.Error()
		if _, known := st.texts[text]; !known && len(st.errors) < 100 {
			st.texts[text] = int32(len(st.errors))
			st.errors = append(st.errors, text)
		}
		if j, known := st.texts[text]; known {
			r.text = j
		}
		return
	}
	j, known := st.who[who]
	if !known {
		j = int32(len(st.names))
		st.who[who] = j
		st.names = append(st.names, who)
	}
	r.who = j
}
