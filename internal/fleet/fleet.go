package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	nodeCount  = 3
	proxyCount = 2
	// ProxyPool is the pool of both proxies, which the example classes name.
	ProxyPool = "edge"
)

var tenantNames = []string{"prod-eu", "prod-us"}

// Options of a fleet.
type Options struct {
	// Self is the path of the fairlead binary whose subcommands are started.
	Self string
	// KubeBinary is the path of the kube binary; "" looks where testkit does.
	KubeBinary string
	// Dir for data, logs and kubeconfigs; it must be empty or absent, and stays.
	// "" makes a temporary one.
	Dir string
	// Dataplane of the proxies. Default: builtin.
	Dataplane string
	// Namespaces puts the nodes, each proxy and the clients of each into network namespaces of their own, joined by links,
	// with IPv4 and IPv6. It needs root. Else all is on loopback.
	Namespaces bool
	// HostAddresses gives each proxy one address of its host's own, for pools of proxyHosts: see Proxy.HostWay.
	HostAddresses bool
	// Tenants is the number of tenant clusters, at most two: those of examples/hub.yaml.
	Tenants int
	// Fairness has the hub's API server share itself out among its users, by config/rbac/hub/fairness.yaml.
	Fairness bool
	// Seats is how many requests the hub's API server answers at once, where it shares itself out; 0: its default, 600.
	Seats int
	// Audit has each API server write an audit log.
	Audit bool
	// Profiles has each program serve its profiles at Program.Debug.
	Profiles bool
	// Say is told of the progress, and of programs that died; it may be called from any goroutine.
	Say func(format string, args ...any)
	// Died, if set, is told likewise of each end of a program that nobody asked for.
	Died func(what string)
}

// Fleet is a hub, tenant clusters, and our programs between them.
type Fleet struct {
	options Options
	// Dir holds NAME.log of each program, and a folder of each cluster.
	Dir     string
	Network *Network
	Hub     *Cluster
	Tenants []*Tenant
	Manager *Program
	Proxies []*Proxy

	mu     sync.Mutex
	deaths []string
}

// Tenant is a tenant cluster with its agent.
type Tenant struct {
	*Cluster
	Agent *Program
	Pods  *PodTracker
	relay *Relay // from its nodes, where they are elsewhere, to its API server
	own   string // the kubeconfig of its agent in its own cluster
}

// Proxy is one proxy process.
type Proxy struct {
	*Program
	// Metrics is where it serves its metrics.
	Metrics netip.AddrPort
	// own is its host's own address, if it was told one.
	own   netip.Addr
	at    func(netip.Addr) netip.Addr
	relay *Relay       // its way to the hub
	host  testkit.Host // where it runs; nil: here
	dial  traffic.Dial // from where clients ask it; nil: from here
	// ownSockets says that its data plane is its process, which must hand over.
	ownSockets bool
	// elders have handed over, and run until their last connection has ended.
	elders []*testkit.Process
}

// HandOver starts a binary beside the running process, which hands over to it and ends with its last connection.
func (p *Proxy) HandOver(binary string) error {
	before, err := p.beside(binary)
	if err == nil {
		p.elders = append(p.elders, before)
	}
	return err
}

// Restart starts it anew, as docs/running-proxies.md says for its data plane, so that no client notices. It returns when the next
// process runs, which need not have taken over yet.
func (p *Proxy) Restart(ctx context.Context) error {
	if p.ownSockets {
		return p.HandOver(p.Process.Command().Path)
	}
	return p.Program.Restart(ctx)
}

// CutOff lets no packet pass between it and the hub, and tells neither, until Reconnect.
func (p *Proxy) CutOff() { p.relay.Cut() }

// Reconnect lets it reach the hub again.
func (p *Proxy) Reconnect() { p.relay.Mend() }

// Elders are the processes that have handed over.
func (p *Proxy) Elders() []*testkit.Process { return p.elders }

// At returns where this proxy serves a granted address.
func (p *Proxy) At(a netip.Addr) netip.Addr { return p.at(a) }

// Way is how clients reach a granted address through this proxy.
func (p *Proxy) Way(a netip.Addr, port uint16) traffic.Way {
	return traffic.Way{Name: p.Name, Address: netip.AddrPortFrom(p.At(a), port), Dial: p.dial}
}

