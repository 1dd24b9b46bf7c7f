package member

import (
	"context"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	rules "fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/types"
)

// others are the witness of LoadBalancers whose load balancer somebody else manages: he answers by an annotation of each Machine.
// A target whose Machine is gone has nobody to answer, and goes after maxWait.
type others struct {
	of types.NamespacedName
	// who answers, as messages name him.
	who string
	// annotations of a Machine by its UID; nil: it isn't there.
	annotations func(uid string) map[string]string
}

func (o *others) still() string { return "" }

func (o *others) keeps() string { return "" }

func (o *others) pool() string { return "" }

func (o *others) again() time.Duration { return 0 }

func (o *others) sees(_ context.Context, g *v1alpha1.TargetGroup, _ func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	return func(at int) rules.Sight {
		return rules.Answered(o.annotations(g.Spec.Targets[at].UID), o.of.Name, o.who, g.Drains(at))
	}, nil
}
