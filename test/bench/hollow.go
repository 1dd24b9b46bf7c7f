package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	agentservice "fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	hollowClass = "hollow"
	hollowNodes = 3
	// healthPort is where kube-proxy says that a node serves: one check a node, whatever the number of LoadBalancers.
	healthPort = 10256
	// hollowPort is of all hollow LoadBalancers, each of which has an address of its own. Nobody on this machine should listen there at
	// all addresses.
	hollowPort = 20000
	// sayEvery is how often a fill says how far it is.
	sayEvery = 15 * time.Second
)

// hollow are tenants without clusters: what their agents would write is written under the agents' identities, and their
// nodes are sockets of this program that answer health checks.
type hollow struct {
	*bench
	tenants []*hollowTenant
	servers []*http.Server
	made    int
}

type hollowTenant struct {
	name string
	hub  client.Client
	made int
}

func (b *bench) newHollow(ctx context.Context) (*hollow, error) {
	h := &hollow{bench: b}
	class := &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: hollowClass},
		Spec: v1alpha1.LoadBalancerClassSpec{
			Proxy: &v1alpha1.ClassProxy{Pool: fleet.ProxyPool}, AddressPools: []string{hollowClass},
			Defaults: &v1alpha1.ClassDefaults{HealthCheck: &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: "/healthz", Port: healthPort}},
		},
	}
	_, second := halves(b.Network.Wide())
	pool := &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: hollowClass},
		Spec:       v1alpha1.AddressPoolSpec{Ranges: []string{second.String()}},
	}
	for _, o := range []client.Object{pool, class} {
		if err := b.Hub.API.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("creating the pool and class of hollow tenants: %w", err)
		}
	}
	for i := range b.options.tenants {
		t, err := h.tenant(ctx, i)
		if err != nil {
			h.close()
			return nil, err
		}
		h.tenants = append(h.tenants, t)
	}
	return h, nil
}

func (h *hollow) close() {
	for _, s := range h.servers {
		s.Close()
	}
}

// halves splits a range.
func halves(p netip.Prefix) (first, second netip.Prefix) {
	b := p.Masked().Addr().As4()
	bits := p.Bits()
	b[bits/8] |= 0x80 >> (bits % 8)
	return netip.PrefixFrom(p.Masked().Addr(), bits+1), netip.PrefixFrom(netip.AddrFrom4(b), bits+1)
}

// tenant makes tenant i: its Tenant, the group of its nodes, and the nodes.
func (h *hollow) tenant(ctx context.Context, i int) (*hollowTenant, error) {
	t := &hollowTenant{name: fmt.Sprintf("hollow-%02d", i)}
	// Beside the fleet's own nodes, whose third byte is 1 or 2.
	nodes := netip.PrefixFrom(h.tenant0().Prev(), 24).Masked().Addr().As4()
	nodes[2] = byte(100 + i)
	o := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: t.name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{netip.PrefixFrom(netip.AddrFrom4(nodes), 24).String()}}}
	if err := h.Hub.API.Create(ctx, o); err != nil {
		return nil, fmt.Errorf("creating tenant %s: %w", t.name, err)
	}
	account := client.ObjectKey{Namespace: t.name, Name: v1alpha1.AgentServiceAccount}
	err := testkit.Poll(ctx, 20*time.Millisecond, "the manager to make "+account.String(), func(ctx context.Context) error {
		return h.Hub.API.Get(ctx, account, &v1.ServiceAccount{})
	})
	if err != nil {
		return nil, err
	}
	file, err := h.Hub.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if t.hub, err = client.New(config, client.Options{Scheme: h.Hub.API.Scheme()}); err != nil {
		return nil, err
	}
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: node.GroupName(0), Labels: node.Labels()}}
	for n := range hollowNodes {
		nodes[3] = byte(n + 1)
		a := netip.AddrFrom4(nodes)
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("node-%d", n), UID: fmt.Sprintf("%s-%d", t.name, n), Addresses: []string{a.String()}})
		if err := h.serveHealth(a); err != nil {
			return nil, err
		}
	}
	// The agent's identity gets its rights a moment after it was made.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t, testkit.Poll(ctx, 50*time.Millisecond, "the nodes of "+t.name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(t.hub.Create(ctx, g.DeepCopy()))
	})
}

// tenant0 is the address of the real tenant's first node.
func (h *hollow) tenant0() netip.Addr { return h.bench.tenant.Nodes()[0].Address }

