package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeDataplane serves nothing, but keeps to the contract: it checks that
// changes lead from the former Program to the next, and fails at a set rate.
type fakeDataplane struct {
	t       *testing.T
	mu      sync.Mutex
	program *lb.Program
	applies int
	refuse  map[lb.Socket]string
	failing float64
	slow    time.Duration
	// without: everything is served without something.
	without bool
	// observation is what Observe says.
	observation dataplane.Observation
	changed     chan struct{}
	closed      bool
	journal     *journal
}

func (d *fakeDataplane) Name() string { return "fake" }

// Check finds, if so told, that something can't be done for any port.
func (d *fakeDataplane) Check(s *lb.Snapshot) []lb.Problem {
	var out []lb.Problem
	for _, f := range s.Frontends {
		if d.without {
			out = append(out, lb.Problem{
				Object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.ID.Tenant), Name: f.ID.LoadBalancer, Port: f.ID.Port, Protocol: f.ID.Protocol},
				Field:  "spec.proxy.clientAddress", Reason: "NotSupported", Message: "it can't be kept", Effect: lb.ServedWithout,
			})
		}
	}
	return out
}
func (d *fakeDataplane) Changed() <-chan struct{}    { return d.changed }
func (d *fakeDataplane) Close(context.Context) error { d.closed = true; return nil }
func (d *fakeDataplane) Observe() (o dataplane.Observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.observation
}
func (d *fakeDataplane) Recover(context.Context, *lb.Program) (dataplane.Drift, error) {
	return dataplane.Drift{}, nil
}

func (d *fakeDataplane) Apply(_ context.Context, next *lb.Program, c lb.Changes) (dataplane.Outcome, error) {
	time.Sleep(d.slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applies++
	if rand.Float64() < d.failing {
		return dataplane.Outcome{}, errors.New("failing now and then")
	}
	if again := lb.Diff(c.ApplyTo(d.program), next); !again.Empty() {
		d.t.Errorf("changes do not lead from the former Program to the next: %+v are left", again)
	}
	d.program = next
	d.journal.add("apply")
	out := dataplane.Outcome{How: dataplane.Hot}
	for _, l := range next.Listeners {
		if reason := d.refuse[l.Socket]; reason != "" {
			out.Refused = append(out.Refused, lb.Problem{
				Object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(l.Frontends[0].Tenant), Name: l.Frontends[0].LoadBalancer, Port: l.Socket.Port, Protocol: l.Socket.Protocol},
				Reason: reason, Message: "it is refused",
			})
		}
	}
	return out, nil
}

func (d *fakeDataplane) served() (sockets []string, applies int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program != nil {
		for _, l := range d.program.Listeners {
			sockets = append(sockets, l.Socket.String())
		}
	}
	return sockets, d.applies
}

func (d *fakeDataplane) fail(rate float64) { d.mu.Lock(); defer d.mu.Unlock(); d.failing = rate }

func (d *fakeDataplane) observe(o dataplane.Observation) {
	d.mu.Lock()
	d.observation = o
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// journal is the order in which things were done.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.lines
	j.lines = nil
	return out
}

// fakeChecker finds what it is told.
type fakeChecker struct {
	mu       sync.Mutex
	probes   []lb.Probe
	verdicts lb.Health
	changed  chan struct{}
}

func (c *fakeChecker) SetProbes(p map[lb.TenantID]map[lb.Probe]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[lb.Probe]struct{}{}
	for _, of := range p {
		maps.Copy(seen, of)
	}
	c.probes = slices.Collect(maps.Keys(seen))
}
func (c *fakeChecker) Verdicts() lb.Health      { c.mu.Lock(); defer c.mu.Unlock(); return c.verdicts }
func (c *fakeChecker) Changed() <-chan struct{} { return c.changed }

// find gives all probes this verdict.
func (c *fakeChecker) find(v lb.Verdict) {
	c.mu.Lock()
	next := lb.Health{}
	for _, p := range c.probes {
		if next[p.Check] == nil {
			next[p.Check] = lb.Verdicts{}
		}
		next[p.Check][p.Address] = v
	}
	c.verdicts = next
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// fakeNames stand for what the test says.
type fakeNames struct {
	mu        sync.Mutex
	wanted    []string
	addresses map[string][]netip.Addr
	errs      map[string]error
	changed   chan struct{}
}

func (n *fakeNames) SetNames(names map[lb.TenantID][]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = names["shop"]
}
func (n *fakeNames) Addresses() map[string][]netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses
}
func (n *fakeNames) Changed() <-chan struct{} { return n.changed }
func (n *fakeNames) Err(name string) error    { n.mu.Lock(); defer n.mu.Unlock(); return n.errs[name] }

