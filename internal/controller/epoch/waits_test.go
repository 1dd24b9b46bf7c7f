package epoch

import (
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A frozen proxy that restarts raises the epoch. Who was silent all the while is waited for no longer for that.
func TestARestartProlongsNoWait(t *testing.T) {
	manager := func(s *stage) { s.Reconciler = New(s.Options) }
	renew := func(s *stage, l *coordinationv1.Lease) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if err := s.hub.Update(s.Context(), l); err != nil {
			s.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		agent, unheard bool                                // it has a Lease; the proxy renews none
		before         func(*stage, *coordinationv1.Lease) // while the wait runs
		raises         func(*stage)
		anew           bool
	}{
		"the agent never came":               {},
		"the agent is dead":                  {agent: true},
		"another manager saw the wait":       {before: func(s *stage, _ *coordinationv1.Lease) { manager(s) }},
		"another manager saw no wait":        {raises: func(s *stage) { manager(s); s.starts("p", 5) }, anew: true},
		"the agent was heard":                {agent: true, before: renew, anew: true},
		"another proxy sees a change":        {raises: func(s *stage) { s.starts("q", 5) }, anew: true},
		"another proxy sees one, too":        {raises: func(s *stage) { s.starts("q", 5); s.starts("p", 5) }, anew: true},
		"another proxy is late":              {raises: func(s *stage) { s.starts("q", 3); s.starts("p", 5) }},
		"the proxy was that of an older hub": {unheard: true, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: v1alpha1.AgentLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}}}
				s := newStage(t, &v1alpha1.Tenant{Status: v1alpha1.TenantStatus{HubEpoch: 4, AgentEpoch: 3}})
				if c.agent {
					if err := s.hub.Create(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				if !c.unheard {
					s.renews("p")
				}
				s.says(s.round(), 5, 3, Wait)
				s.says(s.round(), 5, 3, Wait)
				time.Sleep(time.Hour)
				if c.before != nil {
					c.before(s, lease)
				}
				s.says(s.round(), 5, 3, Wait-time.Hour)
				time.Sleep(time.Hour)
				s.says(s.round(), 5, 3, Wait-2*time.Hour)
				if c.raises == nil {
					c.raises = func(s *stage) { s.starts("p", 5) }
				}
				c.raises(s)
				left := Wait - 2*time.Hour
				if c.anew {
					left = Wait
				}
				s.says(s.round(), 6, 3, left)
				s.says(s.round(), 6, 3, left)
				time.Sleep(time.Hour)
				s.starts("p", 6) // Its second restart prolongs neither.
				s.starts("q", 4)
				if left -= time.Hour; c.unheard {
					left = Wait
				}
				s.says(s.round(), 7, 3, left)
				time.Sleep(left)
				if is := s.round(); is.Status.AgentEpoch != 7 {
					t.Errorf("waited for on: %+v", is)
				}
			})
		})
	}
}
