package providertest

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/contract"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// familyKind is the InfraCluster that the suite has the provider's family have, and familyField names its credentials. secretiveKind is one
// that only the administrator may read.
var (
	familyKind    = schema.GroupVersionKind{Group: "family.providertest.fairlead.dev", Version: "v1", Kind: "StandInCluster"}
	secretiveKind = schema.GroupVersionKind{Group: "secretive.providertest.fairlead.dev", Version: "v1", Kind: "SecretivePlane"}
)

const familyField = "identityRef"

// mayReadFamily says whether everybody may get a StandInCluster.
func (g *stage) mayReadFamily(ctx context.Context, yes bool) error {
	name := objectMeta("", "providertest-family")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
	if !yes {
		return client.IgnoreNotFound(g.api.Delete(ctx, binding))
	}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{familyKind.Group}, Resources: []string{"*"}, Verbs: []string{"get"}}}}
	for _, o := range []client.Object{role, binding} {
		if err := client.IgnoreAlreadyExists(g.api.Create(ctx, o)); err != nil {
			return err
		}
	}
	return nil
}

// restricted says whether the controller has less rights than the administrator.
func (g *stage) restricted() bool { return g.ControllerConfig != g.Config }

// says waits until a condition's message has a text.
func (p *play) says(o provider.Object, kind, text string) {
	p.t.Helper()
	p.wait(o, fmt.Sprintf("%s to say %q", kind, text), func() error {
		_, status := o.Contract()
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// refers to an object of a kind, of the story's name.
func refers(kind schema.GroupVersionKind, name string) map[string]any {
	return map[string]any{"apiGroup": kind.Group, "kind": kind.Kind, "name": name}
}

// family: the credentials of the Cluster's InfraCluster are used, and while it can't be seen which those are nothing is done outside. Once
// the Cluster is gone, what was made is deleted with the same.
func family(p *play) {
	const name = "family"
	e := p.Endpoint()
	o, l := p.object(name, &e)
	o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
	c := newCluster(p.namespace, name).with(map[string]any{"infrastructureRef": refers(familyKind, name)})
	g := p.group(name, p.Members[0], p.Members[1])
	p.create(c, g, l, o)
	p.waitFor(o, "Ready=False/CredentialsNotFound")
	p.says(o, contract.ConditionReady, "StandInCluster family")
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{familyField: map[string]any{"kind": "Secret", "name": "key"}}}}
	infra.SetGroupVersionKind(familyKind)
	infra.SetNamespace(p.namespace)
	infra.SetName(name)
	p.create(infra)
	p.says(o, contract.ConditionReady, "Secret key")
	if n := p.faults.count(string(o.GetUID()), "Describe"); n != 0 {
		p.t.Errorf("the provider was called %d times, without the credentials that are meant", n)
	}
	p.create(&corev1.Secret{ObjectMeta: objectMeta(p.namespace, "key"), Data: map[string][]byte{"token": []byte("hidden")}})
	p.state(o, "m1", contract.StateActive)
	var used provider.Credentials
	p.faults.read(string(o.GetUID()), func(w *owner) { used = w.first.Credentials })
	if used.Ref == nil || *used.Ref != (contract.CredentialReference{Kind: "Secret", Name: "key"}) || string(used.Secret["token"]) != "hidden" {
		p.t.Errorf("the provider got the credentials %+v", used)
	}
	if p.restricted() {
		hidden(p, o, g)
	}
	p.delete(c)
	p.delete(infra)
	p.delete(o)
	p.absent(o)
	p.faults.read(string(o.GetUID()), func(w *owner) { used = w.last })
	if used.Ref == nil || used.Ref.Name != "key" {
		p.t.Errorf("it was deleted with the credentials %+v", used)
	}
}

// hidden: nobody may read the InfraCluster for a while. What is outside goes on as it is.
func hidden(p *play, o provider.Object, g *v1alpha1.TargetGroup) {
	if err := p.mayReadFamily(p.t.Context(), false); err != nil {
		p.t.Fatal(err)
	}
	p.waitFor(o, "Degraded=True/CredentialsNotFound", "Ready=True", "LBExists=True")
	p.says(o, contract.ConditionDegraded, `cannot get resource "standinclusters"`)
	before := p.faults.count(string(o.GetUID()), "SetMembers")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetDraining })
	looked(p, o)
	p.outside(o, p.Members[0]+":Active", p.Members[1]+":Active")
	if n := p.faults.count(string(o.GetUID()), "SetMembers"); n != before {
		p.t.Errorf("members were told %d times, with whose credentials?", n-before)
	}
	if err := p.mayReadFamily(p.t.Context(), true); err != nil {
		p.t.Fatal(err)
	}
	p.state(o, "m1", contract.StateRemoved)
	p.waitFor(o, "Degraded=False")
}

// looked has the controller look at an object: it writes a condition of its new generation.
func looked(p *play, o provider.Object) {
	p.t.Helper()
	change(p, o, func(o provider.Object) { contractOf(o).Endpoint.Port++ })
	p.waitFor(o, "Degraded=True/CredentialsNotFound")
	change(p, o, func(o provider.Object) { contractOf(o).Endpoint.Port-- })
	p.waitFor(o, "Degraded=True/CredentialsNotFound")
}

// unread: the control plane object, which may name the LoadBalancer, can't be read. So the Cluster's endpoint may be the LoadBalancer's, and nothing
// is made; what is outside already stays as it is, and follows its members.
func unread(p *play) {
	if !p.restricted() {
		p.t.Skip("the controller may read everything: set Suite.ControllerConfig")
	}
	const name = "unread"
	o, l, g := p.made(name, p.Members[0], p.Members[1])
	of := func(l *clusterv1.LoadBalancer) {
		l.Spec.ClusterName = name
		l.Spec.TargetKind = &clusterv1.KindReference{Kind: "TargetGroup"}
	}
	p.create(newCluster(p.namespace, name).with(map[string]any{
		"controlPlaneEndpoint": map[string]any{"host": "api.example.com", "port": int64(6443)}, "controlPlaneRef": refers(secretiveKind, name),
	}))
	another, its := p.object("another", nil)
	of(its)
	p.create(another, its)
	p.waitFor(another, "Ready=False/RoleUnknown")
	p.says(another, contract.ConditionReady, `cannot get resource "secretiveplanes"`)
	if n := p.faults.count(string(another.GetUID()), "Ensure"); n != 0 {
		p.t.Errorf("it was made, though whose it is can't be read")
	}
	change(p, l, of)
	p.waitFor(o, "Ready=True", "LBMatchesConfig=False/RoleUnknown", "Degraded=True/RoleUnknown")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetDraining })
	p.state(o, "m1", contract.StateRemoved)
	change(p, its, func(l *clusterv1.LoadBalancer) { l.Spec.Role = clusterv1.RoleWorkload })
	p.waitFor(another, "Ready=True")
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Role = clusterv1.RoleWorkload })
	p.waitFor(o, "LBMatchesConfig=True")
}
