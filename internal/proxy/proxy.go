package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Builder turns objects into a Program, step by step. One goroutine uses it. (*build.Builder)
type Builder interface {
	// Set takes an object that is new or different. It is not changed by anybody afterwards.
	Set(metav1.Object)
	// Delete forgets an object; its type, namespace and name are all that is looked at.
	Delete(metav1.Object)
	// SetLastGood takes what is served now.
	SetLastGood(*lb.Program)
	// Program is built from everything that was set; its Health is nil. Same pointer: nothing changed.
	Program() *lb.Program
	// Names are the names of targets that Program needs the addresses of, by tenant; never changed afterwards.
	Names() map[lb.TenantID][]string
	// SetNames takes what names stand for; what is missing stands for nothing that is known.
	SetNames(map[string][]netip.Addr)
}

// Names follows names of targets. (*resolve.Resolver)
type Names interface {
	// SetNames says which names to follow, for whom.
	SetNames(map[lb.TenantID][]string)
	// Addresses is an immutable snapshot of what they stand for.
	Addresses() map[string][]netip.Addr
	// Changed receives a value when Addresses or Err has something new to say.
	Changed() <-chan struct{}
	// Err is why the last lookup of a name failed, or why there is none; nil if it didn't.
	Err(name string) error
}

// Checker asks members whether they can take connections.
type Checker interface {
	// SetProbes says what to check from now on, for whom. The maps are not changed afterwards.
	SetProbes(map[lb.TenantID]map[lb.Probe]struct{})
	// Verdicts is an immutable snapshot.
	Verdicts() lb.Health
	// Changed receives a value when Verdicts has something new to say.
	Changed() <-chan struct{}
}

// Options of a Proxy. All but Zone, Addresses, Names, StateDir and Explain are needed.
type Options struct {
	// Name of the Proxy object, unique among all proxies of the hub.
	Name string
	// Pool: proxies of one pool serve the same addresses.
	Pool string
	Zone string
	// Addresses are this host's own, as others reach them.
	Addresses []netip.Addr
	// Version of this build, for people.
	Version string

	Hub    Hub
	Source Source
	// NewBuilder makes an empty Builder for Pool and Dataplane.
	NewBuilder func() Builder
	Dataplane  dataplane.Dataplane
	Checker    Checker
	// Names; nil: targets that have a name alone get no traffic.
	Names Names
	// Explain says why a probe fails, in words for people; "" where it doesn't know.
	Explain func(lb.Probe) string

	// StateDir holds the last-good file, and the socket through which the next process of this name takes over; empty: neither is kept.
	StateDir string
	// ShutdownTimeout is how long connections may run on after the listeners are closed, where no successor has them.
	ShutdownTimeout time.Duration
	// HandoverTimeout is how long connections may run on after a successor took over; 0: until they end.
	HandoverTimeout time.Duration
	// Alone is called once no other process of this name says anything any more; HandedOver before this one's
	// successor hears that it is alone: for what one of both can do only. Either may be nil.
	// Neither is waited for long: what is served doesn't depend on them.
	Alone      func()
	HandedOver func()

	Logger  *slog.Logger
	Metrics *Metrics
}

// Proxy is one proxy process.
type Proxy struct {
	o     Options
	boot  string
	inbox *Inbox
	own   *Own
	box   *mailbox
	ready atomic.Bool
	// leave are those who come while this process ends.
	leave *successors
	// before is the process that this one took over from; goodbye, that this proxy leaves; heir, the next process;
	// cut, that it leaves.
	before  *predecessor
	heir    *wire.Conn
	goodbye *goodbye
	cut     atomic.Bool
}

// New returns a Proxy under a fresh boot.
func New(o Options) *Proxy {
	in := newInbox(o.Metrics.event)
	own := newOwn(in)
	in.settled = own.wake
	in.eraBegins = own.reset
	return &Proxy{o: o, boot: newBoot(), inbox: in, own: own, box: newMailbox()}
}

func newBoot() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: see its documentation
	return hex.EncodeToString(b[:])
}

// Boot is this start's name.
func (p *Proxy) Boot() string { return p.boot }

// Ready says that a first Program was applied.
func (p *Proxy) Ready() bool { return p.ready.Load() }

// readFindings returns what the process before this one found Unhealthy; nil where that isn't known.
func (p *Proxy) readFindings() []lb.Probe {
	if p.o.StateDir == "" {
		return nil
	}
	found, err := readFindings(p.o.StateDir, p.o.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.o.Logger.Warn("what checks found before can't be used", "err", err)
	}
	return found
}

// readLastGood returns nil where there is no file of this proxy and pool.
func (p *Proxy) readLastGood() *LastGood {
	if p.o.StateDir == "" {
		return nil
	}
	g, err := ReadLastGood(p.o.StateDir, p.o.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		p.o.Logger.Error("last-good file can't be used", "err", err)
		return nil
	case g.Proxy != p.o.Name || g.Pool != p.o.Pool:
		p.o.Logger.Warn("last-good file is of another proxy or pool", "proxy", g.Proxy, "pool", g.Pool)
		return nil
	}
	return g
}
