package controller_test

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// given is an endpoint that somebody else manages.
var given = map[string]any{"host": "test.example.com", "port": int64(443)}

// publication is a scenario of the load balancer proposal, of objects of one name.
type publication struct {
	name, id string
	// endpoint of the Cluster; nil: none.
	endpoint map[string]any
	// says is what names the LoadBalancer: the Cluster, the KubeadmControlPlane, whose loadBalancerRef is an annotation today, or nothing.
	says string
	// infra is the endpoint of its InfraCluster, a kind that must be told; nil: it has no InfraCluster.
	infra map[string]any
	// front is the LoadBalancer's spec beside class, Cluster and ports; nil: there is none.
	front *clusterv1.LoadBalancerSpec
	want  string
	// writes to the Cluster.
	writes int
}

func publications() []publication {
	none := map[string]any{}
	atGiven := &clusterv1.LoadBalancerSpec{Role: clusterv1.RoleControlPlane, Endpoint: &clusterv1.Endpoint{Host: "test.example.com", Port: 443}}
	const (
		external = "Cluster test.example.com:443, ClusterEndpoint test.example.com:443 from Cluster of Cluster"
		granted  = "Cluster granted:6443, ClusterEndpoint granted:6443 from LoadBalancer of LoadBalancer"
	)
	return []publication{
		{"Cluster: externally managed endpoint and control plane", "external-plane", given, "", nil, nil, external, 0},
		{"Cluster: externally managed endpoint", "external", given, "Cluster", nil, &clusterv1.LoadBalancerSpec{}, external + ", ControlPlane test.example.com:443 Published", 0},
		{
			"Cluster: externally managed endpoint, which is not equal", "unequal", given, "Cluster", nil,
			&clusterv1.LoadBalancerSpec{Endpoint: &clusterv1.Endpoint{Host: "other.example.com", Port: 443}}, external + ", ControlPlane other.example.com:443 EndpointConflict", 0,
		},
		{"Cluster: Cluster API managed endpoint", "managed", nil, "Cluster", nil, &clusterv1.LoadBalancerSpec{}, granted + ", ControlPlane granted:6443 Published", 1},
		{
			"KubeadmControlPlane: Load Balancer specified, externally managed endpoint", "kcp-external", given, "KubeadmControlPlane", none,
			&clusterv1.LoadBalancerSpec{}, external + ", ControlPlane test.example.com:443 Published, Metal3Cluster test.example.com:443", 0,
		},
		{
			"KubeadmControlPlane: Load Balancer specified, provider managed endpoint", "kcp-provider", nil, "KubeadmControlPlane", none,
			&clusterv1.LoadBalancerSpec{}, granted + ", ControlPlane granted:6443 Published, Metal3Cluster granted:6443", 1,
		},
		{
			"KubeadmControlPlane: Load Balancer not specified (fallback behavior)", "kcp-fallback", given, "", given,
			&clusterv1.LoadBalancerSpec{Role: clusterv1.RoleWorkload},
			"Cluster test.example.com:443, ClusterEndpoint test.example.com:443 from InfraCluster of Metal3Cluster, Workload :0, Metal3Cluster test.example.com:443", 0,
		},
		{
			"LoadBalancer: externally managed endpoint", "lb-external", nil, "", nil, atGiven,
			"Cluster test.example.com:443, ClusterEndpoint test.example.com:443 from LoadBalancer of LoadBalancer, ControlPlane test.example.com:443 Published", 1,
		},
		{"LoadBalancer: provider managed endpoint", "lb-provider", nil, "", nil, &clusterv1.LoadBalancerSpec{Role: clusterv1.RoleControlPlane}, granted + ", ControlPlane granted:6443 Published", 1},
	}
}

