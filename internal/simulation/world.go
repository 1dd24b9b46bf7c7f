package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	poolName  = "public"
	proxyPool = "edge"
	className = "edge"
	poolSize  = 2
	hosts     = 3
	services  = 3 // a namespace
)

var namespaces = []string{"blue", "red"}

// Options of a run.
type Options struct {
	Seed uint64
	Bug  Bug
	// Changes has the hub restored from older copies, and replaced.
	Changes bool
	// Steps under faults, before they stop.
	Steps int
	// Log gets a line for each change, if it is set.
	Log func(format string, args ...any)
}

// Result of a run.
type Result struct {
	// Broken is what the judge found; empty: nothing.
	Broken string
	// Counts of what happened, so that a test can tell that something did.
	Programmed, Freed, Drained, Steps int
	// Changed counts how often the hub became another, Thawed the proxies that followed it again after they were frozen, and
	// Kept the frontends that were wanted on through it.
	Changed, Thawed, Kept int
}

// World is everything in one schedule.
type World struct {
	Options
	random *rand.Rand
	server *server
	mgrs   [2]*manager
	hosts  [hosts]*host
	agents []*agent

	delayed []func() (client.Object, error)
	// calm: faults have stopped.
	calm bool
	// incarnation counts how often the hub has become another.
	incarnation int
	change      *change
	backup      *server
	backedUp    time.Time
	// restoring is what a person says of the pool.
	restoring bool
	// working counts reconciles in which the API server is asked; inside: something else happens meanwhile.
	working int
	inside  bool

	quarantine time.Duration
	renewed    map[string]time.Time
	// returned is the version of the Lease that ended a proxy's silence.
	returned map[string]int64
	writer   *manager
	// heard is what writer had heard when it began to judge.
	heard  heard
	result Result
}

func (w *World) has(b Bug) bool { return w.Bug == b }
func (w *World) n(k int) int    { return w.random.IntN(k) }
func (w *World) trace(format string, args ...any) {
	if w.Log != nil {
		w.Log("%8s v%-5d "+format, append([]any{time.Now().Format("05.000"), w.server.version}, args...)...)
	}
}

// faulty says that this request meets a fault.
func (w *World) faulty() bool { return !w.calm && w.n(15) == 0 }

// broken notes what must not be; the first counts.
func (w *World) broken(format string, args ...any) {
	if w.result.Broken == "" {
		w.result.Broken = fmt.Sprintf(format, args...)
		w.trace("BROKEN %s", w.result.Broken)
	}
}

// Run plays one schedule. It must be called in a synctest bubble: its clock is fake, and starts anew in each.
func Run(o Options) Result {
	w := &World{Options: o, random: rand.New(rand.NewPCG(o.Seed, 5)), server: newServer(), renewed: map[string]time.Time{}, returned: map[string]int64{}}
	w.server.observe = w.observe
	w.quarantine = time.Duration(w.n(2)) * 5 * time.Second
	w.begin()
	for i := 0; i < o.Steps && w.result.Broken == ""; i++ {
		w.step()
		w.judgeServed()
		w.result.Steps++
	}
	if w.result.Broken == "" {
		w.settle()
	}
	return w.result
}

func (w *World) begin() {
	w.furnish()
	for _, ns := range namespaces {
		w.agents = append(w.agents, newAgent(w, ns))
	}
	for i := range w.hosts {
		w.hosts[i] = newHost(w, i)
		if w.n(2) == 0 {
			w.hosts[i].refuse[81] = true
		}
		if i < 2 {
			w.hosts[i].start()
		}
	}
	for i := range w.mgrs {
		w.mgrs[i] = newManager(w, fmt.Sprintf("manager-%d", i))
	}
	w.mgrs[0].elect()
	if w.Changes {
		w.warmUp()
	}
}

// warmUp has something be served, so that a hub that changes can take it away.
func (w *World) warmUp() {
	w.calm = true
	for _, a := range w.agents {
		for range 2 + w.n(3) {
			a.user()
		}
	}
	for range 5 {
		w.round(time.Second)
	}
	w.calm = false
	w.backUp()
}

func (w *World) must(_ client.Object, err error) {
	if err != nil {
		panic(err)
	}
}

// interleave lets something else happen while a request is on its way.
func (w *World) interleave() {
	if w.inside || w.calm || w.n(4) > 0 {
		return
	}
	w.inside = true
	for range 1 + w.n(4) {
		w.act()
		w.judgeServed()
	}
	w.inside = false
}

// step lets time pass or something happen.
func (w *World) step() {
	if w.n(25) == 0 {
		w.sleep([]time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}[w.n(5)])
		return
	}
	w.act()
}

