package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What carries the client's connections, in the order of a round; the round then goes back the same way.
// What is to be compared most exactly stands in the middle.
const (
	direct  = "direct"
	haproxy = "haproxy"
)

var carriers = []string{direct, haproxy, inGo, ours, hands}

// measure is what is measured of each.
type measure struct {
	name, unit  string
	path        string
	reconnect   bool
	connections int // on each of two threads
	value       func(loadResult) float64
}

var measures = []measure{
	{"new connections", "/s", closePath, true, 32, perSecond},
	{"requests kept alive", "/s", smallPath, false, 32, perSecond},
	{"throughput", "MB/s", bigPath, false, 8, func(r loadResult) float64 { return float64(r.Bytes) / r.Seconds / 1e6 }},
}

func perSecond(r loadResult) float64 { return float64(r.Requests) / r.Seconds }

// slice is one carrier's turns in one round, for one measure: their medians, so that what else the machine does for a
// moment costs one turn and not the round.
type slice struct {
	Value float64 `json:"value"`
	// P50 and P99 of a request's latency, with its handshake where it has one, in microseconds.
	P50     int64  `json:"p50"`
	P99     int64  `json:"p99"`
	Failed  int    `json:"failed"`
	Failure string `json:"failure,omitempty"`
}

// rounds are the slices of one measure by carrier, one a round.
type rounds map[string][]slice

func (r rounds) values(carrier string) []float64 {
	var out []float64
	for _, s := range r[carrier] {
		out = append(out, s.Value)
	}
	return out
}

// traffic is what part one needs.
type traffic struct {
	*bench
	generator *helper
	targets   map[string][]netip.AddrPort
	planes    map[string]*helper
}

// measureTraffic sends the same load through each carrier, in turn, round by round.
func (b *bench) measureTraffic(ctx context.Context) (err error) {
	t := &traffic{bench: b, targets: map[string][]netip.AddrPort{}, planes: map[string]*helper{}}
	net, err := newNetwork()
	if err != nil {
		return err
	}
	defer net.Close()
	var stops []func()
	defer func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	}()
	addresses := members(2)
	for i, h := range net.backends {
		s, err := h.start("server")
		if err != nil {
			return err
		}
		stops = append(stops, s.stop)
		p := serveParams{HTTP: []netip.AddrPort{netip.AddrPortFrom(addresses[i], httpPort)}, CPUs: b.cpus}
		if err := s.call(ctx, "serve", p, nil); err != nil {
			return err
		}
		t.targets[direct] = append(t.targets[direct], p.HTTP...)
	}
	if t.generator, err = net.client.start("generator"); err != nil {
		return err
	}
	stops = append(stops, t.generator.stop)
	for _, name := range carriers {
		lb, err := net.balancer(name)
		if err != nil {
			return err
		}
		if name != direct {
			t.targets[name] = []netip.AddrPort{netip.AddrPortFrom(lb.service, servicePort)}
		}
		stop, err := t.carry(ctx, net, lb, addresses)
		if err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
		stops = append(stops, stop)
	}
	// Each has had load before the first round counts.
	for _, name := range carriers {
		for _, m := range measures {
			if _, err := t.load(ctx, name, m, b.turn); err != nil {
				return err
			}
		}
	}
	for round := range b.rounds {
		if err := t.round(ctx, round); err != nil {
			return err
		}
	}
	if b.profile != "" {
		return t.profiles(ctx)
	}
	return nil
}

// carry sets up one carrier on its host. The function returned ends it.
func (t *traffic) carry(ctx context.Context, net *network, lb *balancer, addresses []netip.Addr) (stop func(), err error) {
	switch lb.Name() {
	case direct:
		return func() {}, net.straight(lb)
	case hands:
		return func() {}, lb.nft(ctx, handmadeRules(lb.service, addresses))
	case haproxy:
		return t.haproxy(ctx, lb, addresses)
	}
	p, err := lb.start("plane")
	if err != nil {
		return nil, err
	}
	t.planes[lb.Name()] = p
	s := shape{Frontends: t.frontends, Members: addresses, Service: lb.service, MemberPort: httpPort, KeepClient: lb.Name() == ours}
	err = errors.Join(err, p.call(ctx, "new", planeParams{lb.Name(), s}, nil))
	if err == nil {
		err = p.call(ctx, "load", nothing{}, nil)
	}
	if err == nil && lb.Name() == ours {
		err = lb.set(forgetful)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p.stop, nil
}

// handmadeRules are what one writes by hand for one service.
func handmadeRules(service netip.Addr, members []netip.Addr) string {
	return fmt.Sprintf(`table ip handmade {
	chain prerouting {
		type nat hook prerouting priority dstnat
		ip daddr %s tcp dport %d dnat to numgen inc mod 2 map { 0 : %s, 1 : %s } : %d
	}
}
`, service, servicePort, members[0], members[1], httpPort)
}

func (b *balancer) nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := b.spawn(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, said.String())
	}
	return b.set(forgetful)
}