// front is the LoadBalancer of a Cluster.
func (f *fleetOf) front(id, cluster string, spec clusterv1.LoadBalancerSpec) *clusterv1.LoadBalancer {
	spec.ClassName, spec.ClusterName, spec.Ports = f.name, cluster, []clusterv1.Port{{Port: 6443, TargetPort: 6443, Protocol: clusterv1.ProtocolTCP}}
	return &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: id}, Spec: spec}
}

// enact makes the objects of a scenario: what isn't watched first.
func (f *fleetOf) enact(p publication) {
	f.t.Helper()
	named := map[string]string{member.NameAnnotation: p.id}
	c := f.newCluster(p.id, p.endpoint)
	spec := c.Object["spec"].(map[string]any)
	kcp := object("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", f.name, p.id, map[string]any{"spec": map[string]any{}})
	switch p.says {
	case "Cluster":
		c.SetAnnotations(named)
	case "KubeadmControlPlane":
		kcp.SetAnnotations(named)
	}
	f.create(kcp)
	if p.infra != nil {
		spec["infrastructureRef"] = map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": p.id}
		infra := map[string]any{}
		if len(p.infra) > 0 {
			infra["controlPlaneEndpoint"] = p.infra
		}
		f.create(object("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Cluster", f.name, p.id, map[string]any{"spec": infra}))
	}
	if p.front != nil {
		f.create(f.front(p.id, p.id, *p.front))
	}
	f.create(c)
}

// shown are the endpoints of all objects of a name, with source and owner, role and condition; the address that was granted is "granted".
func (f *fleetOf) shown(ctx ctx, id string) (string, error) {
	c, e, l := f.newCluster(id, nil), f.newEndpoint(id, id, "", 0), f.front(id, id, clusterv1.LoadBalancerSpec{})
	infra := object("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Cluster", f.name, id, nil)
	for _, o := range []client.Object{c, e, l, infra} {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
			return "", err
		}
	}
	of := func(o *unstructured.Unstructured) string {
		host, _, _ := unstructured.NestedString(o.Object, "spec", "controlPlaneEndpoint", "host")
		port, _, _ := unstructured.NestedInt64(o.Object, "spec", "controlPlaneEndpoint", "port")
		return fmt.Sprintf("%s:%d", host, port)
	}
	out := "Cluster " + of(c)
	if e.UID != "" {
		out += fmt.Sprintf(", ClusterEndpoint %s:%d from %s", e.Spec.Host, e.Spec.Port, e.Annotations[clusterv1.GeneratedFromAnnotation])
		for _, o := range e.OwnerReferences {
			out += " of " + o.Kind
		}
	}
	if l.UID != "" {
		var is clusterv1.Endpoint
		if l.Spec.Endpoint != nil {
			is = *l.Spec.Endpoint
		}
		out += fmt.Sprintf(", %s %s:%d", l.Spec.Role, is.Host, is.Port)
		if said := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished); said != nil {
			out += " " + said.Reason
		}
	}
	if infra.GetUID() != "" {
		out += ", Metal3Cluster " + of(infra)
	}
	if a := addressOf(l); a != "" {
		out = strings.ReplaceAll(out, a, "granted")
	}
	return out, nil
}

func (f *fleetOf) wantShown(id, want string) {
	f.t.Helper()
	f.until(id+" to be "+want, func(ctx ctx) error {
		got, err := f.shown(ctx, id)
		if err == nil && got != want {
			err = fmt.Errorf("there is %s", got)
		}
		return err
	})
}

