package targetgroup

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// bench has the groups of a Tenant, and a reconciler that looks at them until it has no more to say.
type bench struct {
	*testing.T
	client.Client
	*Reconciler
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// hurried is a queue that has nobody wait.
type hurried struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (q hurried) AddAfter(key reconcile.Request, _ time.Duration) { q.Add(key) }

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.TargetGroup{}).
		WithIndex(&v1alpha1.Tenant{}, kit.TenantByNamespace, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	b := &bench{T: t, Client: c, queue: hurried{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}}
	b.Reconciler = &Reconciler{Client: c, Fleet: fleet.New(fleet.Options{Now: time.Now}), Versions: kit.NewVersions(), Queue: &kit.Queue{}, Now: time.Now}
	t.Cleanup(b.queue.ShutDown)
	if err := b.Queue.Start(t.Context(), b.queue); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// bound sets the quota of targets, and looks at one group of the Tenant.
func (b *bench) bound(n int32, look string) {
	b.Helper()
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	err := b.Get(b.Context(), client.ObjectKeyFromObject(t), t)
	t.Spec.Quota = &v1alpha1.TenantQuota{Targets: ptr.To(n)}
	if client.IgnoreNotFound(err) == nil && err != nil {
		b.must(b.Create(b.Context(), t))
	} else {
		b.must(err)
		b.must(b.Update(b.Context(), t))
	}
	b.look(look)
}

// has writes a group, without targets deletes it, and looks at it.
func (b *bench) has(name string, targets ...string) {
	b.Helper()
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
	err := b.Get(b.Context(), client.ObjectKeyFromObject(g), g)
	g.Spec.Targets = nil
	for _, x := range targets {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: x, UID: x, Addresses: []string{"10.0.0." + x[1:]}})
	}
	switch {
	case err != nil:
		b.must(client.IgnoreNotFound(err))
		b.must(b.Create(b.Context(), g))
	case len(targets) == 0:
		b.must(b.Delete(b.Context(), g))
	default:
		b.must(b.Update(b.Context(), g))
	}
	b.look(name)
}

// look reconciles a group, and then whatever that wakes.
func (b *bench) look(name string) {
	b.Helper()
	b.Queue.Add("prod", name)
	for n := 0; b.queue.Len() > 0; n++ {
		if n > 50 {
			b.Fatal("it goes on and on")
		}
		key, _ := b.queue.Get()
		_, err := b.Reconcile(b.Context(), key)
		b.queue.Done(key)
		b.must(err)
	}
}

// says checks who is within, and whom the condition names as left out.
func (b *bench) says(name, within, out string) {
	b.Helper()
	g := &v1alpha1.TargetGroup{}
	b.must(b.Get(b.Context(), client.ObjectKey{Namespace: "prod", Name: name}, g))
	var got []string
	for _, x := range g.Status.WithinQuota {
		uid, _, _ := strings.Cut(x, "/")
		got = append(got, uid)
	}
	c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionAccepted)
	left := strings.Fields(out)
	ok := slices.Equal(got, strings.Fields(within)) && (c.Status == metav1.ConditionTrue) == (len(left) == 0)
	for _, x := range left {
		ok = ok && c.Reason == clusterv1.ReasonQuotaExceeded && strings.Contains(c.Message, `"`+x+`"`)
	}
	if !ok {
		b.Errorf("%s: within %q, %+v; want %q, without %q", name, got, c, within, out)
	}
}

// A Tenant's groups say which targets are beyond its quota, and are looked at when another group makes room.
func TestGroupsSayWhatIsBeyondTheQuota(t *testing.T) {
	b := newBench(t)
	b.bound(3, "none")
	b.has("local", "n2", "n3")
	b.has("nodes-0", "n2", "n3", "n4")
	b.says("local", "n2 n3", "")
	b.says("nodes-0", "n2 n3 n4", "")
	b.has("nodes-0", "n1", "n2", "n3", "n4")
	b.says("nodes-0", "n2 n3 n4", "n1")
	b.bound(1, "nodes-0") // nothing that is served goes
	b.says("nodes-0", "n2 n3 n4", "n1")
	b.says("local", "n2 n3", "")
	b.has("more", "n5")
	b.says("more", "", "n5")
	b.bound(4, "more") // there is room for one, of the group that is first by name
	b.says("nodes-0", "n2 n3 n4", "n1")
	b.says("more", "n5", "")
	b.has("more")
	b.says("nodes-0", "n1 n2 n3 n4", "")
}
