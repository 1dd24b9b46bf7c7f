package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// change is what the world knows of a hub that became another.
type change struct {
	// copied are the holders in the copy that it was restored from, by Address.
	copied map[string][]v1alpha1.Holder
	// excused hosts can't be known of: they were out of reach, and nobody said that the hub is being restored.
	excused map[*host]bool
	// known are processes, by boot, of which it has the last word: they may not notice the change, and need not.
	known map[string]bool
	// mixed are those that had said nothing yet in the hub before this one: they take for one hub what they list of both.
	mixed map[string]bool
	// unknowable hosts may send to whom this hub doesn't know: they were out of reach when it became this one, or it has no Proxy of theirs.
	unknowable map[*host]bool
}

// copyOf is the server as it stands.
func (s *server) copyOf() *server {
	c := *s
	for k := range s.objects {
		c.objects[k] = maps.Clone(s.objects[k])
		c.log[k] = slices.Clone(s.log[k])
	}
	c.refusing = map[string]bool{}
	return &c
}

// hubCopy is the hub as it stood at a time.
type hubCopy struct {
	*server
	made time.Time
}

// mostCopies are kept.
const mostCopies = 3

// backUp keeps a copy of the hub.
func (w *World) backUp() {
	if len(w.copies) == mostCopies {
		w.copies = slices.Delete(w.copies, 0, 1)
	}
	w.copies = append(w.copies, hubCopy{w.server.copyOf(), time.Now()})
	w.trace("the hub is backed up")
}

// unwritten says that a host has heard of what the copy lacks, and written nothing since: a hub that lost only that, and
// whose versions have grown past it again, looks like the one that it was. It takes a copy that is younger than the
// proxy's last write, and the product's proxies write within seconds of what they hear.
func (c hubCopy) unwritten(h *host) bool {
	px, _ := c.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
	if !h.made || px == nil {
		return false
	}
	heard, seq := int64(0), h.top
	if h.up {
		if h.object != nil {
			seq = h.object.Status.Seq // Later ones had no answer.
		}
		for _, k := range h.link.kinds {
			heard = max(heard, h.link.at[k])
		}
	} else if good := h.disk.good; good != nil {
		seq = good.Memory.Seq
		for _, v := range good.Through {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				heard = max(heard, n)
			}
		}
	}
	return heard > c.version && px.Status.Seq >= seq
}

// restore puts the hub back to a copy.
func (w *World) restore(c hubCopy) {
	if slices.ContainsFunc(w.hosts[:], c.unwritten) {
		return
	}
	bump := w.n(2) == 0
	next := c.copyOf()
	next.writes = w.server.writes
	if bump {
		next.version += 100_000
	}
	for k := range next.floor {
		next.floor[k] = next.version // API servers that start know nothing of what was before
	}
	w.trace("the hub is restored to v%d, versions bumped: %v", next.version, bump)
	w.become(next)
	w.end()
}

// replace puts another hub in the place of this one, with what people make in it.
func (w *World) replace() {
	next := newServer()
	next.uid = fmt.Sprintf("hub-%d", w.incarnation+1)
	next.version = int64(w.n(int(2 * w.server.version)))
	for k := range next.floor {
		next.floor[k] = next.version
	}
	next.writes = w.server.writes
	w.trace("the hub is replaced, at v%d", next.version)
	w.become(next)
	w.furnish()
	w.mislay()
}

// become is the moment of it.
func (w *World) become(next *server) {
	for _, h := range w.hosts {
		w.keep(h)
		for _, c := range h.plane.sorted() {
			if h.unfiled(c.frontend) || !h.plane.has(c.frontend) {
				h.plane.untold[c] = true // Nobody says in the new hub that connections of what is no more are open.
			}
		}
	}
	was := w.server.uid
	w.machinesChange(next)
	w.past = append(w.past, w.server)
	w.incarnation++
	w.result.Changed++
	next.observe = w.observe
	w.server, w.delayed = next, nil
	w.renewed, w.returned = map[string]time.Time{}, map[string]int64{}
	for _, o := range next.list(loadBalancers) {
		w.forgoEnding(o, o)
	}
	careful := w.n(2) == 0
	w.change = &change{copied: map[string][]v1alpha1.Holder{}, excused: map[*host]bool{}, known: map[string]bool{}, mixed: map[string]bool{}, unknowable: map[*host]bool{}}
	for _, o := range next.list(addresses) {
		w.change.copied[o.GetName()] = o.(*v1alpha1.Address).Spec.Holders
	}
	for _, h := range w.hosts {
		if h.on && !h.fenced && !careful && (!h.up || h.link.cut || next.objects[proxies][types.NamespacedName{Name: h.name}] == nil) {
			w.change.excused[h] = true
		}
		w.change.unknowable[h] = !h.up || h.link.cut || next.objects[proxies][types.NamespacedName{Name: h.name}] == nil
	}
	for _, h := range w.hosts {
		if h.up && w.remembered(h) {
			h.spoke, w.change.known[h.boot] = w.incarnation, true
		}
		w.change.mixed[h.boot] = h.up && (h.object == nil || h.spoke < w.incarnation-1)
	}
	if careful {
		w.restoring = true
		w.poolsChange()
	}
	for _, l := range w.links() {
		l.broken()
	}
	for _, m := range w.mgrs {
		if w.n(2) == 0 || was == next.uid && m.canNotTell(next) {
			w.restart(m, false)
		}
	}
	for _, a := range w.agents {
		if a.namespace != tenantName {
			a.link.anew() // It is no agent's, but that of people, who look.
		}
	}
}

// poolsChange tells managers what a person wrote to the pools.
func (w *World) poolsChange() {
	w.trace("restoring: %v", w.restoring)
	for _, m := range w.mgrs {
		m.keeper.SetPools(w.pools())
		m.adoption.Look()
		for _, key := range sortedKeys(m.cache[addresses]) {
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

func hubChanged(px *v1alpha1.Proxy) bool {
	for _, c := range px.Status.Conditions {
		if c.Type == v1alpha1.ConditionHubChanged && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

func (w *World) proxyOf(h *host) *v1alpha1.Proxy {
	px, _ := w.server.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
	return px
}
