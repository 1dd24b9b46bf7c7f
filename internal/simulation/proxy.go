package simulation

import (
	"fmt"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// file is the last-good file: what a new process serves while the hub is away.
type file struct {
	// good is what it holds; nil: there is none.
	good   *proxy.LastGood
	served map[types.NamespacedName]generation
	// frontends that it names.
	frontends map[lb.FrontendID]bool
	// unhealthy is what checks found so last.
	unhealthy []lb.Probe
}

// host is a machine with a proxy on it.
type host struct {
	w    *World
	name string
	// kernel: the plane outlives the process.
	kernel bool
	// on: the machine runs; up: the process does; fenced: a person said that it never will again.
	on, up, made, fenced bool
	plane                *plane
	disk, synced         file
	// doubled: another process had its name.
	doubled bool
	// refuse are ports that the host has in use.
	refuse map[uint16]bool
	// keeps are frontends that the hub's change must not take from it, and aligned the change that it has lived through.
	keeps   map[conn]bool
	aligned int
	// blind can't reach the servers at these addresses.
	blind map[netip.Addr]bool
	// remembers: its present process began with a file, or before the hub's last change.
	remembers bool

	process
}

// process is the memory of one.
type process struct {
	link *link
	view *proxy.View
	boot string
	// linked is the era of the watches, era that of what is written, spoken that in which the Proxy was.
	linked, era, spoken int
	// asked is the change of the hub of which it has asked, or after which it began: before, what it shows is of the hub before.
	// before is the one that asked was until then.
	asked, before int
	// spoke is the change of the hub after which it has said who it is, or which has not lost that.
	spoke   int
	started time.Time
	// since is the server's version when it started.
	since int64

	// The loop.
	fromHub, fromFile bool
	wanted            proxy.Wanted
	// generations are those that wanted was built from.
	generations map[types.NamespacedName]generation
	// found is what its checks found; runs is what it applied last.
	found     map[lb.Probe]lb.Verdict
	runs      *lb.Program
	unapplied *proxy.Wanted
	dirty     bool // the plane has something new to say
	begun     bool
	// own is the Proxy as its watch has it.
	own *v1alpha1.Proxy

	// The reporter. posted is newer than what is being told; nil: nothing is.
	posted, told       *stated
	postedAt           time.Time
	claimAt            time.Time // another process of its name has written: this one does so from then on
	claimPause         time.Duration
	now                stage
	removal, firstFile bool
	changed            bool // inputs changed since the last status
	registered         bool
	object             *v1alpha1.Proxy
	top                int64 // the highest seq
	// known are its reports, as last read or written.
	known     map[string]*v1alpha1.ProxyReport
	writtenAt map[string]time.Time
	// absent are namespaces that take nothing any more, and held those whose report can't be written, until when that is left so.
	// untaken are the reports that the former didn't take.
	absent, held map[string]time.Time
	untaken      map[string]*v1alpha1.ProxyReport
	reread       bool
	version      int64 // of its newest report
	published    string
	seq          int64 // of the status that published belongs to
	lease        *coordinationv1.Lease
	renewAt      time.Time
	// renewed is when the Lease was; answered is the manager's question that it followed last.
	renewed  time.Time
	answered string
}

func newHost(w *World, i int) *host {
	return &host{w: w, name: fmt.Sprintf("edge-%d", i), kernel: w.n(2) == 0, plane: emptyPlane(), refuse: map[uint16]bool{}, keeps: map[conn]bool{}, blind: map[netip.Addr]bool{}}
}

// start begins a process; it serves nothing by itself but what the plane goes on with.
func (h *host) start() {
	h.on, h.up, h.made = true, true, true
	boot := h.boot
	if !h.w.has(SameBoot) || boot == "" {
		boot = fmt.Sprintf("%s-%d", h.name, h.w.n(1<<30))
	}
	good := h.disk.good
	if h.w.has(ThawedAtOnce) {
		good = nil
	}
	h.remembers = good != nil
	if h.w.change != nil {
		h.untellUnfiled()
	}
	if h.w.has(MemoryNotFiled) && good != nil {
		forgets := *good
		forgets.FileHeader, forgets.Memory = proxy.FileHeader{}, proxy.Memory{}
		good = &forgets
	}
	h.process = process{
		boot: boot, started: time.Now(), since: h.w.server.version, asked: h.w.incarnation, before: h.w.incarnation, generations: map[types.NamespacedName]generation{}, found: map[lb.Probe]lb.Verdict{},
		view:      proxy.NewViewAfter(proxyPool, build.New(build.Options{ProxyPool: proxyPool}), good),
		firstFile: true, reread: true, published: "{}", renewAt: time.Now(), spoken: -1, spoke: -1,
		writtenAt: map[string]time.Time{}, absent: map[string]time.Time{}, held: map[string]time.Time{},
		untaken: map[string]*v1alpha1.ProxyReport{},
	}
	for _, p := range h.disk.unhealthy {
		h.found[p] = lb.Unhealthy
	}
	h.link = newLink(h.w, h, loadBalancers, targetGroups, addresses, classes, tenants, proxies, reports)
	if good != nil {
		for k, o := range good.Objects[proxy.LoadBalancers] {
			h.generations[types.NamespacedName{Namespace: k.Namespace, Name: k.Name}] = generation{o.GetUID(), o.GetGeneration()}
		}
	}
}

// die ends the process; with the machine all that wasn't on disk is lost.
func (h *host) die(machine bool) {
	h.up = false
	if machine {
		h.on = false
		h.disk = h.synced
	}
	if machine || !h.kernel {
		h.plane = emptyPlane()
		clear(h.keeps)
	}
	for c := range h.keeps {
		if h.unfiled(c.frontend) {
			delete(h.keeps, c)
		}
	}
	// Connections end with whom they were to, sooner or later; those of a kernel run on.
}

// lag has a new process hear of one resource later than of the others.
func (h *host) lag() {
	if k := h.link.kinds[h.w.n(len(h.link.kinds))]; h.w.n(2) == 0 {
		h.link.late[k] = time.Now().Add(time.Duration(h.w.n(8)) * time.Second)
	}
}

// handOver has the next process take over all that this one serves and has open.
func (h *host) handOver() {
	h.keepFile()
	h.synced = h.disk
	h.start()
	h.fromFile = true
}

const (
	leaseEvery = 10 * time.Second
	// askedEvery is the least time between two renewals that managers ask for.
	askedEvery = time.Second
	// patience until the file is served.
	patience = 500 * time.Millisecond
	// emptyFor is how long a report that had proof in it stays, empty.
	emptyFor = 10 * time.Second
	// absentFor is how long a namespace that takes nothing is left alone, heldFor how long one whose report can't be written.
	absentFor = 30 * time.Second
	heldFor   = 500 * time.Millisecond
)
