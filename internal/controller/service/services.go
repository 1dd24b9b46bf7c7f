package service

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/ipam"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SlicesByService is the index of EndpointSlices by the Service that they are of.
const SlicesByService = "service"

// ServiceOf is what SlicesByService indexes by.
func ServiceOf(o client.Object) []string {
	return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
}

// later is when to look again at what nobody tells: a Service of somebody else, or a refusal of the API server.
const later = 15 * time.Second

// Options of Services.
type Options struct {
	Logger *slog.Logger
	// Client reads Services and EndpointSlices with the label fairlead.dev/for from a cache with the index SlicesByService.
	Client client.Client
	// Reader reads all, live.
	Reader client.Reader
	// Granted is how many LoadBalancers of a namespace have an address of the ledger.
	Granted func(namespace string) int
	// Wake looks again at a LoadBalancer; WakeWaiters at those of a namespace that wait for the ledger.
	Wake        func(ipam.Ref)
	WakeWaiters func(namespace string)
}

// Services writes what LoadBalancers have in the hub. It is safe for concurrent use, but for two calls about one LoadBalancer.
type Services struct {
	Options
	mu sync.Mutex
	// made are the LoadBalancers for which a Service is there, or may be: the cache may not know it yet.
	made map[ipam.Ref]struct{}
	// taken are those whose name a Service of somebody else had.
	taken map[ipam.Ref]struct{}
	// waiting for the Tenant's quota, with the time of their creation.
	waiting map[ipam.Ref]time.Time
}

// New has made nothing yet.
func New(o Options) *Services {
	return &Services{Options: o, made: map[ipam.Ref]struct{}{}, taken: map[ipam.Ref]struct{}{}, waiting: map[ipam.Ref]time.Time{}}
}

// Ensure makes Service and slices as they have to be, and returns what the Service says. Where the whole LoadBalancer is refused, or its
// class is gone, the Service stays as it is, and its endpoints go. An error is one of the API server's: try again.
func (s *Services) Ensure(ctx context.Context, w Wanted) (State, error) {
	ref := ipam.Ref{Namespace: w.LoadBalancer.Namespace, Name: w.LoadBalancer.Name}
	have, err := s.find(ctx, ref)
	if err != nil {
		return State{}, err
	}
	_, refused := build.RefusalOfAll(w.Problems)
	if refused || w.Class == nil || len(w.ports()) == 0 {
		s.leave(ref)
		if have == nil || !madeFor(have, ref.Name) {
			return State{}, nil
		}
		return read(have), s.prune(ctx, have, nil)
	}
	have, trouble, err := s.service(ctx, ref, w, have)
	if err != nil || trouble != nil {
		return s.state(ctx, ref, have, trouble, err)
	}
	wanted, lack := w.slices(have)
	trouble, err = s.write(ctx, have, wanted)
	if err != nil || trouble != nil {
		return s.state(ctx, ref, have, trouble, err)
	}
	out := read(have)
	out.Lack = lack
	if missed := unmet(w.LoadBalancer.Spec.Addresses, out.Addresses); missed != "" && len(out.Addresses) > 0 && lack == nil {
		out.Lack = &Lack{clusterv1.ReasonAddressNotRequestable, fmt.Sprintf("%s is wanted, and the hub's implementation of Services gave another: leave the wish out", missed)}
	}
	if len(out.Addresses) == 0 {
		out.Reason, out.Message = clusterv1.ReasonWaitingForService, fmt.Sprintf("Service %s/%s of the hub has no address yet: wait, or see its events and the hub's implementation of Services", have.Namespace, have.Name)
	}
	return out, nil
}

// unmet is the first wish that is not among the addresses; "" if there is none.
func unmet(wanted []string, given []clusterv1.LoadBalancerAddress) string {
	have := map[string]bool{}
	for _, a := range given {
		have[a.Value] = true
	}
	for _, a := range wanted {
		if !have[a] {
			return a
		}
	}
	return ""
}

// trouble is why there is no Service, or none as it has to be.
type trouble struct {
	reason, message string
	again           time.Duration
	// foreign: the Service of that name is somebody else's.
	foreign bool
}

// state is what a LoadBalancer has in spite of a trouble. Slices that a Service of somebody else would find are taken away.
func (s *Services) state(ctx context.Context, ref ipam.Ref, have *corev1.Service, t *trouble, err error) (State, error) {
	if err != nil {
		return State{}, err
	}
	out := State{}
	if have != nil && !t.foreign {
		out = read(have)
	}
	out.Reason, out.Message, out.Again = t.reason, t.message, t.again
	if t.foreign {
		return out, s.prune(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: NameOf(ref.Name)}}, nil)
	}
	return out, nil
}

