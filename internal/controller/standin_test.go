package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// standin writes what a proxy writes, in its order: exceptions, then how far it
// has come. It "applies" by listing everything when the test says so. Its Lease it renews as a proxy does, until it is told to rest.
type standin struct {
	*hub
	name    string
	boot    string
	refused map[string][]v1alpha1.RefusedFrontend // by namespace
	sick    []v1alpha1.ReportedMember             // of the scenario's namespace
	open    int64                                 // connections still open on addresses that are being released
	busy    map[string]int64                      // connections still open to targets that drain, by name, or by TargetGroup/name
	also    []string                              // namespaces beside the scenario's, of whose targets it reports

	// changed is why the hub isn't the one that it knew; then it is through nothing, and serves what the ledger doesn't say.
	changed string
	serves  []v1alpha1.ServedAddress // in the scenario's namespace
	epoch   int64

	renewing sync.Mutex
	// rest ends the renewals that nobody asks for.
	rest func()
}

// renewEvery is how often a proxy renews its Lease.
const renewEvery = 10 * time.Second

// proxy registers a stand-in of the scenario's pool, and writes its Lease.
func (h *hub) proxy(name string) *standin {
	h.t.Helper()
	name = h.name + "-" + name
	s := &standin{hub: h, name: name, boot: rand.String(8), refused: map[string][]v1alpha1.RefusedFrontend{}}
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: h.name}}
	h.create(p)
	h.eventually("a boot to be registered", func(ctx ctx) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		p.Status.Boot, p.Status.Seq, p.Status.Phase = s.boot, 1, v1alpha1.ProxyStarting
		return h.api.Status().Update(ctx, p)
	})
	s.renew()
	s.rest = s.repeat(renewEvery, func(ctx context.Context) error {
		_ = s.tryRenew(ctx) // where nobody is there to hear it, the next one is heard
		return nil
	})
	return s
}

// often is how often a stand-in does what it does again and again.
const often = 20 * time.Millisecond

// beat renews the Lease again and again until the test ends: whoever comes sees one.
func (s *standin) beat() { s.repeat(often, s.tryRenew) }

// renew renews the Lease.
func (s *standin) renew() {
	s.t.Helper()
	if err := s.tryRenew(s.t.Context()); err != nil {
		s.t.Fatalf("renewing the lease of %s: %v", s.name, err)
	}
}

// answer renews the Lease whenever a manager asks anew, until the test ends, and never else.
func (s *standin) answer() {
	answered := ""
	s.repeat(often, func(ctx context.Context) error {
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		question := p.Annotations[v1alpha1.AnnotationAsked]
		if question == answered {
			return nil
		}
		if err := s.tryRenew(ctx); err != nil {
			return err
		}
		answered = question
		return nil
	})
}

func (s *standin) tryRenew(ctx context.Context) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	now := metav1.NewMicroTime(time.Now())
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: s.name}}
	err := s.api.Get(ctx, client.ObjectKeyFromObject(l), l)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	l.Spec.HolderIdentity, l.Spec.RenewTime = &s.name, &now
	l.Annotations = map[string]string{v1alpha1.AnnotationBoot: s.boot}
	if err != nil {
		return s.api.Create(ctx, l)
	}
	return s.api.Update(ctx, l)
}

// die deletes the Lease, which is what a silent proxy's looks like after a while.
func (s *standin) die() {
	s.t.Helper()
	s.rest()
	s.delete(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: s.name}})
}

// run applies again and again until the test ends.
func (s *standin) run() { s.repeat(often, s.apply) }

