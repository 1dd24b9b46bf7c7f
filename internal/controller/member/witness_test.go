package member

import (
	"context"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"fairlead.dev/fairlead/provider/contract"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Whatever serves a class now, and says of a member that it has gone: proxies that served the class before, and may still send, are asked too.
func TestProxiesThatStillSendAreAskedWhateverServesNow(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	g := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api-members-0", UID: "g", Generation: 7, ResourceVersion: "7"},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}, State: v1alpha1.TargetDraining}}},
	}
	gone := &contract.Status{
		Targets:  []clusterv1.TargetStatus{{Name: "a", Address: "10.0.0.1", State: contract.StateRemoved}},
		Observed: &contract.Observed{TargetGroups: []contract.ObservedTargetGroup{{Name: g.Name, UID: string(g.UID), Generation: 7}}},
	}
	wants := map[string]string{rules.WantedPrefix + "api": string(v1alpha1.TargetDraining)}
	answers := map[string]string{rules.WantedPrefix + "api": string(v1alpha1.TargetDraining), rules.AnswerPrefix + "api": string(rules.AnswerGone)}
	ref := clusterv1.ObjectReference{Kind: "F5Pool", Name: "by-hand"}
	none := metav1.Duration{Duration: time.Nanosecond} // connections have had their time
	for name, class := range map[string]v1alpha1.LoadBalancerClassSpec{
		"service":  {Service: &v1alpha1.ClassService{Type: "LoadBalancer"}, Defaults: &v1alpha1.ClassDefaults{DrainTimeout: &none}},
		"provider": {InfrastructureTemplate: &ref},
		"others":   {HooksOnly: &v1alpha1.ClassHooksOnly{InfrastructureRef: ref}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			proxy := &proof.Proxy{Name: "edge-1", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true}
			r := &Reconciler{pins: map[pin]pinned{}, Options: Options{
				Now: func() time.Time { now = now.Add(time.Second); return now }, Versions: kit.NewVersions(), Reader: fake.NewClientBuilder().WithScheme(scheme).Build(), Providers: saying{gone},
				Asked: func(context.Context, *v1alpha1.TargetGroup) ([]*proof.Proxy, error) {
					return []*proof.Proxy{proxy}, nil
				},
			}}
			l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api"}}
			says := answers
			sees := func() (rules.Sight, time.Duration) {
				t.Helper()
				by, problem := r.witness(l, &v1alpha1.LoadBalancerClass{Spec: class}, func(string) (map[string]string, bool) { return says, true })
				if problem != nil {
					t.Fatal(problem)
				}
				groups, err := by.sees(t.Context(), g, func(target *v1alpha1.Target) entry { return r.since(pin{}.of, g, target) })
				if err != nil {
					t.Fatal(err)
				}
				return groups(0), by.again()
			}
			for _, step := range []struct {
				what    string
				through proof.Version
				state   v1alpha1.ReportedState
				waits   string
			}{
				{"has yet to hear of it", 6, v1alpha1.ReportedGone, "has not applied it yet"},
				{"has connections", 7, v1alpha1.ReportedDraining, "has open connections"},
				{"has let go", 7, v1alpha1.ReportedGone, ""},
			} {
				proxy.Through = proof.Vector{TargetGroups: step.through, Addresses: step.through}
				proxy.Reports = map[string]*v1alpha1.ProxyReport{"ns": {Members: []v1alpha1.ReportedMember{{GroupUID: "g", TargetUID: "a", Address: "10.0.0.1", State: step.state}}}}
				if s, again := sees(); s.Gone != (step.waits == "") || !strings.Contains(proof.Names(s.Against), step.waits) || !s.Gone && (again <= 0 || again > lookAgain) {
					t.Errorf("the proxy %s: %+v, again after %s", step.what, s, again)
				}
			}
			if name != "others" {
				return
			}
			// Proxies that have stopped don't speak for who serves now, and all are named that are waited for.
			says = wants
			if s, _ := sees(); s.Gone || !strings.Contains(s.Waits, "Gone yet") {
				t.Errorf("%+v", s)
			}
			proxy.Settled = false
			if s, _ := sees(); s.Gone || !strings.Contains(s.Waits, "Gone yet") || !strings.Contains(s.Waits, "edge-1 has written reports") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Nobody's word proves nothing: where a pool has no proxy here, those of another hub may send yet.
func TestAPoolWithoutProxiesProvesNothing(t *testing.T) {
	g := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api-members-0", UID: "g", Generation: 7, ResourceVersion: "7"},
		Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{
			{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}, State: v1alpha1.TargetDraining}, {Name: "b", UID: "b", Addresses: []string{"10.0.0.2"}},
		}},
	}
	out, other := &proof.Proxy{Name: "edge-1", Pool: "edge", Out: true}, &proof.Proxy{Name: "core-1", Pool: "core", Out: true}
	for name, c := range map[string]struct {
		pool string
		has  []*proof.Proxy
		gone bool
	}{
		"none": {"edge", nil, false}, "another pool's": {"edge", []*proof.Proxy{other}, false}, "one that was put out": {"edge", []*proof.Proxy{out}, true}, "it isn't known which pool": {"", nil, true},
	} {
		p := &proxies{of: c.pool, asked: func(context.Context, *v1alpha1.TargetGroup) ([]*proof.Proxy, error) { return c.has, nil }}
		sees, err := p.sees(t.Context(), g, func(*v1alpha1.Target) entry { return entry{} })
		if err != nil {
			t.Fatal(err)
		}
		if s := sees(0); s.Gone != c.gone || !c.gone && !strings.Contains(s.Waits, "no proxy here") {
			t.Errorf("%s: %+v", name, s)
		}
		if s := sees(1); s.Live != 0 || s.Gone || s.By != "" {
			t.Errorf("%s, of one that serves: %+v", name, s)
		}
	}
}
