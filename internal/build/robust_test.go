package build

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNothingPanicsOnNothing(t *testing.T) {
	b := New(Options{})
	for _, o := range []metav1.Object{
		(*clusterv1.LoadBalancer)(nil), (*v1alpha1.TargetGroup)(nil), (*v1alpha1.Address)(nil), (*v1alpha1.LoadBalancerClass)(nil), (*v1alpha1.Tenant)(nil), nil,
		&clusterv1.LoadBalancer{}, &v1alpha1.TargetGroup{}, &v1alpha1.Address{}, &v1alpha1.LoadBalancerClass{}, &v1alpha1.Tenant{}, &corev1.Pod{},
	} {
		b.Set(o)
		b.Program()
		b.Delete(o)
		b.Program()
	}
	if len(b.namespaces) > 0 || len(b.Program().Tenants) > 0 {
		t.Errorf("left behind: %v", b.namespaces)
	}
	b.SetLastGood(nil)
	Whole(Objects{LoadBalancers: []*clusterv1.LoadBalancer{nil}}, Options{})
	if Validate(nil, nil, nil) != nil || ValidateClass(nil) != nil || ValidateTargetGroup(nil, nil, Admission{}) != nil || ValidateTenant(nil) != nil {
		t.Error("a problem of nothing")
	}
}

func TestAStatusWriteIsNoChange(t *testing.T) {
	l, objects := shop()
	b := New(Options{ProxyPool: "edge"})
	for _, o := range objects {
		b.Set(o)
	}
	p := b.Program()
	again := l.DeepCopy()
	again.ResourceVersion, again.Status.Members = "77", "1/1"
	again.Annotations = map[string]string{"x": "y"}
	b.Set(again)
	g := objects[2].(*v1alpha1.TargetGroup).DeepCopy()
	g.Status.Members = "1/1"
	b.Set(g)
	if b.Program() != p {
		t.Error("another Program")
	}
}

// Objects come in any order, some with what they need still missing.
func TestEverythingIsServedOnceItIsThere(t *testing.T) {
	_, objects := shop()
	for first := range objects {
		b := New(Options{ProxyPool: "edge"})
		for i := range objects {
			b.Set(objects[(first+i)%len(objects)])
			b.Program()
		}
		if p := b.Program(); len(p.Listeners) != 2 || len(p.Tenants["shop"].Groups) != 1 {
			t.Errorf("beginning with %T: %+v", objects[first], p)
		}
	}
}
