package member

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endpoints are the witness of LoadBalancers that a Service of the hub serves. Its implementation doesn't say whether it still sends to
// a target. So a target has gone when no EndpointSlice of the Service has it ready, read from the API server itself, and its
// connections have had their time since. Whose slice it is doesn't matter for that: the implementation sends to all alike.
type endpoints struct {
	of types.NamespacedName
	// service that it is, by name.
	service string
	// settle is how long connections have.
	settle time.Duration
	now    func() time.Time
	list   func(context.Context) ([]discoveryv1.EndpointSlice, error)
	// quiet notes whether a target that drains is ready anywhere, and returns since when it is not.
	quiet func(g *v1alpha1.TargetGroup, t *v1alpha1.Target, ready bool) time.Time

	slices []discoveryv1.EndpointSlice
	read   bool
	next   time.Duration
}

// endpointsOf the LoadBalancer's Service.
func (r *Reconciler) endpointsOf(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) witness {
	e := &endpoints{of: client.ObjectKeyFromObject(l), service: service.NameOf(l.Name), settle: settle(l, class), now: r.Now}
	e.list = func(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
		list := &discoveryv1.EndpointSliceList{}
		if err := r.Reader.List(ctx, list, client.InNamespace(l.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: e.service}); err != nil {
			return nil, fmt.Errorf("listing the EndpointSlices of Service %s/%s: %w", l.Namespace, e.service, err)
		}
		return list.Items, nil
	}
	e.quiet = func(g *v1alpha1.TargetGroup, t *v1alpha1.Target, ready bool) time.Time {
		return r.quiet(e.of, g, t, ready)
	}
	return e
}

// settle is how long connections of a member that leaves have: as long as proxies would leave them, or where those never cut, maxWait.
func settle(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) time.Duration {
	if d := build.DrainTimeout(l, class); d > 0 {
		return d
	}
	return machines.Held(build.KindOf(l), l).MaxWait
}

func (e *endpoints) still() string { return "" }

func (e *endpoints) keeps() string { return "" }

func (e *endpoints) pool() string { return "" }

func (e *endpoints) again() time.Duration { return e.next }

func (e *endpoints) sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	if !e.read {
		var err error
		if e.slices, err = e.list(ctx); err != nil {
			return nil, err
		}
		e.read = true
	}
	out := make([]rules.Sight, len(g.Spec.Targets))
	for at := range g.Spec.Targets {
		t := &g.Spec.Targets[at]
		entered(t) // what was quiet before it stood there so doesn't count
		if g.Drains(at) {
			out[at] = e.leaves(g, t)
		} else {
			out[at] = e.serves(g, t)
		}
	}
	return func(at int) rules.Sight { return out[at] }, nil
}

// leaves is what is seen of a target that drains.
func (e *endpoints) leaves(g *v1alpha1.TargetGroup, t *v1alpha1.Target) rules.Sight {
	s := rules.Sight{By: "Service " + e.service}
	_, ready := e.find(t, func(*discoveryv1.EndpointSlice) bool { return true })
	since := e.quiet(g, t, ready != "")
	if ready != "" {
		s.Waits = fmt.Sprintf("EndpointSlice %s has it ready", ready)
		return s
	}
	left := e.settle - e.now().Sub(since)
	if left <= 0 {
		s.Gone = true
		return s
	}
	if e.next == 0 || left < e.next {
		e.next = left
	}
	s.Waits = fmt.Sprintf("no EndpointSlice has it ready any more, and its connections have until %s to end", since.Add(e.settle).UTC().Format(time.RFC3339))
	return s
}

// serves is what is seen of a target that takes new connections, where it is ready.
func (e *endpoints) serves(g *v1alpha1.TargetGroup, t *v1alpha1.Target) rules.Sight {
	s := rules.Sight{By: "Service " + e.service, Live: 1}
	listed, ready := e.find(t, func(s *discoveryv1.EndpointSlice) bool { return service.LoadBalancerOf(s) == e.of.Name })
	switch {
	case ready != "":
		s.Healthy = 1
		return s
	case listed == "":
		s.Why = "no EndpointSlice lists it; an EndpointSlice holds addresses only"
	case t.Ready != nil && !*t.Ready && g.Labels[v1alpha1.LabelGeneratedFrom] == string(rules.Nodes):
		s.Why = "its Node isn't ready"
	case t.Ready != nil && !*t.Ready:
		s.Why = "its Cluster says that it isn't ready: see the conditions APIServerPodHealthy and NodeReady of its Machine"
	default:
		s.Why = fmt.Sprintf("EndpointSlice %s doesn't have it ready", listed)
	}
	s.Unhealthy = 1
	return s
}

// find names the first of some EndpointSlices that lists a target, and the first that has it ready; "": none.
func (e *endpoints) find(t *v1alpha1.Target, which func(*discoveryv1.EndpointSlice) bool) (listed, ready string) {
	var own []netip.Addr
	for _, a := range t.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil {
			own = append(own, ip.Unmap())
		}
	}
	for i := range e.slices {
		s := &e.slices[i]
		if !which(s) {
			continue
		}
		for _, x := range s.Endpoints {
			if !slices.ContainsFunc(x.Addresses, func(a string) bool {
				ip, err := netip.ParseAddr(a)
				return err == nil && slices.Contains(own, ip.Unmap())
			}) {
				continue
			}
			if listed == "" {
				listed = s.Name
			}
			if r := x.Conditions.Ready; ready == "" && (r == nil || *r) { // unset counts as ready
				ready = s.Name
			}
		}
	}
	return listed, ready
}

// quiet notes whether a target that drains is ready in any EndpointSlice, and returns since when it was seen to be in none.
func (r *Reconciler) quiet(of types.NamespacedName, g *v1alpha1.TargetGroup, t *v1alpha1.Target, ready bool) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := pin{of, string(g.UID), t.UID}
	p := r.pins[k]
	switch {
	case ready:
		p.quiet = time.Time{}
	case p.quiet.IsZero():
		p.quiet = r.Now()
	}
	r.pins[k] = p
	return p.quiet
}
