package simulation

import (
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agent makes LoadBalancers from the Services of its user.
type agent struct {
	w         *World
	namespace string
	link      *link
	cache     map[types.NamespacedName]*clusterv1.LoadBalancer
	groups    map[string]*v1alpha1.TargetGroup
	// services that the user wants, by name.
	services map[string]clusterv1.LoadBalancerSpec
	// nodes are its targets, by name; made counts them.
	nodes map[string]*node
	made  int
	// had is the address that each Service's status says, which its LoadBalancer asks for when it is made anew.
	had map[string]string
	// tenant is its own; nil: it has none. noted is the epoch that its Lease says.
	tenant *v1alpha1.Tenant
	noted  int64
	// relisted is the epoch since which it has listed everything anew.
	relisted int64
	// hub is whom it knows, and lookAt when it looks again.
	hub    string
	lived  int
	lookAt time.Time
}

func newAgent(w *World, ns string) *agent {
	a := &agent{w: w, namespace: ns, cache: map[types.NamespacedName]*clusterv1.LoadBalancer{}, services: map[string]clusterv1.LoadBalancerSpec{}, nodes: map[string]*node{}, had: map[string]string{}, groups: map[string]*v1alpha1.TargetGroup{}}
	a.link = newLink(w, a, loadBalancers, targetGroups, tenants)
	a.addNode()
	return a
}

func (a *agent) listed(k kind, all []client.Object, _ string) {
	switch k {
	case loadBalancers:
		clear(a.cache)
	case targetGroups:
		clear(a.groups)
	default:
		a.tenant = nil
	}
	for _, o := range all {
		a.happened(k, event{object: o})
	}
}

func (a *agent) happened(k kind, e event) {
	switch {
	case k == tenants && e.object.GetName() == a.namespace:
		a.tenant = nil
		if !e.gone {
			a.tenant = e.object.(*v1alpha1.Tenant)
		}
	case e.object.GetNamespace() != a.namespace:
	case k == targetGroups && e.gone:
		delete(a.groups, e.object.GetName())
	case k == targetGroups:
		a.groups[e.object.GetName()] = e.object.(*v1alpha1.TargetGroup)
	case e.gone:
		delete(a.cache, keyOf(e.object))
	default:
		l := lbOf(e.object)
		a.cache[keyOf(l)] = l
		if programmed(l) {
			a.had[l.Name] = l.Status.Addresses[0].Value
		}
	}
}

func (a *agent) bookmark(kind, string) {}

func lbOf(o client.Object) *clusterv1.LoadBalancer { return o.(*clusterv1.LoadBalancer) }

// alike says that a LoadBalancer is what its Service wants; who wants no address in particular may have asked for the one that it had.
// Nothing but ports and addresses ever differs.
func (a *agent) alike(l *clusterv1.LoadBalancer, spec clusterv1.LoadBalancerSpec) bool {
	return equality.Semantic.DeepEqual(l.Spec.MachineHooks, spec.MachineHooks) && equality.Semantic.DeepEqual(l.Spec.HealthCheck, spec.HealthCheck) && equality.Semantic.DeepEqual(l.Spec.FailOpen, spec.FailOpen) && (len(spec.Addresses) == 0 || slices.Equal(l.Spec.Addresses, spec.Addresses)) &&
		slices.EqualFunc(l.Spec.Ports, spec.Ports, func(x, y clusterv1.Port) bool { return x.Port == y.Port && x.TargetPort == y.TargetPort })
}

// user changes what he wants.
func (a *agent) user() {
	if a.w.n(4) == 0 {
		a.administer()
		return
	}
	if !a.w.server.stands(a.namespace) {
		return
	}
	name := fmt.Sprintf("svc-%d", a.w.n(services))
	spec, there := a.services[name]
	switch {
	case there && a.w.n(3) > 0:
		a.w.forgo(a.namespace, name)
		delete(a.services, name)
		delete(a.had, name)
		a.w.trace("user: no service %s/%s", a.namespace, name)
	default:
		spec = a.w.spec()
		a.w.forgo(a.namespace, name)
		a.services[name] = spec
		a.w.trace("user: service %s/%s wants %v", a.namespace, name, spec.Addresses)
	}
}

func (w *World) spec() clusterv1.LoadBalancerSpec {
	s := clusterv1.LoadBalancerSpec{
		ClassName: className, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"targets": "nodes"}},
		HealthCheck: &clusterv1.HealthCheck{Type: clusterv1.HealthCheckNone},
	}
	for _, p := range [][]int32{{80}, {81}, {80, 81}}[w.n(3)] {
		s.Ports = append(s.Ports, clusterv1.Port{Name: fmt.Sprint("p", p), Protocol: clusterv1.ProtocolTCP, Port: p, TargetPort: 30000 + int32(w.n(3))})
	}
	if w.n(2) == 0 {
		s.Addresses = []string{addressAt(w.n(poolSize)).String()}
	}
	return s
}

// step makes one LoadBalancer what it should be. False: nothing was to be done.
func (a *agent) step() bool {
	for _, k := range a.link.kinds {
		if a.link.pump(k, 1+a.w.n(4)) {
			return true
		}
	}
	if a.link.cut || !a.link.synced() || !a.w.server.stands(a.namespace) {
		return false
	}
	a.look()
	if a.relists() || a.stepGroup() {
		return true
	}
	for _, name := range sortedNames(a.services) {
		key := types.NamespacedName{Namespace: a.namespace, Name: name}
		have, spec := a.cache[key], a.services[name]
		switch {
		case have == nil:
			if had := a.had[name]; had != "" && len(spec.Addresses) == 0 {
				spec.Addresses = []string{had}
			}
			_, err := a.link.create(&clusterv1.LoadBalancer{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: a.namespace, Name: name, Finalizers: []string{clusterv1.Finalizer},
					Annotations: map[string]string{v1alpha1.AnnotationOrigin: name},
				},
				Spec: spec,
			})
			if err == nil || a.w.n(2) == 0 {
				return true
			}
		case have.DeletionTimestamp == nil && !a.alike(have, spec):
			uid := have.UID
			_, _ = a.link.request(func() (client.Object, error) {
				o, err := a.w.server.get(loadBalancers, key)
				if err != nil {
					return nil, err
				}
				next := o.(*clusterv1.LoadBalancer).DeepCopy()
				next.UID, next.Spec = uid, spec
				return a.w.server.update(next)
			})
			return true
		}
	}
	for _, key := range sortedKeys(a.cache) {
		have := a.cache[key]
		_, wanted := a.services[key.Name]
		if wanted || have.DeletionTimestamp != nil {
			continue
		}
		// Here Services go by their deletion only, and it is seen.
		if keep, _ := service.Orphan(service.Evidence{Made: true, Listed: true, Absent: true, Deleted: true}); keep != "" {
			continue
		}
		uid := have.UID
		_, _ = a.link.request(func() (client.Object, error) {
			return nil, a.w.server.remove(loadBalancers, key, &metav1.Preconditions{UID: &uid})
		})
		return true
	}
	return a.stepEpoch()
}