func (w *World) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// act is one thing that happens.
func (w *World) act() {
	switch x := w.n(200); {
	case x < 40:
		if h := w.hosts[w.n(hosts)]; h.up {
			w.pump(h.link)
		}
	case x < 55:
		w.hosts[w.n(hosts)].turn()
	case x < 85:
		w.hosts[w.n(hosts)].report()
	case x < 90:
		for _, h := range w.hosts {
			h.renew()
		}
	case x < 92:
		w.mgrs[w.n(2)].elect()
	case x < 116:
		if m := w.mgrs[w.n(2)]; !m.stands() {
			w.pump(m.link)
		}
	case x < 140:
		m := w.mgrs[w.n(2)]
		if m.stands() {
			break
		}
		for k := range kinds {
			if w.n(2) == 0 {
				m.handle(k, 1+w.n(4))
			}
		}
		m.begin()
	case x < 170:
		if m := w.mgrs[w.n(2)]; !m.stands() && (w.working == 0 || w.inside && m != w.writer) {
			w.work(m)
		}
	case x < 176:
		if m := w.mgrs[w.n(2)]; !m.stands() {
			m.follow()
		}
	case x < 186:
		w.agents[w.n(len(w.agents))].step()
	case x < 193:
		w.hosts[w.n(hosts)].traffic()
	case x < 195:
		if len(w.delayed) > 0 {
			i := w.n(len(w.delayed))
			f := w.delayed[i]
			w.delayed = append(w.delayed[:i], w.delayed[i+1:]...)
			_, err := f()
			w.trace("a late request runs: %v", err)
		}
	case x < 198:
		w.agents[w.n(len(w.agents))].user()
	case !w.inside:
		w.chaos()
	}
}

// pump moves one watch of a link, or some of all.
func (w *World) pump(l *link) {
	all := w.n(3) == 0
	for i, k := range l.kinds {
		if all && w.n(4) > 0 || !all && i == w.n(len(l.kinds)) {
			l.pump(k, 1+w.n(4))
		}
	}
}

// work has a manager reconcile one LoadBalancer or Address.
func (w *World) work(m *manager) {
	before, had := w.writer, w.heard
	w.writer, w.heard = m, m.heard.clone()
	switch w.n(5) {
	case 0, 1:
		m.work(m.lbQueue, m.lbs)
	case 2, 3:
		m.work(m.adQueue, m.addrs)
	default:
		if w.n(3) == 0 && m.work(m.epQueue, m.epochs) {
			break
		}
		if w.n(2) == 0 || w.has(NothingAdopted) || !m.work(m.apQueue, m.adoption) {
			m.work(m.tgQueue, m.groups)
		}
	}
	w.writer, w.heard = before, had
}

// chaos is what goes wrong by itself.
func (w *World) chaos() {
	h := w.hosts[w.n(hosts)]
	if w.Changes && w.n(5) == 0 {
		w.alter()
		return
	}
	switch w.n(18) {
	case 0:
		if h.up && !h.link.cut {
			h.link.cut = true
			w.trace("%s is cut off", h.name)
		}
	case 1, 2:
		if h.up && h.link.cut {
			h.link.cut = false
			h.link.broken()
			w.trace("%s is back", h.name)
		}
	case 3:
		if h.up && w.n(2) == 0 {
			h.die(false)
			w.trace("%s: its process dies", h.name)
		}
	case 4:
		if h.on && w.n(3) == 0 {
			h.die(true)
			w.trace("%s: its machine dies", h.name)
		}
	case 5, 6:
		if !h.up && !h.fenced && (h.made || w.n(3) == 0) {
			h.start()
			h.link.cut = w.n(3) == 0
			w.trace("%s starts as %s, cut off: %v", h.name, h.boot, h.link.cut)
		}
	case 7:
		if w.n(3) == 0 {
			w.restart(w.mgrs[w.n(2)], w.n(2) == 0)
		}
	case 8:
		if m := w.mgrs[w.n(2)]; !m.stands() && w.n(2) == 0 {
			w.stand(m)
		}
	case 9:
		for k := range w.server.floor {
			w.server.floor[k] = w.server.version
		}
		w.trace("old versions are compacted")
	case 10:
		l := w.links()[w.n(len(w.links()))]
		k := l.kinds[w.n(len(l.kinds))]
		if w.n(2) == 0 {
			l.end(k)
		} else {
			l.late[k] = time.Now().Add(time.Duration(w.n(60)) * time.Second)
		}
	case 11:
		if !h.on && h.made && !h.fenced && w.n(6) == 0 {
			w.fence(h)
		}
	case 12:
		for p := range h.refuse {
			if w.n(4) == 0 {
				delete(h.refuse, p)
				h.dirty = true
				w.trace("%s: port %d is free", h.name, p)
			}
		}
	case 13:
		w.agents[w.n(len(w.agents))].renumber()
	case 14:
		if h.up && h.fromHub && (h.told != nil || h.posted != nil) && w.n(2) == 0 {
			h.handOver()
			w.trace("%s is handed over to %s", h.name, h.boot)
		}
	case 15:
		if ns := namespaces[w.n(len(namespaces))]; w.server.refusing[ns] || w.n(3) == 0 {
			w.server.refusing[ns] = !w.server.refusing[ns]
			w.trace("reports are refused in %s: %v", ns, w.server.refusing[ns])
		}
	case 16:
		w.sweep()
	case 17:
		if w.Changes {
			break // A report can't be written in a namespace that ends, nor a proxy thaw without it.
		}
		w.endNamespace(namespaces[w.n(len(namespaces))])
	}
}

