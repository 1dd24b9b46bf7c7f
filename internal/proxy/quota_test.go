package proxy

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of a TargetGroup's status nothing is kept but what the Tenant's quota leaves in, and whether somebody has judged that: how many
// members are well, which changes all the time, is no news.
func TestWhatTheQuotaLeavesInIsKept(t *testing.T) {
	type status = v1alpha1.TargetGroupStatus
	group := func(s status) *v1alpha1.TargetGroup {
		return &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "nodes-0", Generation: 1}, Status: s}
	}
	well := []metav1.Condition{{Type: v1alpha1.ConditionHealthy}}
	for name, c := range map[string]struct{ is, kept, later status }{
		"nobody looked":          {status{}, status{}, status{Members: "2/2", WithinQuota: []string{"a"}}},
		"judged":                 {status{Members: "1/2", WithinQuota: []string{"a"}, Conditions: well}, status{WithinQuota: []string{"a"}}, status{Members: "1/2", WithinQuota: []string{"a", "b"}}},
		"none is left in":        {status{Members: "0/2", BeyondQuota: 2}, status{BeyondQuota: 2}, status{Members: "0/2", BeyondQuota: 1}},
		"seen by who lists none": {status{Members: "1/2", Conditions: well}, status{Members: "1/1"}, status{Members: "0/0"}},
		"seen empty":             {status{Members: "0/0"}, status{Members: "0/0"}, status{Members: "1/2"}},
	} {
		g := group(c.is)
		well := group(*c.is.DeepCopy())
		if well.Status.Members != "" && well.Status.Members != "0/0" {
			well.Status.Members = "2/2"
		}
		if !servedAlike(g, well) || servedAlike(g, group(c.later)) {
			t.Errorf("%s: how many are well is news, or who is left in is none", name)
		}
		if strip(g); !equality.Semantic.DeepEqual(g.Status, c.kept) {
			t.Errorf("%s: %+v is kept, want %+v", name, g.Status, c.kept)
		}
		if !servedAlike(g, group(c.is)) {
			t.Errorf("%s: what was kept isn't taken for the same", name)
		}
	}
}