// HostWay is how clients reach a port of its host's own address, where the fleet has HostAddresses.
func (p *Proxy) HostWay(port uint16) traffic.Way {
	return traffic.Way{Name: p.Name, Address: netip.AddrPortFrom(p.own, port), Dial: p.dial}
}

// ToNode is how this proxy reaches a node.
func (p *Proxy) ToNode(node testkit.NodeSpec, port uint16) traffic.Way {
	w := traffic.Way{Name: node.Name, Address: netip.AddrPortFrom(node.Address, port)}
	if p.host != nil {
		w.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return p.host.Dial(ctx, net.Dialer{}, network, address)
		}
	}
	return w
}

// ClientsNamespace is a path that opens the network namespace of this proxy's clients; empty: they are on this host.
func (f *Fleet) ClientsNamespace(p *Proxy) string {
	if f.Network.world == nil {
		return ""
	}
	return f.Network.world.clientsPath(slices.Index(f.Proxies, p) + 1)
}

// Start starts a fleet with the example pools, classes and tenants. The caller calls
// Stop in any case, also after an error.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	f := &Fleet{options: o}
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{
		{"making room", f.makeRoom},
		{fmt.Sprintf("starting a hub and %d tenant clusters of %d nodes each", o.Tenants, nodeCount), f.startClusters},
		{"installing kinds and roles", f.install},
		{"starting the manager", f.startManager},
		{"applying examples/hub.yaml: pools, classes, tenants", f.applyHub},
		{"starting an agent in each tenant, and two proxies", f.startAgentsAndProxies},
		{"waiting until all nodes are known to the hub, and both proxies serve", f.awaitReady},
	} {
		began := time.Now()
		o.Say("  %s …", step.doing)
		if err := step.do(ctx); err != nil {
			return f, fmt.Errorf("%s: %w", step.doing, err)
		}
		if took := time.Since(began); took > time.Second {
			o.Say("    %s", took.Round(100*time.Millisecond))
		}
	}
	return f, nil
}

func (f *Fleet) makeRoom(context.Context) (err error) {
	if f.options.Namespaces {
		f.Network, err = newWorld(f.options.Tenants)
	} else {
		f.Network, err = claimNetwork()
	}
	if err != nil {
		return err
	}
	if f.options.Dir == "" {
		f.Dir, err = os.MkdirTemp("", "fairlead-demo-")
		return err
	}
	if f.Dir, err = filepath.Abs(f.options.Dir); err != nil {
		return err
	}
	return os.MkdirAll(f.Dir, 0o755)
}

func (f *Fleet) hubOptions() testkit.Options {
	o := testkit.Options{Name: "hub", PriorityAndFairness: f.options.Fairness}
	if n := f.options.Seats; n > 0 {
		writes := n / 3
		o.APIServerFlags = []string{fmt.Sprintf("--max-requests-inflight=%d", n-writes), fmt.Sprintf("--max-mutating-requests-inflight=%d", writes)}
	}
	return o
}

