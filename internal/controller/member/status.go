package member

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxTargets is how many a status has room for.
const maxTargets = 1000

// say writes what became of the members to the LoadBalancer's status. While nothing may move they stay as they were said.
func (r *Reconciler) say(ctx context.Context, v *view, plan *machines.Plan) error {
	l := v.LoadBalancer
	next := l.DeepCopy()
	if v.Shared.Frozen == "" {
		describe(&next.Status, &l.Status, plan, metav1.NewTime(r.Now()))
	}
	c := metav1.Condition{Type: clusterv1.ConditionTargetsFollowed, Status: metav1.ConditionTrue, Reason: clusterv1.ReasonAsExpected, ObservedGeneration: l.Generation}
	if v.problem != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v.problem.reason, sentence(v.problem.message)
	}
	meta.SetStatusCondition(&next.Status.Conditions, c)
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
		return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}

// describe sets the targets of a status that was before.
func describe(s, before *clusterv1.LoadBalancerStatus, plan *machines.Plan, now metav1.Time) {
	old := map[string]clusterv1.TargetStatus{}
	for _, t := range before.Targets {
		old[t.Name] = t
	}
	s.Targets, s.ActiveTargets = nil, nil
	active, all := 0, 0
	for i := range plan.Members {
		m := &plan.Members[i]
		if m.Forgotten {
			continue
		}
		all++
		if m.State == rules.Active {
			active++
		}
		if len(s.Targets) == maxTargets {
			continue
		}
		t := clusterv1.TargetStatus{Name: m.Machine.Name, Address: m.Address, State: string(m.State), Reason: m.Reason, Message: sentence(m.Message), Since: &now}
		if was, ok := old[t.Name]; ok && was.State == t.State && was.Since != nil {
			t.Since = was.Since
		}
		s.Targets = append(s.Targets, t)
		if m.State == rules.Active {
			s.ActiveTargets = append(s.ActiveTargets, m.Machine.Name)
		}
	}
	s.Members = fmt.Sprintf("%d/%d", active, all)
}

// sentence makes one of a message that begins with a small letter and ends without a stop, and bounds it.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	if word, _, _ := strings.Cut(s, " "); s[0] >= 'a' && s[0] <= 'z' && !strings.ContainsAny(word, "./[0123456789") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "…") {
		s += "."
	}
	return s
}
