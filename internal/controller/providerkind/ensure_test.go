package providerkind

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// served is an object of kind Foo that is ready at an address.
func served(name, address string) *unstructured.Unstructured {
	o := object(1, map[string]any{"endpoint": at(address)}, map[string]any{
		"endpoint": at(address), "conditions": []any{said("LBExists", "True", "AsExpected", 1), said("Ready", "True", "AsExpected", 1)},
	})
	o.SetGroupVersionKind(foo.WithVersion("v1"))
	o.SetName(name)
	return o
}

// hub has objects of kind Foo. forbidden is a kind that the manager may not read.
func hub(t *testing.T, forbidden string, objects ...client.Object) *Kinds {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	of, core := foo.WithVersion("v1").GroupVersion(), schema.GroupVersion{Version: "v1"}
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{of, core})
	for _, k := range []schema.GroupVersionKind{of.WithKind(foo.Kind), of.WithKind("Secret"), core.WithKind("Secret")} {
		kinds.Add(k, meta.RESTScopeNamespace)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(kinds).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if kind := o.GetObjectKind().GroupVersionKind().Kind; kind == forbidden && kind != "" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	return New(Options{
		Logger: slog.New(slog.DiscardHandler), Client: c, Cache: c, Reader: c, Kinds: kinds, Now: time.Now,
		Follow: func(_ context.Context, kind schema.GroupVersionKind) error {
			if kind.Kind == forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: kind.Kind}, "", nil)
			}
			return nil
		},
	})
}

// referring is a LoadBalancer of the hub that refers to an object of kind Foo.
func referring(to string) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	refer(l, to)
	return l
}

func refer(l *clusterv1.LoadBalancer, to string) {
	l.Spec.InfrastructureRef = &clusterv1.ObjectReference{APIGroup: foo.Group, Kind: foo.Kind, Name: to}
}

func (k *Kinds) owner(t *testing.T, name string) string {
	t.Helper()
	o, err := k.read(t.Context(), k.Client, foo.WithVersion("v1"), "shop", name)
	if err != nil || o == nil {
		t.Fatal(o, err)
	}
	return OwnerOf(o)
}

// An object serves until another one can take its place, and is not given up while a target is on its way out of it: the other
// one never had that target, and would call it gone.
func TestTurningToAnotherObject(t *testing.T) {
	l := referring("a")
	taken := served("taken", "192.0.2.3")
	taken.SetOwnerReferences([]metav1.OwnerReference{ownedBy(&clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "2"}})})
	k := hub(t, "", l, served("a", "192.0.2.1"), served("b", "192.0.2.2"), taken)
	ensure := func(what, address, reason, text string) {
		t.Helper()
		s, err := k.Ensure(t.Context(), Wanted{LoadBalancer: l})
		if err != nil {
			t.Fatal(what, err)
		}
		if len(s.Addresses) != 1 || s.Addresses[0].Value != address || s.Reason != reason || !strings.Contains(s.Message, text) {
			t.Errorf("%s: at %v, %q: %s", what, s.Addresses, s.Reason, s.Message)
		}
	}
	ensure("adopted", "192.0.2.1", "", "")
	refer(l, "none")
	ensure("another that isn't there", "192.0.2.1", clusterv1.ReasonProviderObjectNotFound, "there is no FooLoadBalancer shop/none")
	refer(l, "taken")
	ensure("another that is somebody else's", "192.0.2.1", clusterv1.ReasonProviderObjectOwned, "is LoadBalancer db's")
	l.Spec.InfrastructureRef.Kind = "Bar"
	ensure("another of a kind that isn't installed", "192.0.2.1", clusterv1.ReasonProviderNotInstalled, "the hub serves no Bar")
	refer(l, "b")
	for _, state := range []member.State{member.Removing, member.Disabling, member.Updating} {
		l.Status.Targets = []clusterv1.TargetStatus{{Name: "m-1", State: string(member.Active)}, {Name: "m-2", State: string(state)}}
		ensure("another while a target drains", "192.0.2.1", clusterv1.ReasonWaitingForProvider, "target m-2 is "+string(state)+" in FooLoadBalancer shop/a")
		if left, err := k.LetGo(t.Context(), l); err != nil || !strings.Contains(left, "target m-2 is") {
			t.Errorf("it is let go: %q, %v", left, err)
		}
		if a, b := k.owner(t, "a"), k.owner(t, "b"); a != "web" || b != "" {
			t.Errorf("a is %q's, and b %q's", a, b)
		}
	}
	l.Status.Targets[1].State = string(member.Removed)
	ensure("another", "192.0.2.2", "", "")
	if a, b := k.owner(t, "a"), k.owner(t, "b"); a != "" || b != "web" {
		t.Errorf("a is %q's, and b %q's", a, b)
	}
}

