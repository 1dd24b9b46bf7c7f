package providertest

import (
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quota: what the manager says of a group is written by the story, as it plays its part.
func quota(p *play) {
	one := int32(1)
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}, Spec: v1alpha1.TenantSpec{
		TargetCIDRs: []string{"0.0.0.0/0", "::/0", "127.0.0.0/8"}, Quota: &v1alpha1.TenantQuota{Targets: &one},
	}}
	p.create(tenant)
	o, _, g := p.made("quota", p.Members[0])
	change(p, g, func(g *v1alpha1.TargetGroup) {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: "m1", UID: "uid-1", Addresses: []string{p.Members[1]}})
	})
	p.targetIs(o, "m1", contract.StateWaiting, contract.ReasonQuotaExceeded)
	p.state(o, "m0", contract.StateActive)
	p.outside(o, p.Members[0]+":Active")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets = g.Spec.Targets[1:] }) // there is room now
	p.state(o, "m1", contract.StateActive)
	p.outside(o, p.Members[1]+":Active")
	none := int32(0)
	change(p, tenant, func(t *v1alpha1.Tenant) { t.Spec.Quota.Targets = &none })
	change(p, g, func(g *v1alpha1.TargetGroup) {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: "m2", UID: "uid-2", Addresses: []string{p.Members[2]}})
	})
	p.targetIs(o, "m2", contract.StateWaiting, contract.ReasonQuotaExceeded)
	p.state(o, "m1", contract.StateActive) // what is in stays
	two := int32(2)
	change(p, tenant, func(t *v1alpha1.Tenant) { t.Spec.Quota.Targets = &two })
	p.state(o, "m2", contract.StateActive)
	p.waitFor(o, "Degraded=False")
	p.delete(tenant)
}

func classDrains(p *play) {
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}, Spec: v1alpha1.LoadBalancerClassSpec{
		Defaults: &v1alpha1.ClassDefaults{DrainTimeout: &metav1.Duration{Duration: time.Second}},
	}}
	e := p.Endpoint()
	o, l := p.object("class", &e)
	class.Spec.InfrastructureTemplate = l.Spec.InfrastructureRef
	p.create(class)
	l.Spec.ClassName, l.Spec.InfrastructureRef, l.Spec.DrainTimeout = class.Name, nil, nil
	g := p.group("class", p.Members[0], p.Members[1])
	p.create(g, l)
	// As the manager makes it.
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(l, clusterv1.GroupVersion.WithKind("LoadBalancer"))})
	p.create(o)
	p.state(o, "m1", contract.StateActive)
	p.faults.read(string(o.GetUID()), func(w *owner) { w.open = true })
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetDraining })
	p.state(o, "m1", contract.StateRemoved)
	p.outside(o, p.Members[0]+":Active")
	p.delete(class)
}
