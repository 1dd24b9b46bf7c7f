package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// askEvery is the time between two requests through one proxy, askWithin how long each may take.
	askEvery  = 10 * time.Millisecond
	askWithin = time.Second
	// slow is a request that a proxy tried at the dead node first. None takes a tenth of it otherwise.
	slow = 500 * time.Millisecond
	// unseen is how long nothing may have met the dead node, so that nothing will.
	unseen = 4 * time.Second
	// mostDeath: two checks 2 s apart that nobody answers within 1 s, after up to 2 s; a tenth of that by chance, and a moment.
	mostDeath = 6 * time.Second
)

// measureDeaths has a node die under each data plane, in fleets of their own.
func (b *bench) measureDeaths(ctx context.Context) error {
	for _, plane := range []string{"builtin", "nftables"} {
		if err := b.measureDeath(ctx, plane); err != nil {
			return fmt.Errorf("%s: %w", plane, err)
		}
	}
	return nil
}

// measureDeath has packets to a node vanish, as when its power is cut, and looks which requests met it still.
func (b *bench) measureDeath(ctx context.Context, plane string) (err error) {
	f, err := fleet.Start(ctx, fleet.Options{
		Self: filepath.Join(filepath.Dir(b.Dir), "fairlead"), KubeBinary: b.options.kube, Dir: filepath.Join(filepath.Dir(b.Dir), "death-"+plane),
		Tenants: 1, Namespaces: true, Dataplane: plane, Say: say,
	})
	defer func() { err = errors.Join(err, f.Stop()) }()
	if err != nil {
		return err
	}
	tenant := f.Tenants[0]
	objects, err := f.Network.Example("web.yaml")
	if err != nil {
		return err
	}
	if err := tenant.Apply(ctx, objects...); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := awaitWeb(waiting, tenant)
	if err != nil {
		return err
	}
	for _, p := range f.Proxies {
		way := p.Way(address, port)
		err := testkit.Poll(waiting, 50*time.Millisecond, p.Name+" to answer", func(ctx context.Context) error {
			_, err := way.Ask(ctx, "/")
			return err
		})
		if err != nil {
			return err
		}
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	last := &lastMet{}
	var all sync.WaitGroup
	for _, p := range f.Proxies {
		all.Go(func() { last.ask(asking, p.Way(address, port)) })
	}
	died := time.Now()
	if err := kill(ctx, tenant, tenant.Nodes()[1].Address); err != nil {
		return err
	}
	err = testkit.Poll(waiting, 20*time.Millisecond, "no request to meet the dead node", func(context.Context) error {
		met := last.when()
		if met.Before(died) {
			met = died
		}
		if left := unseen + askWithin - time.Since(met); left > 0 {
			return fmt.Errorf("for another %s", left)
		}
		return nil
	})
	stop()
	all.Wait()
	if err != nil {
		return err
	}
	if last.when().Before(died) {
		return errors.New("no request met the dead node: nothing was measured")
	}
	b.add("a node dies ("+plane+"): the last connection to it", "s", last.when().Sub(died).Seconds(), mostDeath.Seconds(), fmt.Sprintf("two checks 2 s apart, 1 s each to answer, and a moment; %d requests met it", last.met))
	return nil
}

// awaitWeb waits until the Service web has an address.
func awaitWeb(ctx context.Context, t *fleet.Tenant) (a netip.Addr, err error) {
	return a, testkit.Poll(ctx, 50*time.Millisecond, "the address of web", func(ctx context.Context) error {
		s := &v1.Service{}
		if err := t.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, s); err != nil {
			return err
		}
		for _, i := range s.Status.LoadBalancer.Ingress {
			if parsed, err := netip.ParseAddr(i.IP); err == nil && parsed.Is4() {
				a = parsed
				return nil
			}
		}
		return errors.New("it has none")
	})
}

// kill drops all packets to a node, in the network namespace of the nodes.
func kill(ctx context.Context, t *fleet.Tenant, node netip.Addr) error {
	for _, p := range t.Processes() {
		if !strings.HasSuffix(p.Name(), " nodes") {
			continue
		}
		rule := fmt.Sprintf("table inet bench { chain in { type filter hook input priority -10; ip daddr %s drop; }; }", node)
		if out, err := exec.CommandContext(ctx, "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", p.PID()), "nft", rule).CombinedOutput(); err != nil {
			return fmt.Errorf("killing node %s: %w: %s", node, err, out)
		}
		return nil
	}
	return fmt.Errorf("%s has no nodes", t.Name())
}

// lastMet is when the last request began that met the dead node, and how many did.
type lastMet struct {
	mu  sync.Mutex
	at  time.Time
	met int
}

func (l *lastMet) when() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// ask asks again and again, and waits for no answer before it asks the next time.
func (l *lastMet) ask(ctx context.Context, way traffic.Way) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all.Go(func() {
			within, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			began := time.Now()
			_, err := way.Ask(within, "/")
			if ctx.Err() != nil || err == nil && time.Since(began) < slow {
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.met++
			if began.After(l.at) {
				l.at = began
			}
		})
	}
}
