package build

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Builder builds Programs step by step. After any steps Program gives what
// Whole gives of the objects that the Builder has then. One goroutine may use it
// at a time; the Programs may be read by anybody.
type Builder struct {
	opts       Options
	classes    map[string]*v1alpha1.LoadBalancerClass
	tenants    map[string]*v1alpha1.Tenant
	namespaces map[string]*namespace
	ledger     *ledger
	// dirty namespaces are to be settled by the next Program.
	dirty   map[string]*namespace
	program *lb.Program
	// names are what names of targets stand for; wanted are those that are asked for.
	names         map[string][]netip.Addr
	wanted        map[lb.TenantID][]string
	wantedChanged bool
}

// New returns a Builder without objects.
func New(opts Options) *Builder {
	return &Builder{
		opts: opts, classes: map[string]*v1alpha1.LoadBalancerClass{}, tenants: map[string]*v1alpha1.Tenant{},
		namespaces: map[string]*namespace{}, ledger: newLedger(opts.ProxyPool, opts.Addresses), dirty: map[string]*namespace{},
		program: &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}},
	}
}

// Set takes an object that is new or has changed: *LoadBalancer, *TargetGroup,
// *LoadBalancerClass, *Address or *Tenant. Others are not built from, and
// ignored. The object must not be changed afterwards.
func (b *Builder) Set(o metav1.Object) { b.update(o, false) }

// Delete forgets an object. Only its type, namespace and name are looked at.
func (b *Builder) Delete(o metav1.Object) { b.update(o, true) }

func (b *Builder) update(o metav1.Object, gone bool) {
	switch o := o.(type) {
	case *clusterv1.LoadBalancer:
		if o == nil {
			return
		}
		if n := b.namespace(o.Namespace, gone); n != nil && n.setLoadBalancer(o.Name, unless(gone, o)) {
			b.dirty[n.name] = n
		}
	case *v1alpha1.TargetGroup:
		if o == nil {
			return
		}
		if n := b.namespace(o.Namespace, gone); n != nil && n.setTargetGroup(o.Name, unless(gone, o), b.names) {
			b.dirty[n.name] = n
		}
	case *v1alpha1.Address:
		if o == nil {
			return
		}
		for h := range b.ledger.set(o.Name, unless(gone, o)) {
			if n := b.namespaces[h.namespace]; n != nil && n.loadBalancers[h.name] != nil {
				n.dirty[h.name] = true
				b.dirty[n.name] = n
			}
		}
	case *v1alpha1.LoadBalancerClass:
		if o != nil {
			b.setClass(o.Name, unless(gone, o))
		}
	case *v1alpha1.Tenant:
		if o != nil {
			b.setTenant(o.Name, unless(gone, o))
		}
	}
}

// unless is o, or nil if it is gone.
func unless[T any](gone bool, o *T) *T {
	if gone {
		return nil
	}
	return o
}

// namespace is made when its first object comes; nil: there is none to remove anything from.
func (b *Builder) namespace(name string, gone bool) *namespace {
	n := b.namespaces[name]
	if n == nil && !gone {
		n = newNamespace(name)
		n.tenant = b.tenantOf(name)
		b.namespaces[name] = n
	}
	return n
}

func (b *Builder) setClass(name string, c *v1alpha1.LoadBalancerClass) {
	old := b.classes[name]
	if c == nil {
		delete(b.classes, name)
	} else {
		b.classes[name] = c
	}
	if old == nil && c == nil || old != nil && c != nil && reflect.DeepEqual(old.Spec, c.Spec) {
		return
	}
	for _, n := range b.namespaces {
		for lname, l := range n.loadBalancers {
			if l.object != nil && l.object.Spec.ClassName == name {
				n.dirty[lname] = true
				b.dirty[n.name] = n
			}
		}
	}
}

func (b *Builder) setTenant(name string, t *v1alpha1.Tenant) {
	old := b.tenants[name]
	if t == nil {
		delete(b.tenants, name)
	} else {
		b.tenants[name] = t
	}
	for _, x := range []*v1alpha1.Tenant{old, t} {
		if x == nil {
			continue
		}
		n := b.namespaces[x.NamespaceName()]
		if n == nil {
			continue
		}
		now := b.tenantOf(n.name)
		if now == nil && n.tenant == nil || now != nil && n.tenant != nil && reflect.DeepEqual(now.Spec, n.tenant.Spec) {
			n.tenant = now
			continue
		}
		n.setTenant(now, b.names)
		b.dirty[n.name] = n
	}
}

