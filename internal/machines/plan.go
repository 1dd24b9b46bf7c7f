package machines

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/labels"
)

// Group is one of a LoadBalancer's generated TargetGroups.
type Group struct {
	// Object; nil: it isn't there.
	Object *v1alpha1.TargetGroup
	// Proxies that may send to its targets, sorted by name.
	Proxies []*proof.Proxy
	// Since is the version at which one of its targets was first seen as it stands there now.
	Since func(*v1alpha1.Target) proof.Version
	// Sees is what somebody else sees of the target at a place, and proxies aren't asked; nil: proxies are.
	Sees func(at int) member.Sight
}

// Facts are what a Plan is made from.
type Facts struct {
	LoadBalancer *clusterv1.LoadBalancer
	// Kind of its targets; "": Machines.
	Kind member.Kind
	// Shared by all members.
	Shared member.LoadBalancer
	// Selects says whether a Machine is the LoadBalancer's target.
	Selects func(*Machine) bool
	// Machines are all of the namespace, or all Nodes.
	Machines []Machine
	// Groups by their number.
	Groups []Group
	// Cluster whose Machines they are; "": it isn't known.
	Cluster string
	// Unchecked: nobody checks targets, so that they are to say whether their Machines are ready.
	Unchecked bool
	// Asks: what is wanted of a load balancer that somebody else manages is asked by the Machines' annotations.
	Asks bool
	// Waited says for how long a Machine has been to leave, be it there or not.
	Waited func(uid string) time.Duration
}

// Noun of the objects that targets are made from, as messages have it.
func (f *Facts) Noun() string { return string(cmp.Or(f.Kind, member.Machines)) }

// Key names the LoadBalancer in annotations.
func (f *Facts) Key() string { return f.Kind.Key(f.LoadBalancer.Namespace, f.LoadBalancer.Name) }

// Member is one that is a target, or was one.
type Member struct {
	Machine *Machine
	// Kind of it.
	Kind member.Kind
	// Seen is what was decided on.
	Seen member.Member
	member.Decision
	// Address that it is served at, or would be.
	Address string
	// Forgotten: nothing of the LoadBalancer's is left of it but what is noted on the Machine.
	Forgotten bool
}

// Annotations that its Machine is to have.
func (m *Member) Annotations(l *clusterv1.LoadBalancer) map[string]string {
	d := m.Decision
	if m.Forgotten {
		d.State, d.Asked = "", member.Absent
	}
	return m.Kind.Annotate(m.Machine.Annotations, m.Kind.Key(l.Namespace, l.Name), d, HookType(l), m.Seen.Deleting)
}

// Unsettled says that what proxies say next may move it on.
func (m *Member) Unsettled() bool {
	switch m.State {
	case member.Adding, member.Unhealthy, member.Removing, member.Disabling, member.Updating:
		return true
	}
	return m.Reason == member.ReasonPartlySeen || m.Reason == member.ReasonLastActive
}

// Plan is what is to be.
type Plan struct {
	// Members sorted by name.
	Members []Member
	// Groups are the targets of each, by its number.
	Groups [][]v1alpha1.Target
	// Lost: a target is left whose Machine is not there.
	Lost bool
}

// HookType by which a LoadBalancer holds its Machines.
func HookType(l *clusterv1.LoadBalancer) clusterv1.HookType {
	if h := l.Spec.MachineHooks; h != nil && h.Type != "" {
		return h.Type
	}
	return clusterv1.HookPreDrain
}

// DefaultMaxWait is how long a hook holds a Machine, where the LoadBalancer doesn't say.
const DefaultMaxWait = 10 * time.Minute

// Held says how a LoadBalancer holds the objects of a kind that are its targets: Nodes not at all. MaxWait bounds how long one that
// is gone is waited for, too.
func Held(kind member.Kind, l *clusterv1.LoadBalancer) member.LoadBalancer {
	if kind == member.Nodes {
		return member.LoadBalancer{MaxWait: DefaultMaxWait, Release: true}
	}
	out := member.LoadBalancer{Hooked: HookType(l) != clusterv1.HookNone, MaxWait: DefaultMaxWait, Release: true}
	if h := l.Spec.MachineHooks; h != nil {
		if h.MaxWait != nil {
			out.MaxWait = h.MaxWait.Duration
		}
		out.Release = h.OnMaxWait != clusterv1.OnMaxWaitBlock
	}
	return out
}