// alter backs the hub up, restores or replaces it.
func (w *World) alter() {
	w.persons()
	switch {
	case !w.Changes:
	case w.n(8) == 0 && w.change == nil:
		w.replace()
	case w.backup == nil:
		w.backUp()
	case w.n(2) == 0 && time.Since(w.backedUp) > 2*time.Second && (w.change == nil || w.n(4) == 0):
		w.restore()
	}
}

func (w *World) links() []*link {
	out := []*link{w.mgrs[0].link, w.mgrs[1].link}
	for _, h := range w.hosts {
		if h.up {
			out = append(out, h.link)
		}
	}
	for _, a := range w.agents {
		out = append(out, a.link)
	}
	return out
}

// fence is a person's word that a machine is gone for good.
func (w *World) fence(h *host) {
	o := w.server.objects[proxies][types.NamespacedName{Name: h.name}]
	if o == nil {
		h.fenced = true // nobody asks for it
		return
	}
	px := o.(*v1alpha1.Proxy).DeepCopy()
	px.Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "the machine is gone"}
	w.must(w.server.update(px))
	h.fenced = true
	w.trace("%s is fenced", h.name)
}

// settle stops all faults and waits for the end.
func (w *World) settle() {
	w.trace("faults stop")
	w.calm = true
	for _, f := range w.delayed {
		_, _ = f()
	}
	w.delayed = nil
	clear(w.server.refusing)
	for _, m := range w.mgrs {
		m.paused = time.Time{}
	}
	for _, h := range w.hosts {
		if !h.up && h.made && !h.fenced {
			if h.on || w.n(2) == 0 {
				h.start()
			} else {
				w.fence(h)
			}
		}
	}
	for _, l := range w.links() {
		if l.cut {
			l.cut = false
			l.broken()
		}
		l.late = [kinds]time.Time{}
	}
	why := "-"
	for i := 0; i < 200 && why != "" && w.result.Broken == ""; i++ {
		w.round(time.Second)
		if i > 3 {
			why = w.unfinished()
		}
	}
	if why != "" {
		w.broken("no end: %s", why)
		return
	}
	for range 45 { // the longest pause of all
		w.round(time.Second)
	}
	writes := w.server.writes
	for range 15 {
		w.round(time.Second)
	}
	if n := w.server.writes - writes; n > 0 {
		w.broken("%d writes at rest", n)
	}
	if why := w.unfinished(); why != "" {
		w.broken("it didn't last: %s", why)
	}
}

// round lets everybody do all that there is to do, then time pass.
func (w *World) round(d time.Duration) {
	for busy, turns := true, 0; busy && turns < 60; turns++ {
		busy = false
		for _, l := range w.links() {
			for _, k := range l.kinds {
				busy = l.pump(k, 100) && (k != leases) || busy
			}
		}
		for _, h := range w.hosts {
			busy = h.turn() || busy
			busy = h.report() || busy
			h.renew()
		}
		for i := range w.mgrs {
			w.mgrs[i].elect()
			m := w.mgrs[i]
			for k := range kinds {
				m.handle(k, 100)
			}
			m.begin()
			m.follow()
			w.writer, w.heard = m, m.heard
			for n := 0; n < 50 && (m.work(m.lbQueue, m.lbs) || m.work(m.adQueue, m.addrs) || m.work(m.tgQueue, m.groups) || m.work(m.epQueue, m.epochs) || !w.has(NothingAdopted) && m.work(m.apQueue, m.adoption)); n++ {
				busy = true
			}
			w.writer = nil
		}
		for _, a := range w.agents {
			busy = a.step() || busy
		}
		w.sweep()
		w.persons()
		w.judgeServed()
	}
	for _, h := range w.hosts {
		for range 5 {
			h.traffic()
		}
	}
	w.sleep(d)
}

func describePorts(l *clusterv1.LoadBalancer) string {
	var out []string
	for _, p := range l.Spec.Ports {
		out = append(out, fmt.Sprintf("%d→%d", p.Port, p.TargetPort))
	}
	return strings.Join(out, ",")
}