// stand lets a name stand for these addresses, or fail.
func (n *fakeNames) stand(name string, err error, addresses ...string) {
	n.mu.Lock()
	n.addresses, n.errs = maps.Clone(n.addresses), maps.Clone(n.errs)
	n.addresses[name], n.errs[name] = nil, err
	for _, a := range addresses {
		n.addresses[name] = append(n.addresses[name], netip.MustParseAddr(a))
	}
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// world is a proxy over fakes; the test plays the watches.
type world struct {
	t       *testing.T
	hub     *fakeHub
	dp      *fakeDataplane
	checker *fakeChecker
	names   *fakeNames
	journal *journal
	proxy   *Proxy
	stop    func()
	version int
	// own addresses of the host.
	own []netip.Addr
}

// fakeSource leaves the Inbox to the test.
type fakeSource struct{}

func (fakeSource) Watch(ctx context.Context, _ *Inbox, _ *Own) { <-ctx.Done() }

// newWorld is to be called in a synctest bubble.
func newWorld(t *testing.T, stateDir string) *world {
	t.Helper()
	w := unstarted(t)
	w.start(stateDir)
	return w
}

func unstarted(t *testing.T) *world {
	j := &journal{}
	return &world{
		t: t, journal: j, hub: newFakeHub(j), version: 100,
		dp:      &fakeDataplane{t: t, refuse: map[lb.Socket]string{}, changed: make(chan struct{}, 1), journal: j},
		checker: &fakeChecker{changed: make(chan struct{}, 1)},
		names:   &fakeNames{addresses: map[string][]netip.Addr{}, errs: map[string]error{}, changed: make(chan struct{}, 1)},
	}
}

func (w *world) start(stateDir string) {
	o := Options{
		Name: "edge-1", Pool: "edge", Version: "test", Addresses: w.own, Hub: w.hub, Source: fakeSource{},
		NewBuilder: func() Builder {
			return build.New(build.Options{ProxyPool: "edge", Addresses: w.own, Check: w.dp.Check})
		},
		Dataplane: w.dp, Checker: w.checker, Names: w.names, StateDir: stateDir, ShutdownTimeout: time.Second,
		Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	w.proxy = New(o)
	w.hub.own = w.proxy.own
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.proxy.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("proxy: %v", err)
		}
	}
}

// restart starts the next process, whose data plane is empty, before the same hub; the former one was stopped.
func (w *world) restart(stateDir string) {
	w.dp = &fakeDataplane{t: w.t, refuse: map[lb.Socket]string{}, changed: make(chan struct{}, 1), journal: w.journal}
	w.start(stateDir)
}

func (w *world) next() string { w.version++; return strconv.Itoa(w.version) }

// list says that all five resources hold these objects.
func (w *world) list(objects ...Object) {
	by := map[Resource][]Object{}
	for _, o := range objects {
		by[resourceOf(o)] = append(by[resourceOf(o)], o.DeepCopyObject().(Object))
	}
	for r := range resources {
		w.proxy.inbox.Replace(r, by[r], w.next())
	}
}

// set says that an object is there, new or changed.
func (w *world) set(o Object) {
	o = o.DeepCopyObject().(Object)
	o.SetResourceVersion(w.next())
	w.proxy.inbox.Set(resourceOf(o), o)
}

func (w *world) delete(o Object) { w.proxy.inbox.Delete(resourceOf(o), keyOf(o), w.next()) }

func resourceOf(o Object) Resource {
	switch o.(type) {
	case *clusterv1.LoadBalancer:
		return LoadBalancers
	case *v1alpha1.TargetGroup:
		return TargetGroups
	case *v1alpha1.Address:
		return Addresses
	case *v1alpha1.LoadBalancerClass:
		return Classes
	}
	return Tenants
}

// status is the Proxy's, as the hub has it.
func (w *world) status() v1alpha1.ProxyStatus {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if px := w.hub.proxies["edge-1"]; px != nil {
		return *px.Status.DeepCopy()
	}
	return v1alpha1.ProxyStatus{}
}

func (w *world) report(namespace string) *v1alpha1.ProxyReport {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hub.reports[Key{namespace, "edge-1"}].DeepCopy()
}

func (w *world) statuses() int {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hub.statuses
}

// serves fails the test unless these sockets are listened on.
func (w *world) serves(want ...string) {
	w.t.Helper()
	got, _ := w.dp.served()
	if !slices.Equal(got, want) {
		w.t.Errorf("serves %v, wanted %v", got, want)
	}
}

// settle lets a time pass, and everything that is due in it happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func class() *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "class", Generation: 1},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}},
	}
}

// loadBalancer and its address, in a namespace.
func loadBalancer(namespace, name, address string) (*clusterv1.LoadBalancer, *v1alpha1.Address) {
	return &clusterv1.LoadBalancer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1},
			Spec: clusterv1.LoadBalancerSpec{
				ClassName: "edge", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}},
				Ports: []clusterv1.Port{{Port: 80, TargetPort: 8080}},
			},
		}, &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: address, UID: types.UID("a-" + address), Generation: 1},
			Spec: v1alpha1.AddressSpec{
				Address: address, Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
				Holders: []v1alpha1.Holder{{Namespace: namespace, Name: name, Ports: []string{"TCP/80"}}},
			},
		}
}

func targetGroup(namespace string, targets ...v1alpha1.Target) *v1alpha1.TargetGroup {
	return &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nodes-0", UID: types.UID("tg-" + namespace), Generation: 1, Labels: map[string]string{"x": "y"}},
		Spec:       v1alpha1.TargetGroupSpec{Targets: targets},
	}
}
