package providerkind

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// later is when to look again at what nobody tells: a kind that isn't installed, a template, a refusal of the API server, a pause.
const later = 15 * time.Second

// Options of Kinds.
type Options struct {
	Logger *slog.Logger
	// Client writes. Cache reads the kinds that are followed; Reader reads all, live.
	Client        client.Client
	Cache, Reader client.Reader
	// Kinds that the hub serves.
	Kinds meta.RESTMapper
	// Follow has a kind be in the cache, and its changes wake LoadBalancers. It is called until it succeeds, and returns once the cache is filled.
	Follow func(ctx context.Context, kind schema.GroupVersionKind) error
	Now    func() time.Time
}

// Kinds has LoadBalancers served by provider kinds. It is safe for concurrent use, but for two calls about one LoadBalancer.
type Kinds struct {
	Options
	mu    sync.Mutex
	kinds map[schema.GroupKind]*followed
	// unseen is since when an object's generation hasn't been seen by its provider, by the object's kind, namespace and name.
	unseen map[string]unseen
}

type unseen struct {
	uid        types.UID
	generation int64
	since      time.Time
}

// New follows nothing yet.
func New(o Options) *Kinds {
	return &Kinds{Options: o, kinds: map[schema.GroupKind]*followed{}, unseen: map[string]unseen{}}
}

// followed is a kind, or what keeps it from being followed.
type followed struct {
	busy sync.Mutex // by whom it is looked for
	kind schema.GroupVersionKind
	// trouble stands until a time, so that many LoadBalancers don't all ask.
	trouble *trouble
	until   time.Time
}

// trouble is what is waited for, or what somebody has to see to.
type trouble struct {
	reason, message string
	again           time.Duration
	// first: it is the first list of a kind that is waited for, for a moment.
	first bool
}

func problem(reason, format string, args ...any) *trouble {
	return &trouble{reason: reason, message: fmt.Sprintf(format, args...), again: later}
}

// follow returns the version in which a kind is watched, from now on if need be.
func (k *Kinds) follow(ctx context.Context, of schema.GroupKind) (schema.GroupVersionKind, *trouble, error) {
	k.mu.Lock()
	f := k.kinds[of]
	if f == nil {
		k.sweep()
		f = &followed{}
		k.kinds[of] = f
	}
	k.mu.Unlock()
	if !f.busy.TryLock() {
		return schema.GroupVersionKind{}, &trouble{clusterv1.ReasonWaitingForProvider, fmt.Sprintf("%s is being read for the first time", of), time.Second, true}, nil
	}
	defer f.busy.Unlock()
	if !f.kind.Empty() {
		return f.kind, nil, nil
	}
	if f.trouble != nil && k.Now().Before(f.until) {
		return schema.GroupVersionKind{}, f.trouble, nil
	}
	kind, t, err := k.served(of)
	if err == nil && t == nil {
		if err = k.Follow(ctx, kind); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // it was taken away
			t, err = notInstalled(of), nil
		} else {
			t, err = refusedBy(err, "following", of.String())
		}
	}
	if err != nil {
		return kind, nil, err
	}
	if f.trouble, f.until = t, k.Now().Add(later); t == nil {
		f.kind = kind
		k.Logger.Info("provider kind followed", "kind", of.String(), "version", kind.Version)
	}
	return f.kind, t, nil
}

// sweep forgets kinds that couldn't be followed, and that nobody has asked for since: whoever writes LoadBalancers can invent some.
func (k *Kinds) sweep() {
	maps.DeleteFunc(k.kinds, func(_ schema.GroupKind, f *followed) bool {
		if !f.busy.TryLock() {
			return false
		}
		defer f.busy.Unlock()
		return f.kind.Empty() && f.trouble != nil && !k.Now().Before(f.until)
	})
}

// served is a kind in the version that the hub prefers.
func (k *Kinds) served(of schema.GroupKind) (schema.GroupVersionKind, *trouble, error) {
	m, err := k.Kinds.RESTMapping(of)
	switch {
	case meta.IsNoMatchError(err):
		return schema.GroupVersionKind{}, notInstalled(of), nil
	case err != nil:
		return schema.GroupVersionKind{}, nil, fmt.Errorf("looking for kind %s: %w", of, err)
	}
	return m.GroupVersionKind, nil, nil
}

func notInstalled(of schema.GroupKind) *trouble {
	return problem(clusterv1.ReasonProviderNotInstalled, "the hub serves no %s: install its provider, or mend the kind", of)
}

// refusedBy is a refusal of the API server, which says what to do; every other error is for another try.
func refusedBy(err error, doing, what string) (*trouble, error) {
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return problem(clusterv1.ReasonProviderForbidden, "%s %s: the manager may not: its provider has to bring a ClusterRole with the label fairlead.dev/aggregate-to-manager (%v)", doing, what, err), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return problem(clusterv1.ReasonProviderObjectInvalid, "%s %s was refused, mend the template or the object: %v", doing, what, err), nil
	}
	return nil, fmt.Errorf("%s %s: %w", doing, what, err)
}
