package member

import (
	"context"
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/provider/contract"
)

// Providers reads the objects of provider kinds.
type Providers interface {
	// Members are what the object of a LoadBalancer says of its members; nil: there is no object that is its own, or it can't be read, as why says.
	Members(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (members *providerkind.Members, why string, err error)
}

// provided object of a provider kind is the witness of the LoadBalancer that it implements.
type provided struct {
	of    *clusterv1.LoadBalancer
	class *v1alpha1.LoadBalancerClass
	all   Providers
}

func (o *provided) pool() string { return "" }

// again is when it is looked at though its changes wake the LoadBalancer: its kind may not be watched yet.
func (o *provided) again() time.Duration { return lookAgain }

func (o *provided) still() string { return "" }

func (o *provided) keeps() string { return "" }

// sees what the object's status says of a TargetGroup's targets. It counts where it was made from the TargetGroup as the target stands in it
// now, and is said of that name and address.
func (o *provided) sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	said, why, err := o.all.Members(ctx, o.of, o.class)
	if err != nil {
		return nil, err
	}
	return func(at int) rules.Sight {
		s := rules.Sight{By: "its provider", Waits: why}
		if said == nil {
			return s
		}
		s.By = said.Name
		t := &g.Spec.Targets[at]
		if seen := said.Generation(g); seen < entered(t).generation {
			s.Waits = fmt.Sprintf("it has seen TargetGroup %s of generation %d, and that is of %d", g.Name, seen, g.Generation)
			return s
		}
		m, known := said.Of(t.Name, t.ServedAddress())
		switch {
		case !known:
			s.Waits = fmt.Sprintf("it doesn't speak of %s", t.Name)
		case g.Drains(at):
			s.Gone = m.State == contract.StateRemoved || m.State == contract.StateDisabled
			s.Waits = strings.TrimSpace(fmt.Sprintf("%s is %s there. %s", t.Name, m.State, m.Message))
		case m.State == contract.StateActive:
			s.Live, s.Healthy = 1, 1
		case m.State == contract.StateUnhealthy:
			s.Live, s.Unhealthy, s.Why = 1, 1, strings.TrimSuffix(strings.TrimSpace(said.Name+": it fails its check. "+m.Message), ".")
		default:
			s.Live = 1 // on its way in
		}
		return s
	}, nil
}
