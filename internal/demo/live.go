package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/traffic"
	"k8s.io/apimachinery/pkg/api/meta"
)

// liveRate is the requests a second that each served port gets in the live view.
const liveRate = 40

// liveMost is how many ports get requests at the same time: more, and the live view is what the machine is busy with.
const liveMost = 16

// Run starts the fleet and the examples, tells a person what to try, and shows what
// happens until ctx ends. It then removes all it made.
func Run(ctx context.Context, o Options) error {
	began := time.Now()
	out := &screen{out: o.Out, redraws: o.Screen}
	say := out.say
	f, err := fleet.Start(ctx, o.fleet(say))
	keep := o.Keep
	defer func() {
		say("cleaning up …")
		end(f, keep, say)
	}()
	if err != nil {
		keep = true
		return fmt.Errorf("%w\nlogs are in %s", err, f.Dir)
	}
	for _, t := range f.Tenants {
		objects, err := f.Network.Example("web.yaml")
		if err != nil {
			return err
		}
		if err := t.Apply(ctx, objects...); err != nil {
			return err
		}
	}
	k, offers := &keys{Fleet: f, say: say}, ""
	if o.Keys != nil {
		offers = k.offers()
	}
	say("ready after %s\n%s", time.Since(began).Round(100*time.Millisecond), invitation(f, offers))
	v := &view{Fleet: f, screen: out, generator: traffic.NewGenerator(), served: map[servedPort]*live{}, unsure: k.replacing.Load}
	defer v.generator.Stop()
	if o.Keys == nil {
		return v.run(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { k.listen(ctx, o.Keys) })
	defer listening.Wait() // before the fleet ends
	defer cancel()
	return v.run(ctx)
}

// invitation is what a person can do now, with the keys that are offered.
func invitation(f *fleet.Fleet, offers string) string {
	t := f.Tenants[0]
	where := ""
	if path := f.ClientsNamespace(f.Proxies[0]); path != "" {
		where = fmt.Sprintf(`
Addresses are served in network namespaces of this demo. As a client of %s:
  nsenter --net=%s curl http://ADDRESS:8080/
`, f.Proxies[0].Name, path)
	}
	return fmt.Sprintf(`
kubeconfigs   hub      %s
              %s  %s
              %s  %s
logs          %s/*.log

Three things to try in another terminal:
  export KUBECONFIG=%s
  kubectl annotate node node-2 hollow.fairlead.dev/state=dead      # a node dies; …state- brings it back
  kubectl scale deployment web --replicas=6                         # Pods come and go
  kubectl expose deployment web --name=shop --type=LoadBalancer --port=80 --target-port=8080
  kubectl describe service shop                                     # where it is served or, on builtin, why port 80 may not be bound
%s
%s
Ctrl-C ends the demo.
`, f.Hub.Kubeconfig(), f.Tenants[0].Name(), f.Tenants[0].Kubeconfig(), f.Tenants[1].Name(), f.Tenants[1].Kubeconfig(), f.Dir, t.Kubeconfig(), where, offers)
}

// view is what a person sees.
type view struct {
	*fleet.Fleet
	screen    *screen
	generator *traffic.Generator
	served    map[servedPort]*live
	// unsure tells that what the hub lists is not all that there is.
	unsure func() bool
	// balancers and groups are what the hub said last when it was sure.
	balancers clusterv1.LoadBalancerList
	groups    v1alpha1.TargetGroupList
}

// servedPort is one port of one LoadBalancer.
type servedPort struct {
	tenant, service string
	address         netip.Addr
	port            uint16
}

func (s servedPort) String() string { return fmt.Sprintf("%s/%s:%d", s.tenant, s.service, s.port) }

// live is the traffic to one of them.
type live struct {
	remove func()
	before map[string]traffic.Count // by way, a second ago
}

func (v *view) run(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			rows, err := v.look(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				rows = append(rows, "the hub does not answer, this is what it said last: "+err.Error())
			}
			v.screen.show(rows)
		}
	}
}

