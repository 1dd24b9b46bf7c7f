package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/patience"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// contactFirst and contactMost are the pauses between two looks at a Tenant that isn't ours yet.
	contactFirst = 50 * time.Millisecond
	contactMost  = 5 * time.Second
	// keptFor is how long an answer is believed beside those that come after it.
	keptFor = 10 * time.Second
)

// Contact sees to it that the agent's cluster is the one that its Tenant is bound to, before anything else is written.
// It reads from the API servers themselves, and keeps no cache. It is safe for concurrent use.
type Contact struct {
	tenant, hub                     client.Client
	namespace, tenantName, instance string
	log                             *slog.Logger
	why                             atomic.Pointer[string]
}

// NewContact returns one that has asked nobody yet.
func NewContact(o Options) (*Contact, error) {
	live := client.Options{Scheme: o.Scheme}
	var err error
	if live.Mapper, err = mapper(nil, nil); err != nil {
		return nil, err
	}
	c := &Contact{namespace: o.HubNamespace, tenantName: o.TenantName, instance: o.Instance, log: o.Logger}
	if c.tenant, err = client.New(patience.Polite(o.Tenant), live); err != nil {
		return nil, fmt.Errorf("making the tenant's client: %w", err)
	}
	if c.hub, err = client.New(patience.Polite(o.Hub), live); err != nil {
		return nil, fmt.Errorf("making the hub's client: %w", err)
	}
	return c, nil
}

// Why says what the agent waits for before it writes anything; empty: nothing.
func (c *Contact) Why() string {
	if why := c.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Await returns once the hub says that the Tenant is this cluster's, which the manager does at the first contact. A Tenant
// that is another cluster's is waited for: the hub's operator may bind it anew. It fails when ctx ends only.
//
// Where only some requests are answered, what was answered is kept, and what wasn't is asked for again soon. As long as
// nothing is, it asks ever more slowly.
func (c *Contact) Await(ctx context.Context) (*Bond, error) {
	wait, asked, look := contactFirst, map[string]time.Time{}, &look{}
	for {
		b, further := c.meet(ctx, look, asked)
		if b != nil {
			c.why.Store(nil)
			return b, nil
		}
		if further {
			wait = contactFirst
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("waiting for Tenant %s: %w", c.tenantName, ctx.Err())
		}
		wait = min(2*wait, contactMost)
	}
}

// meet goes on with a look, and asks for the Tenant where it isn't ours. b is nil until all is well; further tells that an API
// server answered something, so that what is lacking may be had soon.
func (c *Contact) meet(ctx context.Context, l *look, asked map[string]time.Time) (b *Bond, further bool) {
	before := l.answers
	s, err := c.goOn(ctx, l)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.waits(ctx, fmt.Sprintf("waiting for both API servers, and for Tenant %s: %v", c.tenantName, err))
	case s.bound == s.clusterUID:
		if b, err = c.bond(ctx, s); err == nil {
			return b, false
		}
		c.waits(ctx, fmt.Sprintf("waiting for the hub: %v", err))
	default:
		l.tenant.forget()
		return nil, c.ask(ctx, s, asked)
	}
	return nil, l.answers > before
}

// ask tells the hub that this cluster wants the Tenant: as the first, or against another. asked is when it last did, by
// the cluster that the Tenant was bound to. It returns whether it did now.
func (c *Contact) ask(ctx context.Context, s seen, asked map[string]time.Time) (did bool) {
	if s.bound == "" {
		c.waits(ctx, fmt.Sprintf("waiting for the hub's manager to bind Tenant %s to this cluster, %s", c.tenantName, s.clusterUID))
	} else {
		c.refused(ctx, s)
	}
	if time.Since(asked[s.bound]) < leasePeriod {
		return false
	}
	var err error
	if s.bound == "" {
		_, err = renewLease(ctx, c.hub, c.namespace, c.instance, s.clusterUID, 0)
	} else {
		err = refusedOnLease(ctx, c.hub, c.namespace, s.clusterUID)
	}
	if err != nil {
		c.log.Warn("the hub can't be asked for the Tenant", "tenant", c.tenantName, "err", err)
		return false
	}
	asked[s.bound] = time.Now()
	return true
}

// refused tells the people of this cluster that the Tenant is another's.
func (c *Contact) refused(ctx context.Context, s seen) {
	why := fmt.Sprintf("Tenant %s is bound to cluster %s, and this is cluster %s: nothing is written. Give this cluster a Tenant of its own; or, if it replaces the other, "+
		"have the hub's operator run: kubectl annotate tenant %s --overwrite %s=%s", c.tenantName, s.bound, s.clusterUID, c.tenantName, v1alpha1.AnnotationClusterUID, s.clusterUID)
	if !c.waits(ctx, why) {
		return
	}
	// One event for each pair of clusters, by whatever agent.
	sum := sha256.Sum256([]byte(s.bound + "/" + s.clusterUID + "/" + c.tenantName))
	e := newEvent(c.instance, happening{about: wholeCluster(s.clusterUID), name: fmt.Sprintf("fairlead-agent.refused.%x", sum[:8]), warning: true, reason: v1alpha1.ReasonOtherCluster, note: why})
	if err := c.tenant.Create(ctx, e); err != nil && !apierrors.IsAlreadyExists(err) {
		c.log.Warn("event not written", "reason", e.Reason, "err", err)
	}
}

