package providertest

import (
	"context"
	"errors"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/contract"
)

// failing gives an object that nothing refers to yet, whose calls fail from then on.
func (p *play) failing(name string, how fault) (provider.Object, *clusterv1.LoadBalancer) {
	p.t.Helper()
	e := p.Endpoint()
	o, l := p.object(name, &e)
	p.create(o)
	p.waitFor(o, "Ready=False/NoLoadBalancer")
	p.faults.set(string(o.GetUID()), how)
	p.create(l)
	return o, l
}

func transient(p *play) {
	o, _ := p.failing("transient", func(context.Context, string) error { return errors.New("503") })
	p.waitFor(o, "LBExists=Unknown/ProviderError", "Ready=False/ProviderError", "Degraded=True/ProviderError")
	p.faults.set(string(o.GetUID()), nil)
	p.waitFor(o, "Ready=True", "LBExists=True")
	p.faults.set(string(o.GetUID()), func(context.Context, string) error { return errors.New("503") })
	p.waitFor(o, "Degraded=True/ProviderError", "Ready=True", "LBExists=True") // what is outside goes on
	p.faults.set(string(o.GetUID()), nil)
	p.waitFor(o, "Degraded=True/NoTargetGroups")
}

func refused(p *play) {
	start := time.Now()
	o, _ := p.failing("refused", func(_ context.Context, method string) error {
		if method == "Ensure" {
			return provider.Terminal("the quota of load balancers is used up: have it raised")
		}
		return nil
	})
	p.waitFor(o, "Ready=False/ProviderRefused", "Degraded=True/ProviderRefused")
	p.made("meanwhile", p.Members[0])
	// Once for each change, which are a few, and once for each resync.
	n, most := p.faults.count(string(o.GetUID()), "Ensure"), 5+int(time.Since(start)/p.Options.Resync)
	if n > most {
		p.t.Errorf("a refusal was tried %d times, and %d are enough", n, most)
	}
	p.faults.set(string(o.GetUID()), nil)
	p.waitFor(o, "Ready=True")
}

func unchanged(p *play) {
	o, l, g := p.made("unchanged", p.Members[0], p.Members[1])
	start, before := time.Now(), p.faults.count(string(o.GetUID()), "Ensure")
	p.faults.set(string(o.GetUID()), func(_ context.Context, method string) error {
		if method == "Ensure" {
			return provider.Terminal("more ports are not for sale")
		}
		return nil
	})
	change(p, l, func(l *clusterv1.LoadBalancer) {
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: l.Spec.Ports[0].Port + 1, TargetPort: p.TargetPort, Protocol: clusterv1.ProtocolTCP})
	})
	p.waitFor(o, "LBExists=True", "LBMatchesConfig=False/ProviderRefused", "Degraded=True/ProviderRefused", "Ready=True")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetDraining })
	p.state(o, "m1", contract.StateRemoved)
	if n, most := p.faults.count(string(o.GetUID()), "Ensure")-before, 3+int(time.Since(start)/p.Options.Resync); n > most {
		p.t.Errorf("a refusal was tried %d times while members changed, and %d are enough", n, most)
	}
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.ProxyProtocol = "V2" })
	if !p.Options.Supports.ProxyProtocol {
		p.waitFor(o, "LBMatchesConfig=False/NotSupported", "Ready=True")
		change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetServing })
		p.state(o, "m1", contract.StateActive)
	}
	p.faults.set(string(o.GetUID()), nil)
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.ProxyProtocol, l.Spec.Ports = "", l.Spec.Ports[:1] })
	p.waitFor(o, "LBMatchesConfig=True", "Degraded=False")
}

func panics(p *play) {
	o, _ := p.failing("panics", func(_ context.Context, method string) error { panic("a bug in " + method) })
	p.waitFor(o, "Ready=False/ProviderPanicked", "LBExists=Unknown/ProviderPanicked")
	p.made("meanwhile", p.Members[0])
	p.faults.set(string(o.GetUID()), nil)
	p.waitFor(o, "Ready=True")
}

func silent(p *play) {
	free := make(chan struct{})
	o, _ := p.failing("silent", func(context.Context, string) error {
		<-free // and whatever the context says
		return nil
	})
	p.waitFor(o, "Ready=False/ProviderSilent", "LBExists=Unknown/ProviderSilent")
	p.made("meanwhile", p.Members[0])
	if n := p.faults.count(string(o.GetUID()), "Describe"); n != 1 {
		p.t.Errorf("%d calls are out at once for one object", n)
	}
	p.faults.set(string(o.GetUID()), nil)
	close(free)
	p.waitFor(o, "Ready=True")
}
