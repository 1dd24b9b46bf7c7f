package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "default"
	webPort   = 8080
	// soon bounds what may take a fresh leader's half minute; it is no claim.
	soon = 90 * time.Second
	look = 50 * time.Millisecond
	// rate and held are what is judged all the while: requests a second, and connections that stay open.
	rate = 300
	held = 500
	// fewest requests prove anything.
	fewest = 10_000
)

// site is a fleet of one tenant whose Service web is served.
type site struct {
	*fleet.Fleet
	t           *testing.T
	dataplane   string
	tenant      *fleet.Tenant
	web         netip.Addr
	commit      string
	before, now string
	services    int
	// ports says that the version before knows pools by port and of hosts; open, that there are some.
	ports, open bool
	// busy is why what was judged of those proves nothing, though nothing failed.
	busy string
}

func start(t *testing.T, dataplane string) *site {
	t.Helper()
	s := &site{t: t, dataplane: dataplane}
	s.commit, s.before, s.now = binaries(t)
	f, err := fleet.Start(t.Context(), fleet.Options{
		Self: s.before, Dataplane: dataplane, Namespaces: dataplane == "nftables", HostAddresses: true, Tenants: 1, Say: t.Logf,
		Died: func(what string) { t.Error(what) },
	})
	s.Fleet = f
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", f.Dir)
		}
		err := f.Stop()
		if !t.Failed() {
			err = errors.Join(err, f.Remove())
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.tenant = f.Tenants[0]
	s.must(s.installBefore(t.Context()))
	s.ports, err = s.knowsPorts()
	s.must(err)
	objects, err := f.Network.Example("web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.tenant.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	s.web = s.mustServe(t.Context(), "web")
	return s
}

// poll waits for something.
func (s *site) poll(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, what, f)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// serve waits until a Service has an address, and that answers through each proxy.
func (s *site) serve(ctx context.Context, name string) (a netip.Addr, err error) {
	err = s.poll(ctx, "Service "+name+" to get an address", func(ctx context.Context) error {
		o := &v1.Service{}
		if err := s.tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return err
		}
		for _, i := range o.Status.LoadBalancer.Ingress {
			a, err = netip.ParseAddr(i.IP)
			return err
		}
		return errors.New("it has none")
	})
	if err != nil {
		return a, err
	}
	return a, s.poll(ctx, name+" to answer through each proxy", func(ctx context.Context) error {
		for _, p := range s.Proxies {
			way := p.Way(a, webPort)
			if _, err := way.Ask(ctx, "/"); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		return nil
	})
}

func (s *site) mustServe(ctx context.Context, name string) netip.Addr {
	s.t.Helper()
	a, err := s.serve(ctx, name)
	s.must(err)
	return a
}

// create makes one more Service over web's Pods.
func (s *site) create(ctx context.Context) (name string, err error) {
	s.services++
	name = fmt.Sprintf("more-%d", s.services)
	return name, s.tenant.Apply(ctx, serviceOf(name, "", webPort))
}

// serviceOf is a Service over web's Pods, of a class or of the default one.
func serviceOf(name, class string, port uint16) *unstructured.Unstructured {
	spec := map[string]any{
		"type":     "LoadBalancer",
		"selector": map[string]any{"app": "web"},
		"ports":    []any{map[string]any{"name": "http", "port": int64(port), "targetPort": int64(8080)}},
	}
	if class != "" {
		spec["loadBalancerClass"] = "fairlead.dev/" + class
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
	}}
}

func (s *site) remove(ctx context.Context, name string) error {
	return s.tenant.API.Delete(ctx, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// freed waits until the ledger has no line of an address any more: each proxy has said that it is gone, and the manager believes it.
func (s *site) freed(ctx context.Context, a netip.Addr) error {
	return s.poll(ctx, a.String()+" to be free", func(ctx context.Context) error {
		line := &v1alpha1.Address{}
		err := s.Hub.API.Get(ctx, client.ObjectKey{Name: a.String()}, line)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("it is %s", line.Spec.Phase)
		}
		return err
	})
}

// works sees a Service come and go: agent, manager and proxies understand each other.
func (s *site) works(ctx context.Context) error {
	name, err := s.create(ctx)
	if err != nil {
		return err
	}
	a, err := s.serve(ctx, name)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, name); err != nil {
		return err
	}
	if err := s.freed(ctx, a); err != nil {
		return err
	}
	for _, p := range s.Proxies {
		if err := s.refuses(ctx, p, a); err != nil {
			return err
		}
	}
	if s.open {
		return s.portsWork(ctx)
	}
	return nil
}

// refuses makes sure that nobody answers at a proxy.
func (s *site) refuses(ctx context.Context, p *fleet.Proxy, a netip.Addr) error {
	way := p.Way(a, webPort)
	if _, err := way.Ask(ctx, "/"); traffic.KindOf(err) != traffic.FailureRefused {
		return fmt.Errorf("%s through %s: got %w, want a refusal", a, p.Name, orAnswered(err))
	}
	return nil
}

// refusesFor makes sure that nobody answers at a proxy for a while.
func (s *site) refusesFor(ctx context.Context, p *fleet.Proxy, d time.Duration) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < d; {
		if err := s.refuses(ctx, p, s.web); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

var errAnswered = errors.New("an answer")

func orAnswered(err error) error {
	if err == nil {
		return errAnswered
	}
	return err
}

// proxy is what the hub has of one.
func (s *site) proxy(ctx context.Context, p *fleet.Proxy) (*v1alpha1.Proxy, error) {
	o := &v1alpha1.Proxy{}
	return o, s.Hub.API.Get(ctx, client.ObjectKey{Name: p.Name}, o)
}

// next waits until a process after that boot serves.
func (s *site) next(ctx context.Context, p *fleet.Proxy, boot string) error {
	return s.poll(ctx, "the next process of "+p.Name+" to serve", func(ctx context.Context) error {
		o, err := s.proxy(ctx, p)
		if err == nil && (o.Status.Boot == boot || o.Status.Phase != v1alpha1.ProxyServing) {
			err = fmt.Errorf("its boot is %q, its phase %q", o.Status.Boot, o.Status.Phase)
		}
		return err
	})
}

// judge measures what clients notice of an event.
func (s *site) judge(event func(context.Context) error) traffic.Report {
	s.t.Helper()
	service := traffic.Service{Name: "web", Rate: rate, Held: held, Allow: s.tenant.Pods.Allow("web")}
	for _, p := range s.Proxies {
		service.Ways = append(service.Ways, p.Way(s.web, webPort))
	}
	g := traffic.NewGenerator()
	defer g.Stop()
	g.Add(s.t.Context(), service)
	reports, err := g.Around(s.t.Context(), event)
	if len(reports) == 1 {
		s.t.Log(reports[0].String())
		for _, lost := range reports[0].Lost[:min(3, len(reports[0].Lost))] {
			s.t.Log(lost)
		}
	}
	s.must(err)
	return reports[0]
}
