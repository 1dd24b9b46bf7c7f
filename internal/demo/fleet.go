package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/internal/testkit"
)

const (
	tenantCount = 2
	nodeCount   = 3
	// proxyPool is the pool of both proxies, which the example classes name.
	proxyPool = "edge"
)

var tenantNames = [tenantCount]string{"prod-eu", "prod-us"}

// fleet is all that runs in a demo.
type fleet struct {
	options Options
	dir     string
	network *network
	say     func(format string, args ...any)

	hub     *cluster
	tenants []*tenant
	manager *program
	proxies []*proxy

	mu     sync.Mutex
	deaths []string
}

// tenant is a tenant cluster with its agent.
type tenant struct {
	*cluster
	// name of the Tenant, of its namespace in the hub, and of the cluster.
	name  string
	agent *program
	pods  *podTracker
}

// proxy is one proxy process.
type proxy struct {
	*program
	name    string
	metrics netip.AddrPort
	// at returns where this proxy serves a granted address.
	at func(netip.Addr) netip.Addr
}

// startFleet starts everything; say is told of the progress. The caller calls stop in any case.
func startFleet(ctx context.Context, o Options, say func(string, ...any)) (*fleet, error) {
	f := &fleet{options: o, say: say}
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{
		{"making room", f.makeRoom},
		{"starting a hub and two tenant clusters of three nodes each", f.startClusters},
		{"installing kinds and roles", f.install},
		{"starting the manager", f.startManager},
		{"applying examples/hub.yaml: pools, classes, tenants", f.applyHub},
		{"starting two agents and two proxies", f.startAgentsAndProxies},
	} {
		began := time.Now()
		say("  %s …", step.doing)
		if err := step.do(ctx); err != nil {
			return f, fmt.Errorf("%s: %w", step.doing, err)
		}
		if took := time.Since(began); took > time.Second {
			say("    %s", took.Round(100*time.Millisecond))
		}
	}
	return f, nil
}

func (f *fleet) makeRoom(context.Context) (err error) {
	if f.network, err = claimNetwork(); err != nil {
		return err
	}
	if f.options.Dir == "" {
		f.dir, err = os.MkdirTemp("", "fairlead-demo-")
		return err
	}
	if f.dir, err = filepath.Abs(f.options.Dir); err != nil {
		return err
	}
	return os.MkdirAll(f.dir, 0o755)
}

func (f *fleet) startClusters(ctx context.Context) error {
	f.tenants = make([]*tenant, tenantCount)
	errs := make([]error, tenantCount+1)
	var all sync.WaitGroup
	all.Go(func() { f.hub, errs[tenantCount] = f.startCluster(ctx, "hub") })
	for i, name := range tenantNames {
		all.Go(func() { f.tenants[i], errs[i] = f.startTenant(ctx, name, i+1) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *fleet) startCluster(ctx context.Context, name string) (*cluster, error) {
	return startCluster(ctx, testkit.Options{Name: name, Dir: filepath.Join(f.dir, name), KubeBinary: f.options.KubeBinary})
}

func (f *fleet) startTenant(ctx context.Context, name string, number int) (*tenant, error) {
	c, err := f.startCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &tenant{cluster: c, name: name}
	nodes := make([]testkit.NodeSpec, nodeCount)
	for i := range nodes {
		nodes[i] = testkit.NodeSpec{Name: fmt.Sprintf("node-%d", i+1), Address: f.network.node(number, i+1)}
	}
	if _, err := c.StartNodes(ctx, nodes); err != nil {
		return t, err
	}
	t.pods, err = trackPods(ctx, c)
	return t, err
}

func (f *fleet) applyHub(ctx context.Context) error {
	objects, err := example(f.network, "hub.yaml")
	if err != nil {
		return err
	}
	return f.hub.apply(ctx, objects...)
}

func (f *fleet) installKinds(ctx context.Context) error {
	return crd.Install(ctx, f.hub.RESTConfig())
}

// died notes and says that a program ended unasked.
func (f *fleet) died(name string, err error) {
	what := "it ended"
	if err != nil {
		what = err.Error()
	}
	f.mu.Lock()
	f.deaths = append(f.deaths, name+": "+what)
	f.mu.Unlock()
	f.say("  %s died and is restarted in %s, as systemd would do: %s", name, restartAfter, what)
}

// takeDeaths returns what died since the last call.
func (f *fleet) takeDeaths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.deaths
	f.deaths = nil
	return d
}

// stop ends everything and removes what startFleet made, but for the files where keep says so.
func (f *fleet) stop(keep func() bool) error {
	var errs []error
	programs := []*program{f.manager}
	for _, p := range f.proxies {
		programs = append(programs, p.program)
	}
	for _, t := range f.tenants {
		if t != nil {
			programs = append(programs, t.agent)
		}
	}
	for _, p := range programs {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	clusters := []*cluster{f.hub}
	for _, t := range f.tenants {
		if t != nil {
			if t.pods != nil {
				t.pods.stop()
			}
			clusters = append(clusters, t.cluster)
		}
	}
	for _, c := range clusters {
		if c != nil {
			errs = append(errs, c.Stop(context.Background()))
		}
	}
	if f.network != nil {
		f.network.release()
	}
	if f.dir != "" && f.options.Dir == "" && !keep() {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}