// tenantOf is the Tenant of a namespace: of several that name it the oldest, then the first by name.
func (b *Builder) tenantOf(namespace string) *v1alpha1.Tenant {
	var best *v1alpha1.Tenant
	for _, t := range b.tenants {
		if t.NamespaceName() == namespace && (best == nil || compareTenants(t, best) < 0) {
			best = t
		}
	}
	return best
}

func compareTenants(a, b *v1alpha1.Tenant) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// servedAlike says that nothing which is built from differs.
func servedAlike(a, b *clusterv1.LoadBalancer) bool {
	return (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && reflect.DeepEqual(a.Spec, b.Spec)
}

// SetLastGood takes what is served now: what the data plane's Check refuses keeps the form that it has there.
func (b *Builder) SetLastGood(p *lb.Program) {
	b.opts.LastGood = p
	for name, n := range b.namespaces {
		if n.snapshot != n.base {
			b.dirty[name] = n
		}
	}
}

// Program is built of the objects that the Builder has. It is the same pointer
// as before if nothing changed, and shares with the former whatever did not.
func (b *Builder) Program() *lb.Program {
	tenants := b.program.Tenants
	var edits []edit
	changed := false
	for name, n := range b.dirty {
		before := n.snapshot
		b.settle(n)
		if n.snapshot != before {
			if !changed {
				tenants, changed = maps.Clone(tenants), true
			}
			if n.snapshot == nil {
				delete(tenants, lb.TenantID(name))
			} else {
				tenants[lb.TenantID(name)] = n.snapshot
			}
			edits = appendEdits(edits, before, n.snapshot)
		}
		if n.empty() {
			delete(b.namespaces, name)
		}
	}
	clear(b.dirty)
	if changed {
		b.program = &lb.Program{Tenants: tenants, Listeners: applyEdits(b.program.Listeners, edits)}
	}
	return b.program
}

// settle looks at all of a namespace that may have changed.
func (b *Builder) settle(n *namespace) {
	var d delta
	n.admit(b.names)
	for _, c := range n.dirtyChoices {
		group, known := c.resolve(n.candidates(c))
		if group {
			d.groups = append(d.groups, c)
		}
		if known {
			for name := range c.users {
				n.dirty[name] = true
			}
		}
	}
	clear(n.dirtyChoices)
	for _, name := range slices.Sorted(maps.Keys(n.dirty)) {
		b.settleLoadBalancer(n, name, &d)
	}
	clear(n.dirty)
	n.rebuild(d)
	n.finish(b.opts)
	if len(n.named)+len(n.wanted) > 0 && n.settleNames() {
		b.wantedChanged = true
	}
}

// settleLoadBalancer serves one LoadBalancer anew.
func (b *Builder) settleLoadBalancer(n *namespace, name string, d *delta) {
	l := n.loadBalancers[name]
	if l == nil {
		return
	}
	var next outputs
	var chosen *choice
	if l.object != nil {
		class := b.classes[l.object.Spec.ClassName]
		if ours(l.object, class, b.opts.ProxyPool) {
			problems := Validate(l.object, class, n.tenant)
			in := inputs{object: l.object, class: class, zone: b.opts.Zone}
			if _, refused := RefusalOfAll(problems); !refused {
				if s, err := Selector(l.object); err == nil {
					chosen = n.choose(s)
					in.selected = chosen.selected()
				}
				in.grants = b.ledger.grants(holder{n.name, name})
			}
			next = serve(in, problems)
		}
	}
	frontends, pools, problems := next.reuse(&l.outputs)
	if pools {
		d.pools = append(d.pools, poolDelta{l.pools, next.pools})
	}
	if frontends {
		d.frontends = append(d.frontends, frontendDelta{name, next.frontends})
	}
	d.problems = d.problems || problems
	d.move(n, l.choice, chosen, name, l.families, next.families)
	l.choice, l.outputs = chosen, next
	if l.object == nil {
		delete(n.loadBalancers, name)
	}
}
