package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is gone while the ledger still grants its address was lost, not deleted.

func phased(a *v1alpha1.Address, phase v1alpha1.AddressPhase) *v1alpha1.Address {
	a = a.DeepCopy()
	a.Spec.Phase = phase
	a.Generation++
	return a
}

func TestWhatTheLedgerGrantsIsServedOn(t *testing.T) {
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	tg := targetGroup("shop", v1alpha1.Target{Name: "n1", UID: "n1", Addresses: []string{"10.0.0.1"}})
	other, _ := loadBalancer("lab", "web", "192.0.2.1")
	ends := map[string]func(w *world){
		"given up":       func(w *world) { w.set(phased(a, v1alpha1.AddressReleasing)) },
		"gone":           func(w *world) { w.delete(a) },
		"another's now":  func(w *world) { b := phased(a, a.Spec.Phase); b.Spec.Holders[0].Namespace = other.Namespace; w.set(b) },
		"another pool's": func(w *world) { b := phased(a, a.Spec.Phase); b.Spec.ProxyPool = "core"; w.set(b) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "")
				defer w.stop()
				w.list(l, a, class(), tg)
				settle(time.Second)
				w.delete(l)
				w.delete(tg)
				w.delete(class())
				settle(time.Minute)
				w.serves("192.0.2.1:80/TCP")
				w.members("10.0.0.1")
				end(w)
				settle(time.Second)
				w.serves()
				w.set(phased(a, v1alpha1.AddressGranted))
				settle(time.Second)
				w.serves()
			})
		})
	}
}

func TestWhatIsHeldFollowsItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w := newWorld(t, "")
		defer w.stop()
		w.list(l, a, class())
		settle(time.Second)
		w.delete(l)
		settle(time.Second)
		l2 := l.DeepCopy()
		l2.UID, l2.Spec.Ports = "anew", nil
		w.set(l2)
		settle(time.Second)
		w.serves()
	})
}

func TestWhatIsDeletedInOrderIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		dir := t.TempDir()
		w := newWorld(t, dir)
		defer w.stop()
		w.list(l, a, class())
		settle(time.Second)
		l = l.DeepCopy()
		l.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		l.Generation++
		w.set(l)
		settle(time.Second)
		w.serves()
		w.delete(l)
		settle(time.Second)
		w.serves()
		settle(time.Second)
		if g, err := ReadLastGood(dir, "edge-1"); err != nil || len(g.Objects[LoadBalancers]) > 0 {
			t.Errorf("the file holds %d LoadBalancers, %v", len(g.Objects[LoadBalancers]), err)
		}
	})
}

func TestWhatWasMovedIsServedOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", v1alpha1.Target{Name: "n1", UID: "n1", Addresses: []string{"10.0.0.1"}})
		w := newWorld(t, "")
		defer w.stop()
		w.list(l, a, class(), tg)
		settle(time.Second)
		for _, o := range []Object{tg, l} {
			o = o.DeepCopyObject().(Object)
			o.SetAnnotations(map[string]string{clusterv1.MoveAnnotation: ""})
			w.set(o)
			settle(time.Second)
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			o.SetGeneration(2)
			w.set(o)
			settle(time.Second)
			if o.GetName() == "web" {
				w.set(phased(a, v1alpha1.AddressMoved))
			}
			w.delete(o)
			settle(time.Second)
			w.serves("192.0.2.1:80/TCP")
			w.members("10.0.0.1")
		}
		w.delete(a)
		settle(time.Second)
		w.serves()
	})
}

func TestWhatIsHeldIsInTheFile(t *testing.T) {
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		w.list(l, a, class())
		settle(time.Second)
		w.delete(l)
		settle(time.Second)
		w.stop()
		w.restart(dir)
		defer func() { w.stop() }()
		w.list(a, class())
		settle(time.Minute)
		w.serves("192.0.2.1:80/TCP")
		w.set(phased(a, v1alpha1.AddressReleasing))
		settle(time.Second)
		w.serves()
	})
}

// A held Tenant is older than the one that a person makes in its place, and the older of two counts.
func TestAHeldTenantGivesWayToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", v1alpha1.Target{Name: "n1", UID: "n1", Addresses: []string{"10.0.0.1"}}, v1alpha1.Target{Name: "n2", UID: "n2", Addresses: []string{"172.16.0.1"}})
		first, second := tenant("shop", 0, 0), tenant("shop-2", 0, 0)
		first.CreationTimestamp = metav1.Time{Time: time.Now()}
		second.CreationTimestamp = metav1.Time{Time: time.Now().Add(time.Hour)}
		second.Spec.Namespace, second.Spec.TargetCIDRs = "shop", []string{"172.16.0.0/12"}
		w := newWorld(t, "")
		defer w.stop()
		w.list(l, a, class(), tg, first)
		settle(time.Second)
		w.delete(first)
		settle(time.Second)
		w.members("10.0.0.1")
		w.set(second)
		settle(time.Second)
		w.members("172.16.0.1")

		// Both are lost at once: as before.
		w.set(first)
		settle(time.Second)
		w.members("10.0.0.1")
		w.list(l, a, class(), tg)
		settle(time.Second)
		w.members("10.0.0.1")
	})
}
