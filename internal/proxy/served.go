package proxy

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
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
	// Draining are the TargetGroups with a target that is to be drained.
	Draining []*v1alpha1.TargetGroup
	// Releasing are this pool's addresses that nobody may serve any more.
	Releasing []*v1alpha1.Address
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
	// The lists are made anew when the maps changed; served shares them.
	drainingList  []*v1alpha1.TargetGroup
	releasingList []*v1alpha1.Address
}

func newWatched(pool string) *watched {
	return &watched{pool: pool, draining: map[Key]*v1alpha1.TargetGroup{}, releasing: map[Key]*v1alpha1.Address{}}
}

// note takes a change in.
func (w *watched) note(c Change) {
	switch c.Resource {
	case TargetGroups:
		tg, _ := c.Object.(*v1alpha1.TargetGroup)
		if tg != nil && !drainsAny(tg) {
			tg = nil
		}
		if keep(w.draining, c.Key, tg) {
			w.drainingList = sorted(w.draining)
		}
	case Addresses:
		a, _ := c.Object.(*v1alpha1.Address)
		if a != nil && (a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ProxyPool != w.pool) {
			a = nil
		}
		if keep(w.releasing, c.Key, a) {
			w.releasingList = sorted(w.releasing)
		}
	}
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
