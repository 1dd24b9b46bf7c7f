package proxy

import (
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// View is what a proxy makes of the hub's words: what it is to serve, and what
// it has to say of what it serves. It applies and writes nothing. A Proxy's
// loop and reporter decide the same by the same code; one goroutine uses it.
type View struct {
	Inbox      *Inbox
	builder    Builder
	watched    *watched
	exceptions *exceptions
}

// NewView returns the View of a proxy of a pool that has heard nothing.
func NewView(pool string, b Builder) *View {
	return &View{
		Inbox: newInbox(func(Resource, string) {}), builder: b, watched: newWatched(pool), exceptions: newExceptions(nil, nil),
	}
}

// Wanted is what is to be served, and up to where that was heard.
type Wanted struct {
	// Program has no health.
	Program  *lb.Program
	Versions Versions
	// Complete: each resource was listed; before, nothing may be served by this.
	Complete bool
	// Changes since the last Take.
	Changes []Change

	draining  []*v1alpha1.TargetGroup
	releasing []*v1alpha1.Address
}

// Take hands what the Inbox holds to the builder.
func (v *View) Take() Wanted {
	d := v.Inbox.take()
	for _, c := range d.Changes {
		c.handTo(v.builder)
		v.watched.note(c)
	}
	return Wanted{v.builder.Program(), d.Versions, d.Complete, d.Changes, v.watched.drainingList, v.watched.releasingList}
}

// Reports are the ProxyReports to write, by namespace, once w was applied with that outcome and was then observed.
func (v *View) Reports(name, boot string, w Wanted, o dataplane.Outcome, seen dataplane.Observation, now time.Time) map[string]*v1alpha1.ProxyReport {
	s := &served{FromHub: true, Versions: w.Versions, Program: w.Program, Refused: o.Refused, Observation: seen, Draining: w.draining, Releasing: w.releasing}
	contents, _ := v.exceptions.of(s, now, true)
	out := make(map[string]*v1alpha1.ProxyReport, len(contents))
	for ns, c := range contents {
		out[ns] = &v1alpha1.ProxyReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Boot: boot,
			Refused: c.Refused, ServedWithout: c.Without, Members: c.Members, Addresses: c.Addresses, Truncated: c.Truncated,
		}
	}
	return out
}

// Removes says that something that was served is not, or not in that form: the
// last-good file must say so before anybody is told.
func Removes(c lb.Changes) bool { return removes(&c) }
