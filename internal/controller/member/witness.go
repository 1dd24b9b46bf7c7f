package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// witness knows what becomes of the members of one LoadBalancer: who sends to them, or speaks for who does. It is made anew for each
// round, from what was seen up to then, and there is one for each way in which LoadBalancers are served.
//
//	class proxy       the proxies of the class's pool, and all that may have connections to a target
//	class service     the EndpointSlices of the hub's Service, and the time that connections have
//	hub elsewhere     the hub's TargetGroups, by their status
//	provider kind     the status of the object that implements the LoadBalancer
//	class hooksOnly   whoever manages the load balancer, by annotations of the Machines
//
// A member is removed when its witness says so, and not before: a word that is missing, old or unclear is none. Where proxies served a
// class of this hub before, they are asked besides.
type witness interface {
	// still is why what it says can't be trusted now, so that nothing may move; "": it can.
	still() string
	// sees returns what is seen of the targets of one of the LoadBalancer's TargetGroups, each by its place there. entered says
	// since when a target stands there as it does now: what was seen before that is of another time.
	sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error)
	// keeps is why what is a LoadBalancer's that goes may not be taken off its Machines yet; "": it may. Its members need not
	// have been removed: whoever deletes a LoadBalancer means its traffic to end.
	keeps() string
	// pool of proxies whose words wake the LoadBalancer; "": it is woken otherwise, through the Queue.
	pool() string
	// again is how soon it is to be asked again though nothing wakes the LoadBalancer; 0: something will. It is asked after sees.
	again() time.Duration
}

// entry is since when a target stands in a TargetGroup as it does now: when that was first seen. Another target's change moves none.
type entry struct {
	// version of the TargetGroup, and its generation.
	version    proof.Version
	generation int64
	// at is when, by this manager's clock; a restart counts anew.
	at time.Time
}

// witness of a LoadBalancer's members. A problem says why it isn't known who that is. annotations are those of a Machine by its
// UID, and whether it is there; nil where no member is to be seen.
func (r *Reconciler) witness(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, annotations func(uid string) (map[string]string, bool)) (witness, *problem) {
	switch {
	case r.Elsewhere != nil:
		return elsewhere{r.Elsewhere}, nil
	case r.Providers != nil && (build.ByProvider(l, class) || providerkind.Has(l)): // until it is given up
		return r.besides(&provided{of: l, class: class, all: r.Providers}), nil
	case class != nil && class.Spec.Proxy != nil:
		return r.proxiesOf(class.Spec.Proxy.Pool), nil
	case class != nil && class.Spec.Service != nil:
		return r.besides(r.endpointsOf(l, class)), nil
	case class != nil && class.Spec.HooksOnly != nil:
		ref := class.Spec.HooksOnly.InfrastructureRef
		return r.besides(&others{of: client.ObjectKeyFromObject(l), who: fmt.Sprintf("whoever manages %s %s", ref.Kind, ref.Name), annotations: annotations}), nil
	case class != nil:
		return r.everyProxy(), &problem{clusterv1.ReasonNotSupported, fmt.Sprintf("class %q has neither proxies, a Service nor a template, so that nobody can be asked: use one that has", class.Name)}
	case l.Spec.ClassName == "":
		return r.everyProxy(), &problem{clusterv1.ReasonNoClass, "no class is named, so that it isn't known which proxies are to be asked: set spec.className"}
	}
	return r.everyProxy(), &problem{clusterv1.ReasonClassNotFound, fmt.Sprintf("class %q doesn't exist, so that it isn't known which proxies are to be asked: create it, or mend spec.className", l.Spec.ClassName)}
}

// proxies are the witness of LoadBalancers that our proxies serve.
type proxies struct {
	of    string
	all   []*proof.Proxy
	asked func(context.Context, *v1alpha1.TargetGroup) ([]*proof.Proxy, error)
}

// proxiesOf a pool.
func (r *Reconciler) proxiesOf(pool string) witness {
	return &proxies{of: pool, all: r.Fleet.Pool(pool), asked: r.Asked}
}

// everyProxy speaks where it isn't known, or not any more, which pool served.
func (r *Reconciler) everyProxy() witness {
	if r.Elsewhere != nil {
		return elsewhere{r.Elsewhere}
	}
	return &proxies{all: r.Fleet.All(), asked: r.Asked}
}

