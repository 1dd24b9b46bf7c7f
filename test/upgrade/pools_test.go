package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// granted is a pool whose grants are by port, and its class: both have its name.
type granted struct {
	name string
	// stays is the port of the Service that is judged all the while, comes that of one that comes and goes.
	stays, comes uint16
}

var (
	byPort = granted{"by-port", webPort, webPort + 1}
	hosts  = granted{"hosts", 20001, 20002}
	pools  = []granted{byPort, hosts}
)

const (
	// poolRate and poolHeld are what is judged of each of them.
	poolRate = 50
	poolHeld = 50
)

// knowsPorts says whether the version before has pools by port and of hosts.
func (s *site) knowsPorts() (bool, error) {
	root, err := testkit.ModuleRoot()
	if err != nil {
		return false, err
	}
	text, err := run(root, "git", "show", s.commit+":config/crd/fairlead.dev_addresspools.yaml")
	return strings.Contains(text, "has(self.ranges) == has(oldSelf.ranges)"), err // fields alone are older
}

// mayOpen says whether docs/upgrading.md lets such pools be, with these versions: agents know nothing of grants.
func (s *site) mayOpen(is map[part]string) bool {
	return s.ports || is[manager] == s.now && is[proxies] == s.now
}

// early sees a manager of the version before, which knows no such pools, grant nothing from them: who made them too early has them wait.
func (s *site) early(ctx context.Context) error {
	if err := s.makePools(ctx); err != nil {
		return err
	}
	for _, p := range pools {
		if err := s.tenant.Apply(ctx, serviceOf("web-"+p.name, p.name, p.stays)); err != nil {
			return err
		}
		err := s.poll(ctx, "pool "+p.name+" to be refused", func(ctx context.Context) error {
			o := &v1alpha1.AddressPool{}
			if err := s.Hub.API.Get(ctx, client.ObjectKey{Name: p.name}, o); err != nil {
				return err
			}
			ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "not supported") {
				return fmt.Errorf("it says %v", ready)
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = s.poll(ctx, "web-"+p.name+" to be told so", func(ctx context.Context) error {
			l, err := s.LoadBalancerOf(ctx, s.tenant, "web-"+p.name)
			if err != nil {
				return err
			}
			granted := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionAddressGranted)
			if granted == nil || granted.Status != metav1.ConditionFalse || len(l.Status.Addresses) > 0 {
				return fmt.Errorf("it has %v and says %v", l.Status.Addresses, granted)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.withoutPools(ctx)
}

func (s *site) makePools(ctx context.Context) error {
	for _, text := range []string{
		fmt.Sprintf(`{"kind": "AddressPool", "metadata": {"name": %q}, "spec": {"granularity": "Port", "ranges": ["%s/32"]}}`, byPort.name, s.shared()),
		fmt.Sprintf(`{"kind": "AddressPool", "metadata": {"name": %q}, "spec": {"proxyHosts": {"pool": %q, "ports": "%d-%d"}}}`, hosts.name, fleet.ProxyPool, hosts.stays, hosts.comes),
		classOf(byPort), classOf(hosts),
	} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(`{"apiVersion": "fairlead.dev/v1alpha1", ` + text[1:])); err != nil {
			return err
		}
		if err := s.Hub.Apply(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// shared is the one address of the pool by port.
func (s *site) shared() netip.Addr {
	a := s.Network.Served().Addr().As4()
	a[3] = 210
	return netip.AddrFrom4(a)
}

// withPools makes those pools, with a Service of each that is judged, and at the end takes all away as docs/upgrading.md has who goes back.
func (s *site) withPools(ctx context.Context, do func(context.Context) error) error {
	if err := s.makePools(ctx); err != nil {
		return err
	}
	g := traffic.NewGenerator()
	defer g.Stop()
	for _, p := range pools {
		name := "web-" + p.name
		if err := s.tenant.Apply(ctx, serviceOf(name, p.name, p.stays)); err != nil {
			return err
		}
		ways, err := s.answers(ctx, p, name, p.stays)
		if err != nil {
			return err
		}
		g.Add(ctx, traffic.Service{Name: name, Rate: poolRate, Held: poolHeld, Allow: s.tenant.Pods.Allow("web"), Ways: ways})
	}
	s.open = true
	reports, err := g.Around(ctx, do)
	s.open = false
	s.busy = ""
	for _, r := range reports {
		s.t.Log(r.String())
		s.busy = cmp.Or(s.busy, r.Busy())
		if why := r.Wrong(); why != "" {
			err = errors.Join(err, errors.New(why))
		}
	}
	if err != nil {
		return err
	}
	g.Stop()
	return s.withoutPools(ctx)
}

func classOf(p granted) string {
	return fmt.Sprintf(`{"kind": "LoadBalancerClass", "metadata": {"name": %q}, "spec": {"proxy": {"pool": %q}, "addressPools": [%q]}}`, p.name, fleet.ProxyPool, p.name)
}

// withoutPools deletes what uses the pools, then the pools.
func (s *site) withoutPools(ctx context.Context) error {
	for _, p := range pools {
		if err := s.remove(ctx, "web-"+p.name); err != nil {
			return err
		}
	}
	if err := s.noPorts(ctx, ""); err != nil {
		return err
	}
	for _, p := range pools {
		for _, o := range []client.Object{
			&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: p.name}}, &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: p.name}},
		} {
			if err := s.Hub.API.Delete(ctx, o); err != nil {
				return err
			}
			err := s.poll(ctx, fmt.Sprintf("%T %s to go", o, p.name), func(ctx context.Context) error {
				err := s.Hub.API.Get(ctx, client.ObjectKeyFromObject(o), o)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(err, errors.New("it is there"))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// noPorts waits until the ledger has no line of one port, or of that.
func (s *site) noPorts(ctx context.Context, port string) error {
	return s.poll(ctx, "the ledger's lines of ports to go", func(ctx context.Context) error {
		list := &v1alpha1.AddressList{}
		if err := s.Hub.API.List(ctx, list); err != nil {
			return err
		}
		for _, a := range list.Items {
			if strings.Contains(a.Name, ".tcp.") && strings.HasSuffix(a.Name, port) {
				return fmt.Errorf("%s is %s", a.Name, a.Spec.Phase)
			}
		}
		return nil
	})
}

// answers waits until a Service of such a pool has its addresses, and answers at each proxy. It returns the ways to it.
func (s *site) answers(ctx context.Context, p granted, name string, port uint16) (ways []traffic.Way, err error) {
	want := []string{}
	for _, proxy := range s.Proxies {
		way := proxy.HostWay(port)
		if p == byPort {
			way, want = proxy.Way(s.shared(), port), []string{s.shared().String()}
		} else {
			want = append(want, way.Address.Addr().String())
		}
		ways = append(ways, way)
	}
	err = s.poll(ctx, "the addresses of "+name, func(ctx context.Context) error {
		o := &v1.Service{}
		if err := s.tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return err
		}
		got := []string{}
		for _, i := range o.Status.LoadBalancer.Ingress {
			got = append(got, i.IP)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ways, s.poll(ctx, name+" to answer through each proxy", func(ctx context.Context) error {
		for _, way := range ways {
			if _, err := way.Ask(ctx, "/"); err != nil {
				return fmt.Errorf("%s: %w", way.Name, err)
			}
		}
		return nil
	})
}

// portsWork sees a Service of each pool come and go, beside the one that stays.
func (s *site) portsWork(ctx context.Context) error {
	for _, p := range pools {
		s.services++
		name := fmt.Sprintf("more-%d", s.services)
		if err := s.tenant.Apply(ctx, serviceOf(name, p.name, p.comes)); err != nil {
			return err
		}
		ways, err := s.answers(ctx, p, name, p.comes)
		if err != nil {
			return err
		}
		if err := s.remove(ctx, name); err != nil {
			return err
		}
		if err := s.noPorts(ctx, fmt.Sprintf(".%d", p.comes)); err != nil {
			return err
		}
		for _, way := range ways {
			if _, err := way.Ask(ctx, "/"); traffic.KindOf(err) != traffic.FailureRefused {
				return fmt.Errorf("%s through %s: got %w, want a refusal", way.Address, way.Name, orAnswered(err))
			}
		}
	}
	return nil
}