// find reads a LoadBalancer's Service, whoever made it; nil: there is none that is known of.
func (s *Services) find(ctx context.Context, ref ipam.Ref) (*corev1.Service, error) {
	out, key := &corev1.Service{}, types.NamespacedName{Namespace: ref.Namespace, Name: NameOf(ref.Name)}
	err := s.Client.Get(ctx, key, out)
	if apierrors.IsNotFound(err) && s.unseen(ref) {
		err = s.Reader.Get(ctx, key, out)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	return out, nil
}

// unseen says whether there may be a Service that the cache doesn't have: one that was made a moment ago, whose label
// somebody took, or somebody else's.
func (s *Services) unseen(ref ipam.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.taken[ref]
	_, made := s.made[ref]
	return taken || made
}

// service makes the Service as it has to be, or says why it isn't.
func (s *Services) service(ctx context.Context, ref ipam.Ref, w Wanted, have *corev1.Service) (*corev1.Service, *trouble, error) {
	if have == nil {
		return s.create(ctx, ref, w)
	}
	switch {
	case !madeFor(have, ref.Name):
		return have, s.foreign(ref, have), nil
	case metav1.GetControllerOf(have).UID != w.LoadBalancer.UID && have.DeletionTimestamp == nil:
		if err := s.remove(ctx, have); err != nil { // of an earlier LoadBalancer of this name
			return nil, nil, err
		}
		fallthrough
	case have.DeletionTimestamp != nil:
		return have, &trouble{
			reason:  clusterv1.ReasonWaitingForService,
			message: fmt.Sprintf("Service %s/%s of the hub is being deleted, and is made anew once it is gone: see to its finalizers %q", have.Namespace, have.Name, have.Finalizers),
		}, nil
	}
	next := w.into(have)
	if equality.Semantic.DeepEqual(have, next) {
		return have, nil, nil
	}
	if err := s.Client.Update(ctx, next, client.FieldOwner(kit.FieldManager)); err != nil {
		t, err := refusedBy(err, "changing", have)
		return have, t, err
	}
	return next, nil, nil
}

// create makes a Service where there is none, if the Tenant's quota allows one more.
func (s *Services) create(ctx context.Context, ref ipam.Ref, w Wanted) (*corev1.Service, *trouble, error) {
	if t := s.admit(ref, w); t != nil {
		return nil, t, nil
	}
	next := w.into(&corev1.Service{})
	err := s.Client.Create(ctx, next, client.FieldOwner(kit.FieldManager))
	if err == nil {
		s.Logger.Info("service made", "loadbalancer", ref.String(), "service", next.Name)
		return next, nil, nil
	}
	if apierrors.IsAlreadyExists(err) {
		have := &corev1.Service{}
		if err := s.Reader.Get(ctx, client.ObjectKeyFromObject(next), have); err != nil {
			return nil, nil, fmt.Errorf("reading Service %s/%s: %w", next.Namespace, next.Name, err)
		}
		if madeFor(have, ref.Name) {
			return s.service(ctx, ref, w, have)
		}
		s.forget(ref)
		return have, s.foreign(ref, have), nil
	}
	t, err := refusedBy(err, "making", next)
	if t != nil {
		s.forget(ref) // where the answer is unknown, it may have been made
	}
	return nil, t, err
}

func (s *Services) foreign(ref ipam.Ref, have *corev1.Service) *trouble {
	s.mu.Lock()
	s.taken[ref] = struct{}{}
	s.mu.Unlock()
	return &trouble{
		reason: clusterv1.ReasonNameTaken, again: later, foreign: true,
		message: fmt.Sprintf("Service %s/%s of the hub was not made for this LoadBalancer, and is left as it is: rename one of the two", have.Namespace, have.Name),
	}
}

// Release takes away what was made for a LoadBalancer. It says what of it is still there; "" : nothing, and nothing will be.
func (s *Services) Release(ctx context.Context, ref ipam.Ref) (left string, err error) {
	s.leave(ref)
	if !s.Has(ref) {
		return "", nil
	}
	have, err := s.find(ctx, ref)
	if err != nil {
		return "", err
	}
	if have != nil && madeFor(have, ref.Name) {
		if have.DeletionTimestamp == nil {
			if err := s.remove(ctx, have); err != nil {
				return "", err
			}
			s.Logger.Info("service deleted", "loadbalancer", ref.String(), "service", have.Name)
			return fmt.Sprintf("Service %s/%s of the hub is being deleted", have.Namespace, have.Name), nil
		}
		return fmt.Sprintf("Service %s/%s of the hub is being deleted, and held by %s: see to the hub's implementation of Services", have.Namespace, have.Name, strings.Join(have.Finalizers, ", ")), nil
	}
	of := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: NameOf(ref.Name)}}
	if err := s.prune(ctx, of, nil); err != nil {
		return "", err
	}
	s.forget(ref)
	return "", nil
}

// Orphaned says whether a LoadBalancer that the cache doesn't know is gone indeed. What was made for it goes then.
func (s *Services) Orphaned(ctx context.Context, ref ipam.Ref) (bool, error) {
	err := s.Reader.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &clusterv1.LoadBalancer{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading LoadBalancer %s: %w", ref, err)
	}
	return apierrors.IsNotFound(err), nil
}