// own are the LoadBalancer's addresses.
func own(l *clusterv1.LoadBalancer) []string {
	out := slices.Clone(l.Spec.Addresses)
	for _, a := range l.Status.Addresses {
		out = append(out, a.Value)
	}
	if l.Spec.Endpoint != nil {
		out = append(out, l.Spec.Endpoint.Host)
	}
	for _, e := range l.Spec.AlternateEndpoints {
		out = append(out, e.Host)
	}
	return out
}

// place is where a target stands.
type place struct {
	group *Group
	at    int
}

// ready is what a target is to say of its Machine's readiness: false while its Cluster says so, and nothing once it is ready. Where
// that isn't known, as while the Cluster can't be reached, it stays as it was; a Machine that is new is waited for.
func (m *Machine) ready(p place) *bool {
	no := false
	switch {
	case m.Ready == "False", m.Ready == "Unknown" && p.group == nil:
		return &no
	case m.Ready == "Unknown":
		return p.group.Object.Spec.Targets[p.at].Ready
	}
	return nil
}

// Make makes a Plan.
func Make(f Facts) Plan {
	l := f.LoadBalancer
	have := make([][]v1alpha1.Target, len(f.Groups))
	places := map[string]place{}
	for i := range f.Groups {
		if f.Groups[i].Object == nil {
			continue
		}
		have[i] = f.Groups[i].Object.Spec.Targets
		for at := range have[i] {
			if uid := have[i][at].UID; places[uid].group == nil {
				places[uid] = place{&f.Groups[i], at}
			}
		}
	}
	isOwn := member.OwnAddresses(own(l)...)
	var out Plan
	usable := map[string][]string{}
	for i := range f.Machines {
		m := &f.Machines[i]
		p, placed := places[m.UID]
		x := Member{Machine: m, Kind: f.Kind}
		x.Seen = member.Member{
			Name: m.Name, Selected: f.Selects(m), Deleting: m.Deleting, Dead: m.Dead, Disabled: m.Disabled(), Cause: m.Cause,
			Hook: f.Kind.Hooked(m.Annotations, f.Key()), Was: f.Kind.StateIn(m.Annotations, f.Key()), Waited: f.Waited(m.UID),
		}
		if !placed && !x.Seen.Selected && !x.Seen.Hook && x.Seen.Was == "" {
			continue
		}
		addresses := member.Addresses(m.Addresses, l.Spec.AddressTypes, isOwn)
		usable[m.UID] = addresses
		x.Seen.Addressed = len(addresses) > 0
		x.Address = (&v1alpha1.Target{Addresses: addresses}).ServedAddress()
		if placed {
			t := &p.group.Object.Spec.Targets[p.at]
			x.Address = t.ServedAddress()
			if x.Seen.Placed = t.State; x.Seen.Placed != v1alpha1.TargetDraining {
				x.Seen.Placed = v1alpha1.TargetServing
			}
			x.Seen.Sight = p.group.Seen(p.at)
		}
		out.Members = append(out.Members, x)
	}
	slices.SortFunc(out.Members, func(a, b Member) int { return strings.Compare(a.Machine.Name, b.Machine.Name) })
	out.decide(f.Shared)
	for i := range out.Members {
		if x := &out.Members[i]; x.Machine.Still() != "" {
			x.Asked = member.WantedIn(x.Machine.Annotations, l.Name)
		} else if f.Asks {
			// What drains is asked for until it stands in no TargetGroup: an answer must not go before that is written.
			if x.Asked = x.Want; x.Want == member.Absent && x.Seen.Placed == v1alpha1.TargetDraining {
				x.Asked = x.Seen.Placed
			}
		}
	}
	if f.Shared.Frozen != "" {
		out.Groups = have
		return out
	}
	var targets []member.Resolved
	for i := range out.Members {
		x := &out.Members[i]
		r := member.Resolved{Name: x.Machine.Name, UID: x.Machine.UID, Zone: x.Machine.Zone, State: x.Want}
		if f.Unchecked {
			r.Ready = x.Machine.ready(places[x.Machine.UID])
		}
		if x.Want == v1alpha1.TargetServing && x.Machine.Still() == "" {
			r.Addresses = usable[x.Machine.UID] // one that drains is asked about at the address that it had
		}
		targets = append(targets, r)
	}
	lost := out.lost(f)
	out.Lost = len(lost) > 0
	out.Groups = member.Place(have, append(targets, lost...))
	return out
}

