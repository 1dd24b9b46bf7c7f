package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/traffic"
)

const (
	// rate is the requests a second that each Service gets in a window, at least.
	rate = 200
	// held is the number of open connections to each Service that must stay.
	held = 50
	// fewest is the number of judged requests that a whole run must have made.
	fewest = 10000
)

// step is one clause of the story: an event, and a claim about it that can fail.
type step struct {
	name string
	// inNamespaces says that it needs what only network namespaces have: IPv6, routes.
	inNamespaces bool
	// beside says that it runs while the last step before it that isn't does, after those in between. Neither may disturb the other:
	// it frees no address that who is beside it may be given, and has none of its nodes.
	beside bool
	// again says that it can be told again where a window of it proved nothing: it leaves all as it found it.
	again bool
	// run returns what was measured.
	run func(context.Context, *story) (string, error)
	// plot of a long step: what happens, and what is expected. Nil: the name says it.
	plot func(*story) []string
}

// steps in the order of the story. Each needs the first, and no other. The drain comes before those of UDP, whose flows are open
// for a while after their last datagram.
var steps = []step{
	{name: "created", run: created},
	{name: "spread", run: spread},
	{name: "second-tenant", run: secondTenant, again: true},
	{name: "drain", run: drain, plot: drainPlot, again: true},
	{name: "two-ports", run: twoPorts},
	{name: "udp", run: udp},
	{name: "ipv6", inNamespaces: true, run: ipv6},
	{name: "client-address", inNamespaces: true, run: clientAddress},
	{name: "local-policy", run: localPolicy, plot: localPolicyPlot, again: true},
	{name: "scaled-up", run: scaledUp, beside: true, again: true},
	{name: "scaled-down", run: scaledDown, beside: true, again: true},
	{name: "quota", run: quota, beside: true},
	{name: "wanted-address", run: wantedAddress, beside: true},
	{name: "one-address", run: oneAddress, beside: true},
	{name: "hub-service", run: hubService, beside: true},
	{name: "node-killed", run: nodeKilled, again: true},
	{name: "manager-restart", run: managerRestart, again: true},
	{name: "agent-restart", run: agentRestart, again: true},
	{name: "hub-away", run: hubAway, plot: hubAwayPlot, again: true},
	{name: "hub-replaced", run: hubReplaced, plot: hubReplacedPlot, again: true},
	{name: "tenant-restored", run: tenantRestored, plot: tenantRestoredPlot, again: true},
	{name: "deleted", run: deleted},
	{name: "cluster-ip", run: clusterIP},
	{name: "pool-empty", run: poolEmpty},
	{name: "waiter", run: waiter},
	{name: "proxy-cut-off", run: proxyCutOff, plot: proxyCutOffPlot, again: true},
	{name: "class-unknown", run: classUnknown},
	{name: "port-refused", run: portRefused},
}

// Steps returns the names of the story's steps, in order.
func Steps() []string {
	names := []string{}
	for _, s := range steps {
		names = append(names, s.name)
	}
	return names
}

// story is what a step is told with.
type story struct {
	*common
	// busy is why windows of this step proved nothing.
	busy []string
}

// common is what the steps share.
type common struct {
	*fleet.Fleet
	// web holds each tenant's address of the Service web, in the order of the tenants.
	web []netip.Addr
	// inKernel says that the data plane rewrites packets: it binds no port, and tries no member twice.
	inKernel bool
	// away is how long the hub is.
	away time.Duration
	// judged counts requests, repeated steps that were told again.
	judged, repeated atomic.Int64
	// say prints a line, began is when the present step did that is beside no other.
	say   func(format string, args ...any)
	began time.Time
}

