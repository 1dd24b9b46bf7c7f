package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	rules "fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What fails is said, whatever else failed; what passes by itself is only tried again.
func TestWhatAWriteFailedAt(t *testing.T) {
	machine := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	conflict := fmt.Errorf("writing: %w", apierrors.NewConflict(machine, "a", errors.New("changed")))
	forbidden := fmt.Errorf("writing: %w", apierrors.NewForbidden(machine, "b", errors.New("quota")))
	invalid := fmt.Errorf("writing: %w", apierrors.NewBadRequest("a webhook"))
	for name, c := range map[string]struct {
		err          error
		reason, says string
		passes       bool
	}{
		"nothing":              {},
		"a conflict":           {err: errors.Join(conflict), passes: true},
		"the end":              {err: errors.Join(context.Canceled), passes: true},
		"refused":              {err: errors.Join(conflict, invalid), reason: clusterv1.ReasonWriteFailed, says: "a webhook", passes: true},
		"a right is missing":   {err: errors.Join(invalid, forbidden), reason: clusterv1.ReasonForbidden, says: "quota"},
		"of a group of errors": {err: errors.Join(errors.Join(conflict, invalid), nil), reason: clusterv1.ReasonWriteFailed, says: "a webhook", passes: true},
	} {
		p, passing := (&Reconciler{}).refusal(rules.Machines, c.err)
		if (p == nil) != (c.reason == "") || p != nil && (p.reason != c.reason || !strings.Contains(p.message, c.says)) || (passing != nil) != c.passes {
			t.Errorf("%s: %+v, %v", name, p, passing)
		}
	}
}