// publishes has the endpoints of control planes' LoadBalancers published to Clusters, in every scenario of the proposal, and
// returns how often each Cluster is to be written. The manager is stopped in between, and another one started.
func (h *hub) publishes(stop func()) map[string]int {
	h.t.Helper()
	of := &hub{t: h.t, control: h.control, api: h.api, name: "publishing"}
	pool := of.newPool("192.0.2.0/26")
	pool.Spec.Use = &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": of.name}}}
	of.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of.name}}, pool, of.newClass())
	of.create(openCRD("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane"))
	f := &fleetOf{hub: of, proxy: of.proxy("edge")}
	f.proxy.beat()
	f.eventually("the kind to be served", func(ctx ctx) error {
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
		l.SetKind("KubeadmControlPlaneList")
		return f.api.List(ctx, l)
	})
	writes := map[string]int{}
	for _, p := range publications() {
		f.enact(p)
		writes[p.id] = p.writes
	}
	// Before it is served nobody is told an address.
	wait(of, f.front("managed", "managed", clusterv1.LoadBalancerSpec{}), "that it isn't served yet", func(l *clusterv1.LoadBalancer) error {
		c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
		if addressOf(l) == "" || c == nil || c.Reason != clusterv1.ReasonPending || !strings.Contains(c.Message, "not served yet") {
			return fmt.Errorf("on %q it says %+v", addressOf(l), c)
		}
		return nil
	})
	f.shows(f.newCluster("managed", nil), ":0")
	for _, p := range publications() {
		h.t.Run(p.name, func(t *testing.T) {
			in := &hub{t: t, control: of.control, api: of.api, name: of.name}
			(&fleetOf{hub: in, proxy: f.proxy}).wantShown(p.id, p.want)
		})
	}
	f.optedIn(writes)
	f.disagreements()
	f.several()
	f.outlives(stop, writes)
	return writes
}

// disagreements: a LoadBalancer and its Cluster that say different endpoints keep them, whoever changed his, and the LoadBalancer says so.
func (f *fleetOf) disagreements() {
	f.t.Helper()
	l := f.front("managed", "managed", clusterv1.LoadBalancerSpec{})
	says := func(e *clusterv1.Endpoint, alternates ...clusterv1.Endpoint) {
		f.change(l, func(o client.Object) {
			spec := &o.(*clusterv1.LoadBalancer).Spec
			spec.Endpoint, spec.AlternateEndpoints = e, alternates
		})
	}
	const granted = "Cluster granted:6443, ClusterEndpoint granted:6443 from LoadBalancer of LoadBalancer, ControlPlane "
	other := &clusterv1.Endpoint{Host: "other.example.com", Port: 6443}
	says(other)
	f.wantShown("managed", granted+"other.example.com:6443 EndpointConflict")
	f.until("it to be told that it isn't ready", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		return condition(l.Status.Conditions, "Ready=False/"+clusterv1.ReasonEndpointConflict)
	})
	says(other, clusterv1.Endpoint{Host: addressOf(l), Port: 6443})
	f.wantShown("managed", granted+"other.example.com:6443 Published")
	says(nil) // as somebody who applies nulls
	f.wantShown("managed", granted+"granted:6443 Published")

	c := f.newCluster("external", nil)
	f.change(c, func(o client.Object) {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, "moved.example.com", "spec", "controlPlaneEndpoint", "host"); err != nil {
			f.t.Error(err)
		}
	})
	f.wantShown("external", "Cluster moved.example.com:443, ClusterEndpoint moved.example.com:443 from Cluster of Cluster, ControlPlane test.example.com:443 EndpointConflict")
}

// several LoadBalancers over one control plane: the one that is named is published, and one of workers never.
func (f *fleetOf) several() {
	f.t.Helper()
	inside, workers := f.front("inside", "managed", clusterv1.LoadBalancerSpec{Role: clusterv1.RoleControlPlane}), f.front("workers", "managed", clusterv1.LoadBalancerSpec{})
	workers.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "workers"}}
	f.create(inside, workers)
	for _, l := range []*clusterv1.LoadBalancer{inside, workers} {
		f.until(l.Name+" to be served", func(ctx ctx) error {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
				return err
			}
			if l == inside {
				if err := condition(l.Status.Conditions, clusterv1.ConditionEndpointPublished+"=False/"+clusterv1.ReasonNotPrimary); err != nil {
					return err
				}
			}
			return condition(l.Status.Conditions, "Ready=True")
		})
	}
	if meta.FindStatusCondition(workers.Status.Conditions, clusterv1.ConditionEndpointPublished) != nil || workers.Spec.Role != "" {
		f.t.Errorf("that of workers is %s, and says %+v", workers.Spec.Role, workers.Status.Conditions)
	}
}

