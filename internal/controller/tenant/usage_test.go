package tenant

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Usage that changes for minutes costs a write each quarter of a minute, however often the Tenant is looked at, and what
// was counted last is written.
func TestUsageIsWrittenRarely(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	writes, now := 0, time.Unix(1000, 0)
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tenant).WithStatusSubresource(&v1alpha1.Tenant{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	keeper := ledger.New(ledger.Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {}})
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Keeper: keeper, Services: func(string) int { return 0 }, Now: func() time.Time { return now }})
	reconciled := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	a := netip.MustParseAddr("10.0.0.1")
	again := reconciled()
	writes = 0
	const seconds = 118
	for range seconds {
		a = a.Next()
		keeper.Observe(&v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: ipam.AddressName(a), UID: types.UID(a.String()), ResourceVersion: "1"},
			Spec: v1alpha1.AddressSpec{Address: a.String(), Pool: "public", Phase: v1alpha1.AddressGranted,
				Holders: []v1alpha1.Holder{{Namespace: "web", Name: "lb-" + a.String(), Ports: []string{"TCP/80"}}}},
		})
		for range 5 { // as each write of its own brings it back
			now = now.Add(200 * time.Millisecond)
			again = reconciled()
		}
	}
	if writes > 12 {
		t.Errorf("%d writes in %d s", writes, seconds)
	}
	if again <= 0 || again > pauseMost {
		t.Fatalf("what was counted last is looked at again after %s", again)
	}
	now = now.Add(again)
	reconciled()
	got := &v1alpha1.Tenant{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "web"}, got); err != nil {
		t.Fatal(err)
	}
	if u := got.Status.Usage; u == nil || u.Addresses != seconds {
		t.Errorf("usage is %+v, want %d addresses", u, seconds)
	}
}

// What an agent says on its Lease is believed where it can be what it is to be: it gets into a status, and into a command for people.
func TestAnAgentsWordsAreNoMoreThanWords(t *testing.T) {
	const good = "11111111-2222-3333-4444-555555555555"
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		bound, uid, version, refused string
		want, agent, reason          string
	}{
		"first contact":               {uid: good, version: "v1.2.3-0.20260102030405-abcdefabcdef+dirty", want: good, agent: "v1.2.3-0.20260102030405-abcdefabcdef+dirty", reason: v1alpha1.ReasonAgentConnected},
		"a UID that is too long":      {uid: long, version: "v1", reason: v1alpha1.ReasonAgentNeverSeen},
		"a UID that is a command":     {uid: "$(reboot)", reason: v1alpha1.ReasonAgentNeverSeen},
		"a version that is too long":  {uid: good, version: long, want: good, reason: v1alpha1.ReasonAgentConnected},
		"a version that is no word":   {uid: good, version: "v1\x1b[2J", want: good, reason: v1alpha1.ReasonAgentConnected},
		"another's that is a command": {bound: good, uid: good, refused: "x;reboot", want: good, reason: v1alpha1.ReasonAgentConnected},
		"another's":                   {bound: good, uid: good, refused: "uid-2", want: good, reason: v1alpha1.ReasonOtherCluster},
		"bound to no UID":             {bound: long, uid: good, reason: v1alpha1.ReasonOtherCluster},
	} {
		tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		if c.bound != "" {
			tn.Annotations = map[string]string{v1alpha1.AnnotationClusterUID: c.bound}
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationClusterUID: c.uid, v1alpha1.AnnotationVersion: c.version}}}
		s := describe(facts{tenant: tn, owned: true, lease: lease, refused: c.refused})
		said := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAgentConnected)
		if s.ClusterUID != c.want || s.AgentVersion != c.agent || said.Reason != c.reason || strings.ContainsAny(said.Message, "$\x1b") || strings.Contains(said.Message, ";reboot") || strings.Contains(said.Message, long) {
			t.Errorf("%s: %q, %q, %+v", name, s.ClusterUID, s.AgentVersion, said)
		}
	}
}