// Seen is what is seen of the target at a place.
func (g *Group) Seen(at int) member.Sight {
	if g.Sees != nil {
		return g.Sees(at)
	}
	t := &g.Object.Spec.Targets[at]
	return member.Look(member.Asked{
		Removal: proof.Removal{
			Namespace: g.Object.Namespace, GroupUID: string(g.Object.UID), TargetUID: t.UID, Address: t.ServedAddress(), Version: g.Since(t),
		},
		Draining: g.Object.Drains(at),
	}, g.Proxies)
}

// decide has the members judged. A Machine that nobody may write stays as it is; it counts for the others as what it is.
func (p *Plan) decide(shared member.LoadBalancer) {
	in := make([]member.Member, len(p.Members))
	for i := range p.Members {
		in[i] = p.Members[i].Seen
	}
	for i, d := range member.Decide(shared, in) {
		x := &p.Members[i]
		if why := x.Machine.Still(); why != "" {
			d = member.Decision{State: x.Seen.Was, Reason: member.ReasonFrozen, Message: why, Want: x.Seen.Placed, Hook: x.Seen.Hook}
		}
		x.Decision = d
		x.Forgotten = d.State == member.Removed && !x.Seen.Selected && !x.Seen.Deleting && x.Seen.Placed == member.Absent && !x.Seen.Hook && !d.Hook
	}
}

// Changes says whether a TargetGroup or a Machine is to be written.
func (p *Plan) Changes(f Facts) bool {
	if f.Shared.Frozen != "" {
		return false
	}
	if len(p.Groups) != len(f.Groups) {
		return true
	}
	for i := range f.Groups {
		if o := f.Groups[i].Object; o == nil || f.Cluster != "" && o.Labels[v1alpha1.LabelCluster] != f.Cluster || f.Kind != "" && o.Labels[v1alpha1.LabelGeneratedFrom] != string(f.Kind) || !SameTargets(o.Spec.Targets, p.Groups[i]) {
			return true
		}
	}
	return slices.ContainsFunc(p.Members, func(m Member) bool {
		return !maps.Equal(m.Machine.Annotations, m.Annotations(f.LoadBalancer))
	})
}

// SameTargets says that a TargetGroup need not be written.
func SameTargets(a, b []v1alpha1.Target) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.Target) bool {
		return x.Name == y.Name && x.UID == y.UID && x.Zone == y.Zone && x.State == y.State && (x.Ready == nil) == (y.Ready == nil) && (x.Ready == nil || *x.Ready == *y.Ready) && slices.Equal(x.Addresses, y.Addresses)
	})
}

// GroupName is that of a LoadBalancer's generated TargetGroup of a number.
func GroupName(loadBalancer string, number int) string {
	return fmt.Sprintf("%s-members-%d", loadBalancer, number)
}

// GroupOf reads such a name; false: it is none.
func GroupOf(name string) (loadBalancer string, number int, ok bool) {
	i := strings.LastIndex(name, "-members-")
	if i <= 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(name[i+len("-members-"):])
	if err != nil || number < 0 || number > 1000 || GroupName(name[:i], number) != name {
		return "", 0, false
	}
	return name[:i], number, true
}

// Cluster is whose Machines a LoadBalancer is for: the one that it names; else that whose Machines its targets are, as noted;
// else that of all that the selector selects. problem says what is wrong with that; foreign names Machines that are selected
// and are another Cluster's.
func Cluster(l *clusterv1.LoadBalancer, selector labels.Selector, all []Machine, noted string) (cluster string, foreign []string, problem string) {
	cluster = cmp.Or(member.ClusterName(l), noted)
	of := map[string]bool{}
	for i := range all {
		m := &all[i]
		if !selector.Matches(labels.Set(m.Labels)) {
			continue
		}
		of[m.Cluster()] = true
		if cluster != "" && m.Cluster() != cluster {
			foreign = append(foreign, m.Name)
		}
	}
	slices.Sort(foreign)
	switch names := slices.Sorted(maps.Keys(of)); {
	case cluster != "", len(names) == 0:
	case len(names) == 1:
		cluster = names[0]
	default:
		problem = fmt.Sprintf("the selector selects Machines of the Clusters %s: set spec.clusterName", strings.Join(names, ", "))
	}
	return cluster, foreign, problem
}