// outlives: nothing is written while a Cluster is paused, and what was said before a restart is heard after it. A LoadBalancer
// that is deleted leaves the Cluster its endpoint; a Cluster that is deleted leaves a LoadBalancer that says so.
func (f *fleetOf) outlives(stop func(), writes map[string]int) {
	f.t.Helper()
	c := f.newCluster("late", nil)
	c.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
	l := f.front("late", "late", clusterv1.LoadBalancerSpec{Role: clusterv1.RoleControlPlane})
	f.create(c, l)
	f.wantShown("late", "Cluster :0, ControlPlane :0 Pending")
	stop()
	f.change(c, func(o client.Object) { o.SetAnnotations(nil) })
	managed := f.front("managed", "managed", clusterv1.LoadBalancerSpec{})
	f.delete(managed)
	f.manager(app.LeaderElection{})
	f.wantShown("late", "Cluster granted:6443, ClusterEndpoint granted:6443 from LoadBalancer of LoadBalancer, ControlPlane granted:6443 Published")
	writes["late"] = 1

	host := ""
	f.until("the LoadBalancer to be gone, and the endpoint the Cluster's", func(ctx ctx) error {
		e := f.newEndpoint("managed", "managed", "", 0)
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
			return err
		}
		host = e.Spec.Host
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(managed), managed); client.IgnoreNotFound(err) != nil || err == nil || e.OwnerReferences[0].Kind != "Cluster" {
			return fmt.Errorf("the LoadBalancer is there, or the ClusterEndpoint is %+v: %w", e.OwnerReferences, err)
		}
		return nil
	})
	f.shows(f.newCluster("managed", nil), host+":6443")
	f.delete(c)
	f.until("LoadBalancer late to say that its Cluster is gone", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		return condition(l.Status.Conditions, clusterv1.ConditionEndpointPublished+"=False/"+clusterv1.ReasonClusterNotFound)
	})
}

// optedIn: a Cluster that names a class, and nothing else, gets a LoadBalancer, and its endpoint once that is served, with no
// member. The endpoint outlives the LoadBalancer, which is made again where it was.
func (f *fleetOf) optedIn(writes map[string]int) {
	f.t.Helper()
	c := f.newCluster("opted-in", nil)
	c.SetAnnotations(map[string]string{clusterv1.ClassAnnotation: f.name})
	f.create(c)
	writes["opted-in"] = 1
	l, e := f.front("opted-in-api", "opted-in", clusterv1.LoadBalancerSpec{}), f.newEndpoint("opted-in", "opted-in", "", 0)
	// published waits for another LoadBalancer than the one of that UID, and returns its address.
	published := func(not types.UID) string {
		f.t.Helper()
		f.until("the endpoint to be published", func(ctx ctx) error {
			for _, o := range []client.Object{l, e} {
				if err := f.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					return err
				}
			}
			if l.UID == not || l.Spec.Endpoint == nil || addressOf(l) == "" || e.OwnerReferences[0].UID != l.UID {
				return fmt.Errorf("%s: endpoint %+v, addresses %+v; the ClusterEndpoint is %+v", l.UID, l.Spec.Endpoint, l.Status.Addresses, e.OwnerReferences)
			}
			return condition(l.Status.Conditions, clusterv1.ConditionEndpointPublished+"=True/"+clusterv1.ReasonPublished)
		})
		return addressOf(l)
	}
	host := published("")
	f.shows(c, host+":6443")
	if e.Spec.Host != host || len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != c.GetUID() {
		f.t.Errorf("the generated ClusterEndpoint is %+v, of %+v", e, l)
	}
	f.delete(l)
	if again := published(l.UID); again != host {
		f.t.Errorf("it is served on %s, not on %s again", again, host)
	}
}
