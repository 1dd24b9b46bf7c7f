package controller_test

import (
	"errors"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managerBeside: while a manager leads in the management cluster, by its Lease, the agent leaves all as it is, and says so. It goes on when
// that is gone.
func (m *managed) managerBeside() {
	m.t.Helper()
	who, renewed := "manager-1", metav1.NewMicroTime(time.Now().Add(time.Hour)) // by a clock that is ahead: when it is seen counts
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.ManagerLease}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, RenewTime: &renewed},
	}
	m.create(lease)
	stands := func(l *clusterv1.LoadBalancer) error {
		if c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionMirrored); c == nil || c.ObservedGeneration != l.Generation {
			return fmt.Errorf("it says %+v", c)
		}
		return condition(l.Status.Conditions, "Mirrored=False/StandsStill")
	}
	wait(m.hub, m.lb, "to stand still", stands)
	m.change(m.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.DrainTimeout = &metav1.Duration{Duration: 7 * time.Second}
	})
	inHub := func(ctx ctx) (mirrored bool, _ error) {
		balancers, _, err := m.inHub(ctx)
		if err == nil && len(balancers) != 1 {
			err = fmt.Errorf("it has %+v", balancers)
		}
		if err != nil {
			return false, err
		}
		d := balancers[0].Spec.DrainTimeout
		return d != nil && d.Duration == 7*time.Second, nil
	}
	wait(m.hub, m.lb, "to stand still with what is new, too", stands)
	if mirrored, err := inHub(m.t.Context()); err != nil || mirrored {
		m.t.Errorf("the hub was written meanwhile: %v, %v", mirrored, err)
	}
	m.delete(lease)
	m.until("the hub to have what is new", func(ctx ctx) error {
		if mirrored, err := inHub(ctx); err != nil || !mirrored {
			return errors.Join(err, errors.New("it hasn't"))
		}
		return nil
	})
	m.says("Programmed=True", "Mirrored=True")
	m.change(m.lb, func(o client.Object) { o.(*clusterv1.LoadBalancer).Spec.DrainTimeout = nil })
}