func (f *Fleet) startClusters(ctx context.Context) error {
	f.Tenants = make([]*Tenant, f.options.Tenants)
	errs := make([]error, f.options.Tenants+1)
	var all sync.WaitGroup
	all.Go(func() {
		var err error
		if f.Hub, err = f.startCluster(ctx, f.hubOptions()); err == nil {
			f.Hub.keep(f.died)
		}
		errs[f.options.Tenants] = err
	})
	for i, name := range tenantNames[:f.options.Tenants] {
		all.Go(func() { f.Tenants[i], errs[i] = f.startTenant(ctx, name, i+1) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *Fleet) startCluster(ctx context.Context, o testkit.Options) (*Cluster, error) {
	o.Dir, o.KubeBinary, o.Audit = filepath.Join(f.Dir, o.Name), f.options.KubeBinary, f.options.Audit
	if w := f.Network.world; w != nil {
		o.DualStack, o.NodesHost = true, w.nodesHost()
	}
	return startCluster(ctx, o)
}

func (f *Fleet) startTenant(ctx context.Context, name string, number int) (*Tenant, error) {
	c, err := f.startCluster(ctx, testkit.Options{Name: name})
	if err != nil {
		return nil, err
	}
	t := &Tenant{Cluster: c}
	if w := f.Network.world; w != nil {
		if t.relay, err = w.relayToNodes(c.APIServerAddress()); err != nil {
			return t, err
		}
	}
	nodes := make([]testkit.NodeSpec, nodeCount)
	for i := range nodes {
		nodes[i] = testkit.NodeSpec{Name: fmt.Sprintf("node-%d", i+1), Address: f.Network.node(number, i+1), Address6: f.Network.node6(number, i+1)}
	}
	if c.nodes, err = c.StartNodes(ctx, nodes); err != nil {
		return t, err
	}
	t.keep(f.died)
	t.Pods, err = trackPods(ctx, c)
	return t, err
}

func (f *Fleet) applyHub(ctx context.Context) error {
	objects, err := f.Network.Example("hub.yaml")
	if err != nil {
		return err
	}
	return f.Hub.Apply(ctx, objects...)
}

// awaitReady waits until the agents have told the hub of their nodes, and the proxies have applied what there is.
func (f *Fleet) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, t := range f.Tenants {
		err := testkit.Poll(ctx, 20*time.Millisecond, "the nodes of "+t.Name()+" in the hub", func(ctx context.Context) error {
			groups, known := &v1alpha1.TargetGroupList{}, 0
			if err := f.Hub.API.List(ctx, groups, client.InNamespace(t.Name())); err != nil {
				return err
			}
			for _, g := range groups.Items {
				known += len(g.Spec.Targets)
			}
			if known != nodeCount {
				return fmt.Errorf("%d are known", known)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.Proxies {
		err := testkit.Poll(ctx, 20*time.Millisecond, p.Name+" to serve", func(ctx context.Context) error {
			o := &v1alpha1.Proxy{}
			if err := f.Hub.API.Get(ctx, client.ObjectKey{Name: p.Name}, o); err != nil {
				return err
			}
			if o.Status.Phase != v1alpha1.ProxyServing {
				return fmt.Errorf("its phase is %q", o.Status.Phase)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// died notes and says that a program ended unasked.
func (f *Fleet) died(p *Program, err error) {
	what := fmt.Sprintf("%s died: %s", p.Name, lastLine(p.Process.LogTail(), err))
	f.mu.Lock()
	f.deaths = append(f.deaths, what)
	f.mu.Unlock()
	f.options.Say("  %s; it is restarted in %s, as systemd would do", what, restartAfter)
	if f.options.Died != nil {
		f.options.Died(what)
	}
}

// lastLine is what a program said last, or else how it ended.
func lastLine(log string, err error) string {
	if log = strings.TrimSpace(log); log != "" {
		return log[strings.LastIndexByte(log, '\n')+1:]
	}
	return fmt.Sprint(err)
}

// TakeDeaths returns what died since the last call.
func (f *Fleet) TakeDeaths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.deaths
	f.deaths = nil
	return d
}

// Stop kills everything. What is in Dir stays; Remove removes it.
func (f *Fleet) Stop() error {
	var errs []error
	programs, relays := []*Program{f.Manager}, []*Relay{}
	for _, p := range f.Proxies {
		programs, relays = append(programs, p.Program), append(relays, p.relay)
		for _, elder := range p.elders {
			errs = append(errs, elder.Kill())
		}
	}
	for _, t := range f.Tenants {
		if t != nil {
			programs = append(programs, t.Agent)
		}
	}
	for _, p := range programs {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	clusters := []*Cluster{f.Hub}
	for _, t := range f.Tenants {
		if t != nil {
			if t.Pods != nil {
				t.Pods.stop()
			}
			clusters, relays = append(clusters, t.Cluster), append(relays, t.relay)
		}
	}
	for _, c := range clusters {
		if c != nil {
			errs = append(errs, c.Stop(context.Background()))
		}
	}
	for _, r := range relays {
		if r != nil {
			r.Close()
		}
	}
	if f.Network != nil {
		f.Network.release()
	}
	return errors.Join(errs...)
}

// Remove removes the temporary directory that Start made.
func (f *Fleet) Remove() error {
	if f.Dir == "" || f.options.Dir != "" {
		return nil
	}
	return os.RemoveAll(f.Dir)
}
