package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

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
	// Machines has the hub operator's namespace have control planes: Machines, and LoadBalancers over them.
	Machines bool
	// Checks has LoadBalancers check Machines, whose servers die and come back.
	Checks bool
	// Tempers are what the schedule has much of, besides what its seed draws.
	Tempers Tempers
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
	// Rivals are second processes of a proxy's name.
	Rivals int
	// Gone are Machines that Cluster API let go, Lifted the hooks that were lifted by proof.
	Gone, Lifted int
}

// World is everything in one schedule.
type World struct {
	Options
	random *rand.Rand
	server *server
	mgrs   [2]*manager
	hosts  [hosts]*host
	agents []*agent

	temper  temper
	delayed []func() (client.Object, error)
	// calm: faults have stopped.
	calm bool
	// incarnation counts how often the hub has become another.
	incarnation int
	change      *change
	// past are the hubs that were, each as it stood last, by incarnation.
	past []*server
	// copies that people keep of the hub, the newest last.
	copies []hubCopy
	// restoring is what a person says of the pool.
	restoring bool
	// working counts reconciles in which the API server is asked; inside: something else happens meanwhile.
	working int
	inside  bool

	membership

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

// faulty says that this request meets a fault.
func (w *World) faulty() bool { return !w.calm && w.temper.fault > 0 && w.n(w.temper.fault) == 0 }

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
	w.drawTemper()
	if o.Machines {
		w.membership = newMembership()
		w.drawMachines()
	}
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
	w.warmUp()
}

// warmUp has something be served, which what comes can take away.
func (w *World) warmUp() {
	w.calm = true
	for _, a := range w.agents {
		for range 2 + w.n(3) {
			a.user()
		}
	}
	w.warmUpMachines()
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