func (p *proxies) pool() string { return p.of }

func (p *proxies) again() time.Duration { return 0 }

func (p *proxies) still() string {
	if p.of == "" {
		return "" // none of a pool
	}
	if frozen := slices.DeleteFunc(slices.Clone(p.all), func(x *proof.Proxy) bool { return x.Out || !x.Frozen() }); len(frozen) > 0 {
		return proof.FrozenText(frozen)
	}
	return ""
}

func (p *proxies) keeps() string {
	switch t := proof.JudgeTrouble(p.all); {
	case len(t.Frozen) > 0:
		return proof.FrozenText(t.Frozen)
	case len(t.Unseen) > 0:
		// The hub may have changed under it, and it says so with its next word. One that doesn't renew its Lease falls silent.
		return fmt.Sprintf("proxy %s has yet to be heard of by this manager", t.Unseen[0].Name)
	}
	return ""
}

func (p *proxies) sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	asked, err := p.asked(ctx, g)
	if err != nil {
		return nil, err
	}
	seen := (&machines.Group{Object: g, Proxies: asked, Since: func(t *v1alpha1.Target) proof.Version { return entered(t).version }}).Seen
	if p.of == "" || slices.ContainsFunc(asked, func(x *proof.Proxy) bool { return x.Pool == p.of }) {
		return seen, nil
	}
	return func(at int) rules.Sight {
		s := seen(at)
		if s.Gone { // of nobody: proxies may serve what they had of another hub, from which the LoadBalancer has moved
			s.Gone, s.By, s.Waits = false, "pool "+p.of, "it has no proxy here, and those of another hub may send to it until they have come"
		}
		return s
	}, nil
}

// besides is the witness of LoadBalancers that something else serves than our proxies. Their class may have come to that while proxies
// served it: a member has gone when those have stopped too that may still send to it, as of addresses that are held yet.
type besides struct {
	witness
	proxies proxies
	// waits for proxies, of which not every word wakes the LoadBalancer.
	waits bool
}

func (r *Reconciler) besides(now witness) witness {
	return &besides{witness: now, proxies: proxies{asked: r.Asked}}
}

func (b *besides) again() time.Duration {
	if d := b.witness.again(); !b.waits || d > 0 && d < lookAgain {
		return d
	}
	return lookAgain
}

func (b *besides) sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	now, err := b.witness.sees(ctx, g, entered)
	if err != nil {
		return nil, err
	}
	before, err := b.proxies.sees(ctx, g, entered)
	if err != nil {
		return nil, err
	}
	send := map[int]rules.Sight{}
	for at := range g.Spec.Targets {
		if !g.Drains(at) {
			continue
		}
		if s := before(at); !s.Gone {
			send[at], b.waits = s, true
		}
	}
	return func(at int) rules.Sight {
		s := now(at)
		proxies, waits := send[at]
		switch {
		case !waits:
			return s
		case s.Gone:
			return proxies
		}
		s.Waits += "; and for proxies: " + proof.Names(proxies.Against)
		return s
	}, nil
}

// Elsewhere speaks for the proxies of a hub that is another cluster than the Machines'. It is safe for concurrent use, and wakes
// LoadBalancers through the Queue.
type Elsewhere interface {
	// Sees returns what the hub says of the targets of a TargetGroup that is here, each by its place. since is the generation in
	// which one was first seen as it stands there now: what the hub says of an earlier one is of another time.
	Sees(ctx context.Context, g *v1alpha1.TargetGroup, since func(*v1alpha1.Target) int64) (func(at int) rules.Sight, error)
}

// elsewhere is the witness of LoadBalancers that the proxies of such a hub serve. A hub that can't be reached is no reason to
// stand still: it just has no new word.
type elsewhere struct{ hub Elsewhere }

func (elsewhere) still() string { return "" }

func (elsewhere) keeps() string { return "" }

func (elsewhere) pool() string { return "" }

func (elsewhere) again() time.Duration { return 0 }

func (e elsewhere) sees(ctx context.Context, g *v1alpha1.TargetGroup, entered func(*v1alpha1.Target) entry) (func(at int) rules.Sight, error) {
	return e.hub.Sees(ctx, g, func(t *v1alpha1.Target) int64 { return entered(t).generation })
}