// waits notes, and logs where it is new, what is waited for.
func (c *Contact) waits(ctx context.Context, why string) (isNew bool) {
	if old := c.why.Swap(&why); old != nil && *old == why || ctx.Err() != nil {
		return false
	}
	c.log.Warn("the agent writes nothing yet", "why", why)
	return true
}

// seen is what both API servers say at one moment of who they are.
type seen struct {
	clusterUID string // of the tenant's cluster
	hubUID     string // of the hub; empty: it doesn't let us read it
	bound      string // the cluster that the Tenant is bound to; empty: to none yet
	epoch      int64  // the hub's
}

// look is what both API servers said so far. It may take several tries.
type look struct {
	clusterUID, hubUID answer[string]
	tenant             answer[*v1alpha1.Tenant]
	answers            int // how many there were, ever
}

// answer is what an API server said, and when.
type answer[T any] struct {
	says T
	at   time.Time
}

func (a *answer[T]) forget() { *a = answer[T]{} }

// get reads what was not read just before.
func (a *answer[T]) get(l *look, read func() (T, error)) error {
	if !a.at.IsZero() && time.Since(a.at) < keptFor {
		return nil
	}
	says, err := read()
	if err != nil {
		return err
	}
	a.says, a.at = says, time.Now()
	l.answers++
	return nil
}

// look asks both API servers who they are.
func (c *Contact) look(ctx context.Context) (seen, error) { return c.goOn(ctx, &look{}) }

// goOn asks for what a look lacks. What it returns with an error is what is known.
func (c *Contact) goOn(ctx context.Context, l *look) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	s := seen{}
	if err := l.clusterUID.get(l, func() (string, error) { return clusterUID(ctx, c.tenant) }); err != nil {
		return s, err
	}
	s.clusterUID = l.clusterUID.says
	if err := l.tenant.get(l, func() (*v1alpha1.Tenant, error) {
		t := &v1alpha1.Tenant{}
		return t, c.hub.Get(ctx, client.ObjectKey{Name: c.tenantName}, t)
	}); err != nil {
		return s, fmt.Errorf("reading Tenant %s in the hub: %w", c.tenantName, err)
	}
	s.bound, s.epoch = l.tenant.says.Cluster(), l.tenant.says.Status.HubEpoch
	if err := l.hubUID.get(l, func() (string, error) {
		uid, err := clusterUID(ctx, c.hub)
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		return uid, err
	}); err != nil {
		return s, fmt.Errorf("in the hub: %w", err)
	}
	s.hubUID = l.hubUID.says
	return s, nil
}

func clusterUID(ctx context.Context, of client.Reader) (string, error) {
	ns := &v1.Namespace{}
	if err := of.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
		return "", fmt.Errorf("reading the cluster's UID: %w", err)
	}
	return string(ns.UID), nil
}

// bond makes the Bond of what was seen, with the epoch that was noted before.
func (c *Contact) bond(ctx context.Context, s seen) (*Bond, error) {
	l, err := c.lease(ctx)
	if err != nil {
		return nil, err
	}
	b := &Bond{seen: s}
	if l != nil && l.Annotations[v1alpha1.AnnotationClusterUID] == s.clusterUID {
		b.noted.Store(notedEpoch(l))
	}
	return b, nil
}

// Bond is what holds as long as one life of the agent: who both clusters are, and the hub's epoch. What the caches hold
// may be another history's as soon as one of it changes.
type Bond struct {
	seen
	// noted is the epoch in which all objects were written.
	noted atomic.Int64
}

// What ends a Bond.
var (
	errOtherTenant  = errors.New("the Tenant is bound to another cluster")
	errOtherCluster = errors.New("the tenant's API server is another cluster's")
	errOtherHub     = errors.New("the hub is another one")
	errNewEpoch     = errors.New("the hub began a new epoch, for it is not the one that it was")
	errOlderHub     = errors.New("the hub is older than it was")
)

// broken says why the Bond holds no more; nil: it does.
func (b *Bond) broken(now seen) error {
	switch {
	case now.clusterUID != b.clusterUID:
		return errOtherCluster
	case now.bound != "" && now.bound != b.clusterUID:
		return errOtherTenant
	case now.hubUID != "" && b.hubUID != "" && now.hubUID != b.hubUID:
		return errOtherHub
	case now.epoch > b.epoch:
		return errNewEpoch
	}
	return nil
}