// Where all stands still, nothing is written to the LoadBalancer either.
func TestStandingStill(t *testing.T) {
	l := referring("a")
	k := hub(t, "", l, served("a", "192.0.2.1"))
	w := Wanted{LoadBalancer: l}
	if s, err := k.Ensure(t.Context(), w); err != nil || s.Endpoint.Host == "" {
		t.Fatalf("%+v, %v", s, err)
	}
	w.Problems = []lb.Problem{{Field: "spec.ports", Reason: clusterv1.ReasonInvalid, Effect: lb.Refused, Object: lb.ObjectRef{Kind: lb.KindLoadBalancer}}}
	if s, err := k.Ensure(t.Context(), w); err != nil || len(s.Addresses) != 1 || s.Endpoint.Host != "" {
		t.Errorf("refused, it gets %+v, %v", s, err)
	}
	l.Annotations["cluster.x-k8s.io/paused"] = ""
	if s, err := k.Ensure(t.Context(), Wanted{LoadBalancer: l}); err != nil || len(s.Addresses) != 1 || s.Endpoint.Host != "" {
		t.Errorf("paused, it gets %+v, %v", s, err)
	}
}

// What never had an object can be deleted, whatever it refers to.
func TestReleaseOfNothing(t *testing.T) {
	for name, ref := range map[string]clusterv1.ObjectReference{
		"of another group":          {Kind: "Secret", Name: "x"},
		"of a kind that it may not": {APIGroup: foo.Group, Kind: "Secret", Name: "x"},
		"of no kind":                {APIGroup: foo.Group, Name: "x"},
		"of an unknown kind":        {APIGroup: foo.Group, Kind: "Bar", Name: "x"},
	} {
		l := referring("x")
		l.Spec.InfrastructureRef = &ref
		k := hub(t, "Secret", l)
		if left, err := k.Release(t.Context(), l, nil); left != "" || err != nil {
			t.Errorf("%s: %q, %v", name, left, err)
		}
		if m, _, err := k.Members(t.Context(), l, nil); m != nil || ref.APIGroup == "" && len(k.kinds) > 0 || err != nil {
			t.Errorf("%s: members %v, followed %v, %v", name, m, k.kinds, err)
		}
	}
	l := referring("x")
	l.Annotations = map[string]string{v1alpha1.AnnotationImplementedBy: "Secret." + foo.Group + "/x"}
	if left, err := hub(t, "Secret", l).Release(t.Context(), l, nil); !strings.Contains(left, "the manager may not") || err != nil {
		t.Errorf("one that had an object which can't be read is let go: %q, %v", left, err)
	}
}

// Kinds that somebody invents are forgotten.
func TestInventedKinds(t *testing.T) {
	now := time.Unix(1000, 0)
	k := hub(t, "")
	k.Now = func() time.Time { return now }
	for range 100 {
		if _, t2, err := k.follow(t.Context(), schema.GroupKind{Group: foo.Group, Kind: "X" + now.Format("150405")}); t2 == nil || err != nil {
			t.Fatal(t2, err)
		}
		now = now.Add(later)
	}
	if len(k.kinds) > 1 {
		t.Errorf("%d are remembered", len(k.kinds))
	}
}
