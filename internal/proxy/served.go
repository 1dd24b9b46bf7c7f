package proxy

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// served is what runs after an Apply, whole: what the reporter speaks of. It
// is immutable.
type served struct {
	// Versions is the input vector of Program; empty while nothing of the hub's view was applied.
	Versions Versions
	// FromHub: Program was built from a complete view of the hub, not from the file.
	FromHub bool
	// Frozen is how the hub has changed since; nil: it has not. Era is the hub's that Versions are of.
	Frozen *Frozen
	Era    int
	Epoch  int64
	Fence  *v1alpha1.Fence
	// Leaving: nothing is served, as if fenced, because the proxy leaves.
	Leaving bool
	Program *lb.Program
	// Refused by the data plane, at Apply.
	Refused []lb.Problem
	// Observation was made after Apply.
	Observation dataplane.Observation
	// Checks are the TargetGroups' own.
	Checks ownChecks
	// Draining are the TargetGroups with a target that is to be drained.
	Draining []*v1alpha1.TargetGroup
	// Releasing are this pool's addresses that nobody may serve any more; Own are this host's, and Beside is what is granted
	// at those, by address or on all hosts.
	Releasing, Beside []*v1alpha1.Address
	Own               []netip.Addr
	// ApplyError is why the last Apply failed; Program is then the one before it.
	ApplyError error
}

// frontends counts what is served: what the data plane refused is not.
func (s *served) frontends() int {
	n := 0
	for _, t := range s.Program.Tenants {
		n += len(t.Frontends)
	}
	return max(n-len(s.Refused), 0)
}

// watched keeps the objects that reports speak of, besides the Program.
type watched struct {
	pool      string
	draining  map[Key]*v1alpha1.TargetGroup
	releasing map[Key]*v1alpha1.Address
	// own addresses of this host; beside are the grants at them.
	own    []netip.Addr
	beside map[Key]*v1alpha1.Address
	// The lists are made anew when the maps changed; served shares them.
	drainingList  []*v1alpha1.TargetGroup
	releasingList []*v1alpha1.Address
	// besideList is made anew when it is asked for: there may be thousands.
	besideList   []*v1alpha1.Address
	besideTurned bool
	checks       map[string]map[string]*clusterv1.HealthCheck
	// checksList is what checks were when they were asked for last, turned are the namespaces that have others since.
	checksList ownChecks
	turned     map[string]bool
}

// ownChecks are those that TargetGroups have themselves, by namespace and name. They are immutable.
type ownChecks map[string]*namespaceChecks

type namespaceChecks struct {
	of map[string]*clusterv1.HealthCheck
}

// ofTargetGroup says that what was found out in a way says something of a TargetGroup, and not of single LoadBalancers that
// have another check; c may be nil.
func (c *namespaceChecks) ofTargetGroup(name, check string) bool {
	return c == nil || build.OfTargetGroup(c.of[name], check)
}

func newWatched(pool string, own []netip.Addr) *watched {
	return &watched{pool: pool, own: own, draining: map[Key]*v1alpha1.TargetGroup{}, releasing: map[Key]*v1alpha1.Address{}, beside: map[Key]*v1alpha1.Address{}, checks: map[string]map[string]*clusterv1.HealthCheck{}, turned: map[string]bool{}}
}

// noteCheck takes a TargetGroup's own check in; nil: it has none.
func (w *watched) noteCheck(k Key, c *clusterv1.HealthCheck) {
	in := w.checks[k.Namespace]
	switch {
	case reflect.DeepEqual(in[k.Name], c):
		return
	case c == nil:
		delete(in, k.Name)
	default:
		if in == nil {
			in = map[string]*clusterv1.HealthCheck{}
			w.checks[k.Namespace] = in
		}
		in[k.Name] = c
	}
	w.turned[k.Namespace] = true
}

// ownChecks are made anew where they changed.
func (w *watched) ownChecks() ownChecks {
	if len(w.turned) == 0 {
		return w.checksList
	}
	next := maps.Clone(w.checksList)
	if next == nil {
		next = ownChecks{}
	}
	for ns := range w.turned {
		if len(w.checks[ns]) == 0 {
			delete(w.checks, ns)
			delete(next, ns)
		} else {
			next[ns] = &namespaceChecks{maps.Clone(w.checks[ns])}
		}
	}
	clear(w.turned)
	w.checksList = next
	return next
}

// note takes a change in.
func (w *watched) note(c Change) {
	switch c.Resource {
	case TargetGroups:
		tg, _ := c.Object.(*v1alpha1.TargetGroup)
		var check *clusterv1.HealthCheck
		if tg != nil {
			check = tg.Spec.HealthCheck
		}
		w.noteCheck(c.Key, check)
		if tg != nil && !drainsAny(tg) {
			tg = nil
		}
		if keep(w.draining, c.Key, tg) {
			w.drainingList = sorted(w.draining)
		}
	case Addresses:
		a, _ := c.Object.(*v1alpha1.Address)
		w.noteBeside(c.Key, a)
		if a != nil && (a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ProxyPool != w.pool) {
			a = nil
		}
		if keep(w.releasing, c.Key, a) {
			w.releasingList = sorted(w.releasing)
		}
	}
}

// noteBeside takes in what is granted at this host's own addresses; nil: it is gone.
func (w *watched) noteBeside(k Key, a *v1alpha1.Address) {
	if a != nil && !build.GrantedAtHost(a, w.pool, w.own) {
		a = nil
	}
	if keep(w.beside, k, a) {
		w.besideTurned = true
	}
}

// grantedBeside is what is granted at this host's own addresses.
func (w *watched) grantedBeside() []*v1alpha1.Address {
	if w.besideTurned {
		w.besideList, w.besideTurned = slices.Collect(maps.Values(w.beside)), false
	}
	return w.besideList
}

func drainsAny(tg *v1alpha1.TargetGroup) bool {
	for i := range tg.Spec.Targets {
		if tg.Drains(i) {
			return true
		}
	}
	return false
}

// keep sets or, for nil, deletes; it says whether the map is different now.
func keep[T any](m map[Key]*T, k Key, o *T) bool {
	if o == nil {
		if m[k] == nil {
			return false
		}
		delete(m, k)
		return true
	}
	m[k] = o
	return true
}

func sorted[T any](m map[Key]*T) []*T {
	keys := make([]Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	out := make([]*T, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
