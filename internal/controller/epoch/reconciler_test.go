package epoch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// stage is a hub with one Tenant, t, and one proxy that adopted epoch 4 and saw the hub change since.
type stage struct {
	*testing.T
	*Reconciler
	hub client.Client
}

func newStage(t *testing.T, tenant *v1alpha1.Tenant, more ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	tenant.Name = "t"
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(tenant).WithObjects(append(more, tenant)...).Build()
	log := slog.New(slog.DiscardHandler)
	proxies := fleet.New(fleet.Options{Logger: log, Now: time.Now})
	r := New(Options{Logger: log, Client: hub, Fleet: proxies, Now: time.Now})
	s := &stage{t, r, hub}
	s.starts("p", 4)
	return s
}

// starts has a proxy say, by a new process, that it had adopted an epoch when the hub changed.
func (s *stage) starts(name string, epoch int64) {
	s.Fleet.SetProxy(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: "edge"}, Status: v1alpha1.ProxyStatus{
		Boot: time.Now().String(), Phase: v1alpha1.ProxyServing, Epoch: epoch,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubRestored}},
	}})
}

// renews has a proxy renew its Lease, for the second time that this manager sees.
func (s *stage) renews(name string) {
	lease := func(at time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}}}
	}
	s.Fleet.ListLease(lease(time.Now()))
	s.Fleet.SetLease(lease(time.Now().Add(time.Second)))
}

// round reconciles once, and returns what the Tenant says then.
func (s *stage) round() *v1alpha1.Tenant {
	s.Helper()
	t := &v1alpha1.Tenant{}
	key := client.ObjectKey{Name: "t"}
	if _, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		s.Fatal(err)
	}
	if err := s.hub.Get(s.Context(), key, t); err != nil {
		s.Fatal(err)
	}
	return t
}

func (s *stage) says(t *v1alpha1.Tenant, hub, agent int64, left time.Duration) {
	s.Helper()
	until := ""
	if left != 0 {
		until = at(left)
	}
	if is := t.Annotations[v1alpha1.AnnotationHeldUntil]; t.Status.HubEpoch != hub || t.Status.AgentEpoch != agent || is != until {
		s.Fatalf("hub %d, agent %d, held until %q; want %d, %d, %q", t.Status.HubEpoch, t.Status.AgentEpoch, is, hub, agent, until)
	}
}

func at(left time.Duration) string { return time.Now().Add(left).UTC().Format(time.RFC3339) }

// A copy that was made while an earlier change was waited for has that one's time.
func TestATimeFromBeforeTheRestoreIsNotCounted(t *testing.T) {
	for name, left := range map[string]time.Duration{"long over": -100 * time.Hour, "soon over": time.Minute, "no time": 0, "what this manager just wrote": Wait} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenant := &v1alpha1.Tenant{Status: v1alpha1.TenantStatus{HubEpoch: 4, AgentEpoch: 3}}
				if left != 0 {
					tenant.Annotations = map[string]string{v1alpha1.AnnotationHeldUntil: at(left)}
				}
				s := newStage(t, tenant)
				s.says(s.round(), 5, 3, Wait)
				// In the same epoch it counts.
				time.Sleep(Wait - time.Second)
				s.says(s.round(), 5, 3, time.Second)
				time.Sleep(time.Second)
				if is := s.round(); is.Status.AgentEpoch != 5 {
					t.Errorf("waited for on: %+v", is)
				}
				s.says(s.round(), 5, 5, 0)
			})
		})
	}
}

// An agent that renews its Lease and never says that all is written gets twice the time, and no more: whoever manages.
// One that knows no epochs gets the time once.
func TestAnAgentThatNeverComesToAnEndIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		want time.Duration
	}{"an agent of now": {"4", 2 * Wait}, "an older one": {"", Wait}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: v1alpha1.AgentLease, Annotations: map[string]string{v1alpha1.AnnotationEpoch: c.says}}}
				s := newStage(t, &v1alpha1.Tenant{Status: v1alpha1.TenantStatus{HubEpoch: 4, AgentEpoch: 4}}, lease)
				for began := time.Now(); ; time.Sleep(time.Minute) {
					lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
					if err := s.hub.Update(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
					waited := time.Since(began)
					if waited > 0 && waited%(5*time.Hour) == 0 {
						s.Reconciler = New(s.Options) // another manager
					}
					is := s.round()
					if over := is.Status.AgentEpoch == 5; over && waited < c.want || !over && waited > c.want+10*time.Minute {
						t.Fatalf("after %s: %+v %v", waited, is.Status, is.Annotations)
					} else if over {
						break
					}
				}
				if is := s.round(); len(is.Annotations) > 0 {
					t.Errorf("left behind: %v", is.Annotations)
				}
			})
		})
	}
}