func (h *hollow) serveHealth(a netip.Addr) error {
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, healthPort).String())
	if err != nil {
		return err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	h.servers = append(h.servers, s)
	go s.Serve(l)
	return nil
}

// loadBalancer is what an agent would make of a Service.
func (t *hollowTenant) loadBalancer(i int) *clusterv1.LoadBalancer {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%03d", i), UID: types.UID(fmt.Sprintf("%s-%d", t.name, i))},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports: []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: hollowPort, NodePort: int32(30000 + i)}},
		},
	}
	w := agentservice.Want(s, hollowClass, nil)
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: agentservice.Name(agentservice.Key(s)), Annotations: w.Annotations, Finalizers: []string{clusterv1.Finalizer}},
		Spec:       w.Spec,
	}
}

// filled is what it took to create LoadBalancers and have them programmed.
type filled struct {
	count  int
	took   time.Duration
	used   cpu
	writes writes
}

// each is what one of them cost some processes.
func (f *filled) each(processes ...string) (sum time.Duration) {
	for _, p := range processes {
		sum += f.used[p]
	}
	return sum / time.Duration(f.count)
}

// fill creates LoadBalancers until there are so many, spread over the tenants, and waits until all are programmed.
func (h *hollow) fill(ctx context.Context, size int) (*filled, error) {
	from, err := h.now()
	if err != nil {
		return nil, err
	}
	before := h.events.countProgrammed()
	f := &filled{count: size - h.made}
	began, usedBefore := time.Now(), h.cpuNow()
	done := h.startProfiles(fmt.Sprintf("fill-%d", size))
	if err := h.create(ctx, size); err != nil {
		return nil, err
	}
	say("       %d created after %s", f.count, time.Since(began).Round(time.Second))
	waiting, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	said := time.Now()
	err = testkit.Poll(waiting, 50*time.Millisecond, fmt.Sprintf("%d LoadBalancers more to be programmed", f.count), func(context.Context) error {
		n := h.events.countProgrammed() - before
		if time.Since(said) > sayEvery {
			said = time.Now()
			say("       %d programmed after %s", n, said.Sub(began).Round(time.Second))
		}
		if n < f.count {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.took = time.Since(began)
	if err := errors.Join(done(), h.settle(ctx, 3*time.Second)); err != nil {
		return nil, err
	}
	f.used = h.cpuNow().since(usedBefore)
	f.writes, _, err = h.writesSince(from)
	return f, err
}

// create creates LoadBalancers until there are so many.
func (h *hollow) create(ctx context.Context, size int) error {
	type job struct {
		t *hollowTenant
		i int
	}
	work := make(chan job)
	errs := make([]error, many)
	var all sync.WaitGroup
	for w := range many {
		all.Go(func() {
			for j := range work {
				if err := j.t.hub.Create(ctx, j.t.loadBalancer(j.i)); err != nil && errs[w] == nil {
					errs[w] = fmt.Errorf("creating a LoadBalancer of %s: %w", j.t.name, err)
				}
			}
		})
	}
	for ; h.made < size; h.made++ {
		t := h.tenants[h.made%len(h.tenants)]
		work <- job{t, t.made}
		t.made++
	}
	close(work)
	all.Wait()
	return errors.Join(errs...)
}

// someServed are the addresses and ports of the first, a middle and the last tenant's last LoadBalancer.
func (h *hollow) someServed(ctx context.Context) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, t := range []*hollowTenant{h.tenants[0], h.tenants[len(h.tenants)/2], h.tenants[len(h.tenants)-1]} {
		o := t.loadBalancer(t.made - 1)
		if err := h.Hub.API.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return nil, err
		}
		if len(o.Status.Addresses) == 0 {
			return nil, fmt.Errorf("%s/%s has no address", o.Namespace, o.Name)
		}
		a, err := netip.ParseAddr(o.Status.Addresses[0].Value)
		if err != nil {
			return nil, err
		}
		out = append(out, netip.AddrPortFrom(a, uint16(o.Spec.Ports[0].Port)))
	}
	return out, nil
}

// accepts waits until somebody accepts connections there.
func accepts(ctx context.Context, at netip.AddrPort) error {
	return testkit.Poll(ctx, 5*time.Millisecond, at.String()+" to accept connections", func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", at.String())
		if err != nil {
			return err
		}
		return c.Close()
	})
}
