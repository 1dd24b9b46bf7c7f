package survival

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/traffic"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "default"
	// webPort is the port of all Services here.
	webPort = 8080
)

// serveWeb makes the examples' Pods and Service in each tenant, and waits for answers through each proxy.
func (w *world) serveWeb(t *testing.T) {
	t.Helper()
	objects, err := w.Network.Example("web.yaml")
	must(t, err)
	for _, tenant := range w.Tenants {
		must(t, tenant.Apply(t.Context(), copies(objects)...))
	}
	for _, tenant := range w.Tenants {
		eventually(t, soon, "the Pods of "+tenant.Name(), func(ctx context.Context) error {
			d := &appsv1.Deployment{}
			if err := tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, d); err != nil {
				return err
			}
			if d.Status.ReadyReplicas != 3 {
				return fmt.Errorf("%d are ready", d.Status.ReadyReplicas)
			}
			return nil
		})
		a := awaitAddress(t, tenant, "web")
		w.web = append(w.web, a)
		awaitAnswers(t, tenant, a, w.all()...)
	}
}

func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	out := []*unstructured.Unstructured{}
	for _, o := range objects {
		out = append(out, o.DeepCopy())
	}
	return out
}

// newService is a Service over the example's Pods; class "": the Tenant's.
func newService(name, class string) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []v1.ServicePort{{Name: "http", Port: webPort}},
		},
	}
	if class != "" {
		class = "fairlead.dev/" + class
		s.Spec.LoadBalancerClass = &class
	}
	return s
}

// makeService makes a Service, once one of the same name that was deleted is gone.
func makeService(t *testing.T, tenant *fleet.Tenant, name, class string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s's Service %s to be made", tenant.Name(), name), func(ctx context.Context) error {
		old := &v1.Service{}
		err := tenant.API.Create(ctx, newService(name, class))
		if !apierrors.IsAlreadyExists(err) {
			must(t, err)
			return nil
		}
		if err := tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, old); err == nil && old.DeletionTimestamp == nil {
			t.Fatalf("%s's Service %s is there already", tenant.Name(), name)
		}
		return err
	})
}

