package cli

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A proxy that leaves is told from one that starts, though both serve nothing.
func TestAProxyThatLeaves(t *testing.T) {
	for reason, says := range map[string]string{"Leaving": "leaving", "Starting": "starting"} {
		now := time.Now()
		renewed := metav1.NewMicroTime(now)
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}, Status: v1alpha1.ProxyStatus{
			Boot: "b", Phase: v1alpha1.ProxyStarting,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}},
		}}
		o := &Objects{Now: now, Proxies: []*v1alpha1.Proxy{p}, Leases: []*coordinationv1.Lease{{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "edge-1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
		}}}
		if state, text, _ := proxyState(o, view(o, p)); state != Waiting || !strings.HasPrefix(text, says) {
			t.Errorf("%s: %v, %s", reason, state, text)
		}
	}
}

// A frozen proxy serves on, and people hear why it doesn't follow the hub.
func TestAProxyWhoseHubChanged(t *testing.T) {
	for value, says := range map[metav1.ConditionStatus]string{metav1.ConditionTrue: "frozen in epoch 3: HubRestored: it was", metav1.ConditionFalse: "live"} {
		now := time.Now()
		renewed := metav1.NewMicroTime(now)
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}, Status: v1alpha1.ProxyStatus{
			Boot: "b", Phase: v1alpha1.ProxyServing, Epoch: 3,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: value, Reason: v1alpha1.ReasonHubRestored, Message: "it was"}},
		}}
		o := &Objects{Now: now, Proxies: []*v1alpha1.Proxy{p}, Leases: []*coordinationv1.Lease{{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "edge-1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
		}}}
		if state, text, _ := proxyState(o, view(o, p)); (state == Warning) != (value == metav1.ConditionTrue) || !strings.HasPrefix(text, says) {
			t.Errorf("%s: %v, %s", value, state, text)
		}
	}
}
