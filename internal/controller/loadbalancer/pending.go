package loadbalancer

import (
	"slices"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// question is what is asked of the proxies about one LoadBalancer.
type question struct {
	uid        types.UID
	generation int64
	addresses  string // joined
	pool       string // of proxies
	need       proof.Vector
	since      time.Time
}

// pending are the LoadBalancers that wait for proxies.
type pending struct {
	mu     sync.Mutex
	byPool map[string]map[ipam.Ref]*asked
	pools  map[ipam.Ref]string
}

type asked struct {
	question
	answer proof.Programmed
	// told is when the status came to say who is waited for.
	told time.Time
}

func newPending() *pending {
	return &pending{byPool: map[string]map[ipam.Ref]*asked{}, pools: map[ipam.Ref]string{}}
}

// ask notes a question. Where the same was asked before, its need and its time stay: what
// was resolved first is what is waited for. But for the ledger: an Address may have got ports since, or gone and come back.
func (p *pending) ask(r ipam.Ref, q question) question {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool, ok := p.pools[r]; ok {
		old := p.byPool[pool][r]
		if old.uid == q.uid && old.generation == q.generation && old.addresses == q.addresses && old.pool == q.pool {
			old.need.Addresses = max(old.need.Addresses, q.need.Addresses)
			return old.question
		}
		p.drop(r)
	}
	if p.byPool[q.pool] == nil {
		p.byPool[q.pool] = map[ipam.Ref]*asked{}
	}
	p.byPool[q.pool][r] = &asked{question: q}
	p.pools[r] = q.pool
	return q
}

// answered notes the answer that was acted upon.
func (p *pending) answered(r ipam.Ref, a proof.Programmed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool, ok := p.pools[r]; ok {
		p.byPool[pool][r].answer = a
	}
}

// told notes that the status says who is waited for.
func (p *pending) told(r ipam.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool, ok := p.pools[r]; ok {
		p.byPool[pool][r].told = now
	}
}

// rest is for how long the status is left as it is about who is waited for; told: it says so already.
func (p *pending) rest(r ipam.Ref, now time.Time) (rest time.Duration, told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool, ok := p.pools[r]
	if !ok {
		return 0, false
	}
	a := p.byPool[pool][r]
	if a.told.IsZero() {
		return moment - now.Sub(a.since), false
	}
	return anew - now.Sub(a.told), true
}

// forget drops the question about a LoadBalancer.
func (p *pending) forget(r ipam.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(r)
}

func (p *pending) drop(r ipam.Ref) {
	if pool, ok := p.pools[r]; ok {
		delete(p.byPool[pool], r)
		delete(p.pools, r)
	}
}

// differing judges all that wait for a pool, and names those whose answer is another than the one acted upon.
func (p *pending) differing(pool string, proxies []*proof.Proxy) []ipam.Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []ipam.Ref
	for r, a := range p.byPool[pool] {
		if next := proof.JudgeProgrammed(r.Namespace, r.Name, a.need, proxies); !next.Equal(&a.answer) {
			out = append(out, r)
		}
	}
	return out
}

// count is the number of LoadBalancers that wait for proxies.
func (p *pending) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pools)
}

// kept says that this generation was once served by all on these addresses, but for a family of hosts that it can do without.
func kept(l *clusterv1.LoadBalancer, g ledger.Grant) bool {
	shown := func(e ipam.Entry) bool {
		return slices.ContainsFunc(l.Status.Addresses, func(a clusterv1.LoadBalancerAddress) bool {
			return a.Value == e.Address.String() || e.OfHosts() && a.Pool == e.Pool && string(a.Family) == string(ipam.FamilyOf(e.Address))
		})
	}
	_, required := families(l)
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == l.Generation &&
		slices.ContainsFunc(g.Held, shown) &&
		!slices.ContainsFunc(g.Held, func(e ipam.Entry) bool { return !shown(e) && (required || !e.OfHosts()) })
}