// haproxy is a plain configuration by hand: two threads, as there are two processors.
func (t *traffic) haproxy(ctx context.Context, lb *balancer, members []netip.Addr) (stop func(), err error) {
	var c strings.Builder
	fmt.Fprintf(&c, "global\n  maxconn 4000\n  nbthread %d\n", len(t.cpus))
	fmt.Fprintf(&c, "defaults\n  mode tcp\n  maxconn 4000\n  timeout connect 1s\n  timeout client 1m\n  timeout server 1m\n")
	fmt.Fprintf(&c, "listen service\n  bind %s:%d\n  balance roundrobin\n", lb.service, servicePort)
	for i, m := range members {
		fmt.Fprintf(&c, "  server m%d %s:%d\n", i, m, httpPort)
	}
	cmd := exec.Command("haproxy", "-db", "-f", "/dev/stdin")
	cmd.Stdin, cmd.Stderr = strings.NewReader(c.String()), os.Stderr
	if err := lb.spawn(cmd); err != nil {
		return nil, err
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	return stop, nil
}

// load is one turn.
func (t *traffic) load(ctx context.Context, carrier string, m measure, d time.Duration) (loadResult, error) {
	var r loadResult
	var err error
	p := loadParams{Targets: t.targets[carrier], Path: m.path, Reconnect: m.reconnect, Connections: m.connections, Duration: d, CPUs: t.cpus}
	// A proxy that has just been started may not listen yet.
	for deadline := time.Now().Add(patience); ; pause(10 * time.Millisecond) {
		if err = t.generator.call(ctx, "load", p, &r); err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return r, fmt.Errorf("%s through %s: %w", m.name, carrier, err)
	}
	if r.Requests == 0 && m.path != bigPath {
		return r, fmt.Errorf("%s through %s: no answer; first failure: %s", m.name, carrier, r.Failure)
	}
	return r, nil
}

// round measures all carriers there and back and there again, so that a machine that slows down or speeds up
// meanwhile favours none; every other way the last pair changes places.
func (t *traffic) round(ctx context.Context, round int) error {
	for _, m := range measures {
		turns := map[string][]loadResult{}
		for turn := range t.turns {
			order := slices.Clone(carriers)
			if n := len(order); (round+turn/2)%2 == 1 {
				order[n-1], order[n-2] = order[n-2], order[n-1]
			}
			if turn%2 == 1 {
				slices.Reverse(order)
			}
			for _, carrier := range order {
				r, err := t.load(ctx, carrier, m, t.turn)
				if err != nil {
					return err
				}
				turns[carrier] = append(turns[carrier], r)
			}
		}
		line := fmt.Sprintf("round %2d %-20s", round+1, m.name)
		for _, carrier := range carriers {
			s := join(m, turns[carrier])
			if t.traffic[m.name] == nil {
				t.traffic[m.name] = rounds{}
			}
			t.traffic[m.name][carrier] = append(t.traffic[m.name][carrier], s)
			line += fmt.Sprintf("  %s %.0f", carrier, s.Value)
			if s.Failed > 0 {
				line += fmt.Sprintf(" (%d failed: %s)", s.Failed, s.Failure)
			}
		}
		say("%s %s", line, m.unit)
	}
	return nil
}

// join makes one slice of the turns of a round.
func join(m measure, turns []loadResult) slice {
	var s slice
	var values []float64
	var p50, p99 []time.Duration
	for _, r := range turns {
		values, p50, p99 = append(values, m.value(r)), append(p50, r.P50), append(p99, r.P99)
		s.Failed += r.Failed
		if s.Failure == "" {
			s.Failure = r.Failure
		}
	}
	s.Value = intervalOf(values).Median
	s.P50, s.P99 = medianOf(p50).Microseconds(), medianOf(p99).Microseconds()
	return s
}

// profiles takes a CPU profile of our data planes under each measure, after all rounds.
func (t *traffic) profiles(ctx context.Context) error {
	if err := os.MkdirAll(t.profile, 0o755); err != nil {
		return err
	}
	dir, err := filepath.Abs(t.profile)
	if err != nil {
		return err
	}
	for name, p := range t.planes {
		for _, m := range measures {
			file := filepath.Join(dir, name+"-"+strings.ReplaceAll(m.name, " ", "-")+".pprof")
			if err := p.call(ctx, "profile", file, nil); err != nil {
				return err
			}
			if _, err := t.load(ctx, name, m, 3*time.Second); err != nil {
				return err
			}
			if err := p.call(ctx, "profiled", nothing{}, nil); err != nil {
				return err
			}
			say("wrote %s", file)
		}
	}
	return nil
}