func deleteService(t *testing.T, tenant *fleet.Tenant, name string) {
	t.Helper()
	must(t, tenant.API.Delete(t.Context(), &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

// giveUp turns a Service into one of type NodePort: it has no address any more, and who still sends to its node ports is answered.
func giveUp(t *testing.T, tenant *fleet.Tenant, name string) {
	t.Helper()
	must(t, tenant.API.Patch(t.Context(), &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"type":"NodePort","loadBalancerClass":null}}`))))
}

// addressOf returns the address in a Service's status, or an error if there is none.
func addressOf(ctx context.Context, tenant *fleet.Tenant, name string) (netip.Addr, error) {
	s := &v1.Service{}
	if err := tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return netip.Addr{}, err
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		return netip.ParseAddr(i.IP)
	}
	return netip.Addr{}, fmt.Errorf("service %s of %s has no address", name, tenant.Name())
}

func awaitAddress(t *testing.T, tenant *fleet.Tenant, name string) netip.Addr {
	t.Helper()
	a := netip.Addr{}
	eventually(t, soon, fmt.Sprintf("%s's Service %s to get an address", tenant.Name(), name), func(ctx context.Context) (err error) {
		a, err = addressOf(ctx, tenant, name)
		return err
	})
	return a
}

// answers asks through each front once; each answer must be of a Pod of this tenant.
func answers(ctx context.Context, tenant *fleet.Tenant, a netip.Addr, fronts ...front) error {
	allow := tenant.Pods.Allow("web")
	for _, f := range fronts {
		way, began := f.Way(a, webPort), time.Now()
		answer, err := way.Ask(ctx, "/")
		if err != nil {
			return fmt.Errorf("%s through %s: %w", a, way.Name, err)
		}
		if why := allow(answer.Identity, began); why != "" {
			return fmt.Errorf("%s through %s: %s", a, way.Name, why)
		}
	}
	return nil
}

func awaitAnswers(t *testing.T, tenant *fleet.Tenant, a netip.Addr, fronts ...front) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer for %s", a, tenant.Name()), func(ctx context.Context) error { return answers(ctx, tenant, a, fronts...) })
}

// refuses tells whether each front refuses.
func refuses(ctx context.Context, a netip.Addr, fronts ...front) error {
	for _, f := range fronts {
		way := f.Way(a, webPort)
		if _, err := way.Ask(ctx, "/"); traffic.KindOf(err) != traffic.FailureRefused {
			return fmt.Errorf("%s through %s does not refuse: %v", a, way.Name, err)
		}
	}
	return nil
}

func awaitRefusal(t *testing.T, a netip.Addr, fronts ...front) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to refuse", a), func(ctx context.Context) error { return refuses(ctx, a, fronts...) })
}

// annotateNode sets an annotation of a Node, or takes it away where value is nil.
func annotateNode(t *testing.T, tenant *fleet.Tenant, node, annotation string, value any) {
	t.Helper()
	patchNode(t, tenant, node, "annotations", annotation, value)
}

// labelNode is annotateNode for labels.
func labelNode(t *testing.T, tenant *fleet.Tenant, node, label string, value any) {
	t.Helper()
	patchNode(t, tenant, node, "labels", label, value)
}

func patchNode(t *testing.T, tenant *fleet.Tenant, node, field, key string, value any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}})
	must(t, err)
	must(t, tenant.API.Patch(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, text)))
}

// isTarget tells whether the hub has a tenant's node as a target.
func (w *world) isTarget(ctx context.Context, tenant *fleet.Tenant, node string) (bool, error) {
	g, err := w.NodesGroup(ctx, tenant)
	return slices.ContainsFunc(g.Spec.Targets, func(x v1alpha1.Target) bool { return x.Name == node }), err
}

// awaitState waits until the hub says that of a tenant's node, with that message.
func (w *world) awaitState(t *testing.T, tenant *fleet.Tenant, node, state, message string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s of %s to be %q: %s", node, tenant.Name(), state, message), func(ctx context.Context) error {
		return w.IsMember(ctx, tenant, node, state, message)
	})
}

// fence sets a Proxy's fence; reason "": takes it away.
func (w *world) fence(t *testing.T, proxy, reason string) {
	t.Helper()
	must(t, w.tryFence(t, proxy, reason))
}

// tryFence is fence, which the hub may refuse.
func (w *world) tryFence(t *testing.T, proxy, reason string) error {
	patch := `{"spec":{"fenced":null}}`
	if reason != "" {
		patch = fmt.Sprintf(`{"spec":{"fenced":{"by":"test","reason":%q}}}`, reason)
	}
	return w.Hub.API.Patch(t.Context(), &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: proxy}}, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// awaitProxy waits until a Proxy has that reason in its condition Ready.
func (w *world) awaitProxy(t *testing.T, proxy, reason string) {
	t.Helper()
	eventually(t, soon, proxy+" to be "+reason, func(ctx context.Context) error {
		p := &v1alpha1.Proxy{}
		if err := w.Hub.API.Get(ctx, client.ObjectKey{Name: proxy}, p); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("its condition is %v", c)
		}
		return nil
	})
}

// programmed is an error if a LoadBalancer of any tenant is not Programmed.
func (w *world) programmed(ctx context.Context) error {
	list := &clusterv1.LoadBalancerList{}
	if err := w.Hub.API.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("there is no LoadBalancer")
	}
	for i := range list.Items {
		l := &list.Items[i]
		if !meta.IsStatusConditionTrue(l.Status.Conditions, clusterv1.ConditionProgrammed) {
			return fmt.Errorf("LoadBalancer %s/%s is not: %v", l.Namespace, l.Name, meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed))
		}
	}
	return nil
}

// gone takes what a Get returned: it is an error unless there is no such object.
func gone[T client.Object](o T, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is still there", o.GetName())
}
