package proxy

import (
	"maps"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// View is what a proxy makes of the hub's words: what it is to serve, and what
// it has to say of what it serves. It applies and writes nothing. A Proxy's
// loop and reporter decide the same by the same code; one goroutine uses it.
//
// Who plays the rest of a proxy tells Inbox what the watches deliver, and when one opens (Opened; Replace does it itself)
// and ends (Lost), that of the own Proxy included (OwnProxy, OwnDeleted). While Inbox.Question has one, it reads live the UID of
// kube-system and the own Proxy, and gives Inbox.Answer both; reads that fail are no answer. Nothing may be written to the hub,
// the Lease included, before Inbox.Sure. When Inbox.Era is another, everything is listed anew, and in this order: LastGood goes to disk,
// the Proxy is registered anew with HubChanged (Inbox.Frozen) and no `through`, then reports, then the Lease. Inbox.Wrote hears of each status
// that was written. Without a call of Wrote or NewViewAfter no hub is remembered, and nothing is ever in doubt.
type View struct {
	Inbox      *Inbox
	builder    Builder
	picture    *picture
	watched    *watched
	exceptions *exceptions
}

// NewView returns the View of a proxy of a pool that has heard nothing.
func NewView(pool string, b Builder) *View { return NewViewAfter(pool, b, nil) }

// NewViewAfter returns one that has heard nothing yet, and whose last-good file holds g; nil: it has none.
func NewViewAfter(pool string, b Builder, g *LastGood) *View {
	v := &View{
		Inbox: newInbox(func(Resource, string) {}), builder: b, picture: newPicture(pool, g), watched: newWatched(pool, nil), exceptions: newExceptions(nil, nil),
	}
	if g != nil {
		v.Inbox.remember(g.memory(), false)
		for r, all := range g.Objects {
			for k, o := range all {
				v.note(Change{Resource(r), k, o})
			}
		}
	}
	return v
}

func (v *View) note(c Change) {
	c.handTo(v.builder)
	v.watched.note(c)
}

// LastGood is what the file is to hold once what was taken last is applied: before HubChanged is said or withdrawn, it must.
func (v *View) LastGood() *LastGood {
	m := v.Inbox.Memory()
	g := &LastGood{FileHeader: FileHeader{HubUID: m.HubUID, ProxyUID: m.ProxyUID}, Memory: m}
	for r, all := range v.picture.shown {
		g.Objects[r] = maps.Clone(all)
	}
	return g
}

// Wanted is what is to be served, and up to where that was heard.
type Wanted struct {
	// Program has no health.
	Program  *lb.Program
	Versions Versions
	// Complete: each resource was listed; before, nothing may be served by this, but what the file holds.
	Complete bool
	// Frozen is what is to be said of a hub that changed; nil: it has not. Era is raised when it does: then the Proxy is to be
	// registered anew, with Frozen in its condition HubChanged and nothing in status.through, before anything else is written.
	Frozen *Frozen
	Era    int
	// Epoch is status.epoch.
	Epoch int64
	// Changes since the last Take.
	Changes []Change

	checks    ownChecks
	draining  []*v1alpha1.TargetGroup
	releasing []*v1alpha1.Address
}

// Take hands what the Inbox holds to the builder.
func (v *View) Take() Wanted {
	d := v.Inbox.take()
	changes := v.picture.take(d)
	for _, c := range changes {
		v.note(c)
	}
	if !v.picture.behind {
		v.Inbox.Adopt(v.picture.era, v.picture.epoch, v.picture.witnessed)
	}
	return Wanted{
		Program: v.builder.Program(), Versions: v.picture.versions(d.Versions), Complete: d.Complete, Changes: changes,
		Frozen: v.picture.state, Era: v.picture.era, Epoch: v.picture.epoch,
		checks: v.watched.ownChecks(), draining: v.watched.drainingList, releasing: v.watched.releasingList,
	}
}

// Reports are the ProxyReports to write, by namespace, once w was applied with that outcome and was then observed. absent says of which
// namespaces the hub took no report, because it hasn't them or deletes them: what is served there against the ledger is said in
// that of fairlead-system.
func (v *View) Reports(
	name, boot string, w Wanted, o dataplane.Outcome, seen dataplane.Observation, absent func(namespace string) bool, now time.Time,
) map[string]*v1alpha1.ProxyReport {
	s := &served{FromHub: true, Versions: w.Versions, Program: w.Program, Checks: w.checks, Refused: o.Refused, Observation: seen, Frozen: w.Frozen}
	if !s.Frozen.silent() {
		s.Draining, s.Releasing = w.draining, w.releasing
	}
	contents, _ := v.exceptions.of(s, now, true)
	sayMissing(contents, absent)
	out := make(map[string]*v1alpha1.ProxyReport, len(contents))
	for ns, c := range contents {
		out[ns] = &v1alpha1.ProxyReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Boot: boot,
			Refused: c.Refused, ServedWithout: c.Without, Members: c.Members, Addresses: c.Addresses, Serves: c.Serves, ServesMissing: c.Missing, Truncated: c.Truncated,
		}
	}
	return out
}

// Carried are findings of a Program that this process runs that say something of the next one's probes, of which nothing is known yet.
func Carried(runs, next *lb.Program) lb.Health { return carried(runs, next) }

// Removes says that something that was served is not, or not in that form: the
// last-good file must say so before anybody is told.
func Removes(c lb.Changes) bool { return removes(&c) }
