package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/demo"
	"fairlead.dev/fairlead/internal/testkit"
)

// page is what a person has read, and can be waited for.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
	read int
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// has looks for what is said after what was found last, and goes on behind it.
func (p *page) has(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.text.String()[p.read:]
	i := strings.Index(rest, what)
	if i < 0 {
		return fmt.Errorf("since %q nothing says so", rest[:min(len(rest), 500)])
	}
	p.read += i + len(what)
	return nil
}

// TestKeys presses each key of the live demo, as a person may, and reads what the demo says. What becomes of requests is judged by TestStory.
func TestKeys(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	keys, press := io.Pipe()
	defer press.Close()
	out := &page{}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	self := build(ctx, t)
	go func() { ended <- demo.Run(running, demo.Options{Self: self, Keys: keys, Out: out}) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(out.text.String())
		}
	}()
	await := func(what string) {
		t.Helper()
		if err := testkit.Poll(ctx, 50*time.Millisecond, what, func(context.Context) error { return out.has(what) }); err != nil {
			t.Fatal(err)
		}
	}
	await("Keys;")
	await("edge-1 0 edge-2 0") // requests are shown
	for _, x := range []struct{ key, said string }{
		{"p", "edge-2 does not reach the hub any more"},
		{"r", "first"}, // is refused while a proxy is cut off
		{"p", "edge-2 reaches the hub again"},
		{"n", "node-2 of prod-eu has died"},
		{"d", "node-3 of prod-eu drains"},
		{"h", "the hub is away"},
		{"", "this is what it said last"},
		{"h", "the hub is back"},
		{"d", "node-3 of prod-eu gets new connections again"},
		{"n", "node-2 of prod-eu is back"},
		{"b", "the Services of prod-us are there again"},
		{"r", "the new hub knows all that is served"},
		{"?", "Keys;"},
	} {
		if _, err := io.WriteString(press, x.key); err != nil {
			t.Fatal(err)
		}
		await(x.said)
	}
	await("prod-us/web:8080 127.80.")
}
