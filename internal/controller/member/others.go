package member

import (
	"context"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	rules "fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/types"
)

// others are the witness of LoadBalancers whose load balancer somebody else manages: he answers by an annotation of each Machine.
// A target whose Machine is gone holds nothing and can't be answered for: it is out once it drains.
type others struct {
	of types.NamespacedName
	// who answers, as messages name him.
	who string
	// annotations of a Machine by its UID; false: it isn't there.
	annotations func(uid string) (map[string]string, bool)
}

func (o *others) still() string { return "" }

func (o *others) keeps() string { return "" }

func (o *others) pool() string { return "" }

func (o *others) again() time.Duration { return 0 }

func (o *others) sees(_ context.Context, g *v1alpha1.TargetGroup, _ func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	return func(at int) rules.Sight {
		has, there := o.annotations(g.Spec.Targets[at].UID)
		if !there && g.Drains(at) {
			return rules.Sight{By: o.who, Gone: true}
		}
		return rules.Answered(has, o.of.Name, o.who, g.Drains(at))
	}, nil
}