// note tells the person what happens within a step, and when.
func (s *common) note(format string, args ...any) {
	s.say("   %21.1fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// Check runs the story without a person, prints a line a step, and returns an
// error at the first that fails, with the reason and where the logs are.
func Check(ctx context.Context, o Options) error {
	selected, err := selectSteps(o.Only, o.namespaces())
	if err != nil {
		return err
	}
	began := time.Now()
	say := (&screen{out: o.Out}).say
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	options := o.fleet(say)
	options.Died = func(what string) { cancel(errors.New(what)) }
	f, err := fleet.Start(ctx, options)
	keep := true
	defer func() { end(f, o.Keep || keep, say) }()
	if err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, f.Dir)
	}
	say("  ready after %s; logs are in %s", time.Since(began).Round(100*time.Millisecond), f.Dir)
	s := &common{Fleet: f, inKernel: o.Dataplane == "nftables", away: cmp.Or(o.Away, time.Minute), say: say}
	for _, r := range rounds(selected) {
		if err := s.tell(ctx, r); err != nil {
			dumping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			if err := f.Dump(dumping); err != nil {
				say("   %s", err)
			}
			return fmt.Errorf("%w\nlogs and objects are in %s", err, f.Dir)
		}
	}
	if judged := s.judged.Load(); o.Only == "" && judged < fewest {
		return fmt.Errorf("only %d requests were judged in all, the story needs %d", judged, fewest)
	}
	keep = false
	repeated := ""
	if n := s.repeated.Load(); n > 0 {
		repeated = fmt.Sprintf(", told again %d times, for this machine was too busy", n)
	}
	say("%d steps hold, %d requests judged, %s in all%s", len(selected), s.judged.Load(), time.Since(began).Round(time.Second), repeated)
	return nil
}

// end stops the fleet, and removes its files unless they are to be kept.
func end(f *fleet.Fleet, keep bool, say func(string, ...any)) {
	err := f.Stop()
	if !keep {
		err = errors.Join(err, f.Remove())
	}
	if err != nil {
		say("cleaning up: %s", err)
	}
}

func selectSteps(only string, inNamespaces bool) ([]step, error) {
	var chosen []step
	for i, s := range steps {
		switch {
		case s.name == only && s.inNamespaces && !inNamespaces:
			return nil, fmt.Errorf("step %s needs network namespaces: choose a --dataplane other than %s", only, builtin)
		case (only == "" || s.name == only || i == 0) && (inNamespaces || !s.inNamespaces):
			s.beside = s.beside && only == ""
			chosen = append(chosen, s)
		}
	}
	if only == "" || len(chosen) > 1 || only == steps[0].name {
		return chosen, nil
	}
	return nil, fmt.Errorf("no step is called %q; there are %s", only, strings.Join(Steps(), ", "))
}

// holdAll has a window hold connections to each tenant's Service.
var holdAll = [tenants]int{held, held}

// services are what a window measures: each tenant's Service web, with that many connections held open to it.
func (s *story) services(held [tenants]int) []traffic.Service {
	services := []traffic.Service{}
	for i, t := range s.Tenants {
		ways := []traffic.Way{}
		for _, p := range s.Proxies {
			ways = append(ways, p.Way(s.web[i], webPort))
		}
		services = append(services, traffic.Service{Name: t.Name(), Ways: ways, Rate: rate, Held: held[i], Allow: t.Pods.Allow("web")})
	}
	return services
}

// measure is a window that is yet to be judged.
func (s *story) measure(ctx context.Context, held [tenants]int, event func(context.Context) error) ([]traffic.Report, error) {
	return s.around(ctx, s.services(held), event)
}

// around is measure of any Services.
func (s *story) around(ctx context.Context, services []traffic.Service, event func(context.Context) error) ([]traffic.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := traffic.NewGenerator()
	defer g.Stop()
	for _, service := range services {
		g.Add(ctx, service)
	}
	reports, err := g.Around(ctx, event)
	for _, r := range reports {
		s.judged.Add(int64(r.Sent))
	}
	return reports, err
}

// window measures an event during which nothing may fail, from 2 s before it to 5 s
// after it returned, and says what was measured.
func (s *story) window(ctx context.Context, event func(context.Context) error) ([]traffic.Report, string, error) {
	return s.windowHolding(ctx, holdAll, event)
}

// windowHolding is window with that many connections held open to each tenant's Service.
func (s *story) windowHolding(ctx context.Context, held [tenants]int, event func(context.Context) error) ([]traffic.Report, string, error) {
	reports, err := s.measure(ctx, held, event)
	return reports, counts(reports), errors.Join(err, s.nothingFailed(reports...))
}

// counts says what reports measured.
func counts(reports []traffic.Report) string {
	lines := []string{}
	for _, r := range reports {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// unprivilegedFrom80 tells whether this host lets anybody bind port 80.
func unprivilegedFrom80() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return false
	}
	first := 0
	if _, err := fmt.Sscan(string(b), &first); err != nil {
		return false
	}
	return first <= 80
}