// look reads the hub, sends traffic to what is served there, and returns the rows to show.
func (v *view) look(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 800*time.Millisecond)
	defer cancel()
	balancers, groups := &clusterv1.LoadBalancerList{}, &v1alpha1.TargetGroupList{}
	errHub := v.Hub.API.List(ctx, balancers)
	if errHub == nil {
		errHub = v.Hub.API.List(ctx, groups)
	}
	sure := errHub == nil && !v.unsure()
	if sure {
		v.balancers, v.groups = *balancers, *groups
	}
	members := map[string]string{}
	for _, g := range v.groups.Items {
		members[g.Namespace] = g.Status.Members
	}
	counts := map[string][]traffic.Count{}
	for _, c := range v.generator.Counts() {
		counts[c.Service] = append(counts[c.Service], c)
	}
	rows := []string{fmt.Sprintf("%-24s %-12s %-8s %-10s %s", "SERVICE", "ADDRESS", "MEMBERS", "REQUESTS/S", "FAILED SO FAR, BY PROXY")}
	seen := map[servedPort]bool{}
	for _, b := range v.balancers.Items {
		name := b.Name
		if origin := b.Annotations[v1alpha1.AnnotationOrigin]; origin != "" {
			name = origin[strings.LastIndexByte(origin, '/')+1:]
		}
		address := "-"
		if len(b.Status.Addresses) > 0 {
			address = b.Status.Addresses[0].Value
		}
		for _, port := range b.Spec.Ports {
			key := servedPort{tenant: b.Namespace, service: name, port: uint16(port.Port)}
			row := fmt.Sprintf("%-24s %-12s %-8s ", key, address, members[b.Namespace])
			if why := unserved(&b, port.Port); why != "" {
				rows = append(rows, row+why)
				continue
			}
			if a, err := netip.ParseAddr(address); err == nil {
				key.address = a
				seen[key] = true
				rows = append(rows, row+v.traffic(key, counts[key.String()]))
			}
		}
	}
	if sure {
		v.forget(seen)
	}
	slices.Sort(rows[1:])
	return rows, errHub
}

// unserved returns why a port is not served, or "".
func unserved(b *clusterv1.LoadBalancer, port int32) string {
	for _, p := range b.Status.Ports {
		if p.Port == port && p.Error != "" {
			return p.Error + ": " + p.Message
		}
	}
	ready := meta.FindStatusCondition(b.Status.Conditions, clusterv1.ConditionReady)
	switch {
	case ready == nil:
		return "…"
	case ready.Status != "True":
		return ready.Reason + ": " + ready.Message
	}
	return ""
}

// traffic sends requests to a port if nobody does yet, and says how they fare.
func (v *view) traffic(key servedPort, counts []traffic.Count) string {
	l := v.served[key]
	if l == nil && len(v.served) >= liveMost {
		return fmt.Sprintf("served; not tried, for %d others are", liveMost)
	}
	if l == nil {
		s := traffic.Service{Name: key.String(), Rate: liveRate}
		for _, p := range v.Proxies {
			s.Ways = append(s.Ways, p.Way(key.address, key.port))
		}
		v.served[key] = &live{remove: v.generator.Add(context.Background(), s), before: map[string]traffic.Count{}}
		return "…"
	}
	sent, failed := int64(0), []string{}
	for _, c := range counts {
		sent += c.Sent - l.before[c.Way].Sent
		failed = append(failed, fmt.Sprintf("%s %d", c.Way, c.Failed))
		l.before[c.Way] = c
	}
	return fmt.Sprintf("%-10d %s", sent, strings.Join(failed, "  "))
}

// forget stops the traffic to what is no longer served.
func (v *view) forget(seen map[servedPort]bool) {
	for key, l := range v.served {
		if !seen[key] {
			go l.remove() // waits for answers that are out
			delete(v.served, key)
		}
	}
}