// repeat does something again and again until the test ends, or stop is called. What fails is tried again, as a proxy does; what
// failed last fails the test.
func (s *standin) repeat(every time.Duration, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var last error
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- last
				return
			case <-tick.C:
			}
			if err := f(ctx); ctx.Err() == nil {
				last = err
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("stand-in %s: %v", s.name, err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// catchUp applies once; what somebody else changed meanwhile is tried again.
func (s *standin) catchUp() {
	s.t.Helper()
	s.eventually("stand-in "+s.name+" to apply", s.apply)
}

func (s *standin) apply(ctx context.Context) error {
	var lbs clusterv1.LoadBalancerList
	var groups v1alpha1.TargetGroupList
	var addresses v1alpha1.AddressList
	var classes v1alpha1.LoadBalancerClassList
	var tenants v1alpha1.TenantList
	for _, l := range []client.ObjectList{&lbs, &groups, &addresses, &classes, &tenants} {
		if err := s.api.List(ctx, l); err != nil {
			return err
		}
	}
	want := map[string]*v1alpha1.ProxyReport{}
	in := func(namespace string) *v1alpha1.ProxyReport {
		if want[namespace] == nil {
			want[namespace] = &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name}, Boot: s.boot}
		}
		return want[namespace]
	}
	for namespace, refused := range s.refused {
		in(namespace).Refused = refused
	}
	if len(s.sick) > 0 {
		in(s.hub.name).Members = append(in(s.hub.name).Members, s.sick...)
	}
	for _, served := range s.serves {
		if !grants(addresses.Items, s.hub.name, served) {
			in(s.hub.name).Serves = append(in(s.hub.name).Serves, served)
		}
	}
	for _, a := range addresses.Items {
		if a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ProxyPool != s.hub.name {
			continue
		}
		e := v1alpha1.ReportedAddress{Name: a.Name, UID: string(a.UID), State: v1alpha1.ReportedGone}
		if s.open > 0 {
			e.State, e.OpenConnections = v1alpha1.ReportedDraining, s.open
		}
		for _, h := range a.Spec.Holders {
			in(h.Namespace).Addresses = append(in(h.Namespace).Addresses, e)
		}
	}
	for _, g := range groups.Items {
		if g.Namespace != s.hub.name && !slices.Contains(s.also, g.Namespace) {
			continue
		}
		for _, t := range g.Spec.Targets {
			if t.State == v1alpha1.TargetDraining && len(t.Addresses) > 0 { // without one a proxy never had it
				e := v1alpha1.ReportedMember{
					TargetGroup: g.Name, GroupUID: string(g.UID), Target: t.Name, TargetUID: t.UID, Address: t.Addresses[0], State: v1alpha1.ReportedGone,
				}
				if n := s.busy[t.Name] + s.busy[g.Name+"/"+t.Name]; n > 0 {
					e.State, e.OpenConnections = v1alpha1.ReportedDraining, n
				}
				in(g.Namespace).Members = append(in(g.Namespace).Members, e)
			}
		}
	}
	reports, err := s.report(ctx, want)
	if err != nil {
		return err
	}
	p := &v1alpha1.Proxy{}
	if err := s.api.Get(ctx, client.ObjectKey{Name: s.name}, p); err != nil {
		return err
	}
	next := v1alpha1.ProxyStatus{
		Boot: s.boot, Seq: p.Status.Seq, Phase: v1alpha1.ProxyServing, Reports: reports,
		Through: v1alpha1.Through{
			LoadBalancers: lbs.ResourceVersion, TargetGroups: groups.ResourceVersion, Addresses: addresses.ResourceVersion,
			LoadBalancerClasses: classes.ResourceVersion, Tenants: tenants.ResourceVersion,
		},
	}
	next.Epoch, next.ThawedEpoch = s.epoch, s.epoch
	if s.changed != "" {
		next.Through = v1alpha1.Through{}
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: s.changed})
	}
	wasChanged := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionHubChanged)
	if wasChanged == (s.changed != "") && next.Through == p.Status.Through && next.Reports == p.Status.Reports && p.Status.Boot == s.boot {
		return nil
	}
	next.Seq++
	p.Status = next
	return s.api.Status().Update(ctx, p)
}

// grants says whether the ledger gives a LoadBalancer what is served for it.
func grants(ledger []v1alpha1.Address, namespace string, served v1alpha1.ServedAddress) bool {
	for _, a := range ledger {
		if a.Name != served.Address || a.Spec.Phase == v1alpha1.AddressReleasing {
			continue
		}
		for _, h := range a.Spec.Holders {
			if h.Namespace == namespace && h.Name == served.LoadBalancer && !slices.ContainsFunc(served.Ports, func(p string) bool { return !slices.Contains(h.Ports, p) }) {
				return true
			}
		}
	}
	return false
}

// report writes what differs, and returns the newest version of what there is.
func (s *standin) report(ctx context.Context, want map[string]*v1alpha1.ProxyReport) (string, error) {
	var list v1alpha1.ProxyReportList
	if err := s.api.List(ctx, &list); err != nil {
		return "", err
	}
	newest := ""
	note := func(version string) {
		if len(version) > len(newest) || len(version) == len(newest) && version > newest {
			newest = version
		}
	}
	for i := range list.Items {
		have := &list.Items[i]
		if have.Name != s.name {
			continue
		}
		next := want[have.Namespace]
		delete(want, have.Namespace)
		if next == nil {
			if err := s.api.Delete(ctx, have); client.IgnoreNotFound(err) != nil {
				return "", err
			}
			continue
		}
		next.ResourceVersion = have.ResourceVersion
		if err := s.api.Update(ctx, next); err != nil {
			return "", fmt.Errorf("updating a report: %w", err)
		}
		note(next.ResourceVersion)
	}
	for _, next := range want {
		if err := s.api.Create(ctx, next); err != nil {
			return "", fmt.Errorf("creating a report: %w", err)
		}
		note(next.ResourceVersion)
	}
	return newest, nil
}
