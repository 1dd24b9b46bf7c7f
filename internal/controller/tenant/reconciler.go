package tenant

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Pause is how long a Tenant's usage is left as it is once it has changed, and the least time between two writes of it.
	Pause = time.Second
	// pauseMost is that time while it goes on changing.
	pauseMost = 15 * time.Second
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	Keeper *ledger.Keeper
	// Services is how many LoadBalancers of a namespace a Service of the hub serves.
	Services func(namespace string) int
	Now      func() time.Time
}

// Reconciler reconciles Tenants.
type Reconciler struct {
	Options
	Queue *kit.Queue
	// pace of the writes of usage alone: in a burst they would be as many as those of what is granted.
	pace *kit.Pace

	mu     sync.Mutex
	agents map[string]sightings // by the Tenant's name
}

// sightings are of the agent of the Tenant with that UID, and of one that is refused.
type sightings struct {
	tenant         types.UID
	agent, refused sighting
}

// sighting is when a word was first seen.
type sighting struct {
	word string
	seen time.Time
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, Queue: &kit.Queue{}, pace: &kit.Pace{From: Pause, UpTo: pauseMost}, agents: map[string]sightings{}}
}

// NamespaceChanged writes the usage of a namespace's Tenant soon.
func (r *Reconciler) NamespaceChanged(ctx context.Context, namespace string) {
	if t, err := kit.TenantOf(ctx, r.Client, namespace); err == nil && t != nil {
		r.Queue.AddAfter("", t.Name, Pause)
	}
}

// Reconcile brings one Tenant as far as it can come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Client.Get(ctx, req.NamespacedName, t); err != nil {
		if apierrors.IsNotFound(err) {
			r.pace.Forget(req.Name)
			r.unhear(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	namespace, err := r.namespace(ctx, t)
	if err != nil {
		return reconcile.Result{}, err
	}
	owned := namespace != nil && namespace.Labels[v1alpha1.LabelTenant] == t.Name
	f := facts{tenant: t, owned: owned}
	if t.DeletionTimestamp != nil {
		if f.holding, err = r.holding(ctx, t, namespace, owned); err != nil {
			return reconcile.Result{}, err
		}
		if len(f.holding) == 0 {
			return reconcile.Result{}, r.delete(ctx, t, namespace, owned)
		}
	}
	if err := kit.Guard(ctx, r.Client, t, Finalizer); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case namespace == nil:
		made := namespaceOf(t)
		switch err := r.Client.Create(ctx, made, client.FieldOwner(kit.FieldManager)); {
		case apierrors.IsAlreadyExists(err):
			return reconcile.Result{}, fmt.Errorf("making namespace %s: it is there now, looking again: %w", made.Name, err)
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("making namespace %s: %w", made.Name, err)
		}
		f.owned = true
		r.Logger.Info("namespace made", "tenant", t.Name, "namespace", made.Name)
	case namespace.DeletionTimestamp != nil:
		f.terminating = true
	}
	if f.owned && !f.terminating {
		if err := r.identity(ctx, t); err != nil {
			return reconcile.Result{}, err
		}
		if err := r.bound(ctx, t); err != nil {
			return reconcile.Result{}, err
		}
	}
	again, err := r.agent(ctx, t, &f)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.usage(ctx, t, &f); err != nil {
		return reconcile.Result{}, err
	}
	next := t.DeepCopy()
	next.Status = describe(f)
	if rest := r.pace.Rest(t.Name, r.Now()); rest > 0 && t.Status.Usage != nil {
		next.Status.Usage = t.Status.Usage
		if f.usage != *t.Status.Usage {
			again = cmp.Or(min(again, rest), rest)
		}
	}
	wrote, err := kit.PatchStatus(ctx, r.Client, t, next)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	if wrote && (t.Status.Usage == nil || *next.Status.Usage != *t.Status.Usage) {
		r.pace.Wrote(t.Name, r.Now())
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// namespace reads the Tenant's namespace; nil: there is none.
func (r *Reconciler) namespace(ctx context.Context, t *v1alpha1.Tenant) (*metav1.PartialObjectMetadata, error) {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(kit.NamespaceKind)
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: t.NamespaceName()}, n); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading namespace %s: %w", t.NamespaceName(), err)
	}
	return n, nil
}

// identity makes the agent's ServiceAccount and its rights as they should be.
func (r *Reconciler) identity(ctx context.Context, t *v1alpha1.Tenant) error {
	account := serviceAccount(t)
	if err := ensure(ctx, r.Client, account, &corev1.ServiceAccount{}, func(have *corev1.ServiceAccount) bool { return true }, nil); err != nil {
		return err
	}
	binding := roleBinding(t)
	if err := ensure(ctx, r.Client, binding, &rbacv1.RoleBinding{}, func(have *rbacv1.RoleBinding) bool {
		return equality.Semantic.DeepEqual(have.Subjects, binding.Subjects) && have.RoleRef == binding.RoleRef
	}, func(have *rbacv1.RoleBinding) { have.Subjects = binding.Subjects }); err != nil {
		return err
	}
	role := clusterRole(t)
	if err := ensure(ctx, r.Client, role, &rbacv1.ClusterRole{}, func(have *rbacv1.ClusterRole) bool {
		return equality.Semantic.DeepEqual(have.Rules, role.Rules)
	}, func(have *rbacv1.ClusterRole) { have.Rules = role.Rules }); err != nil {
		return err
	}
	clusterBinding := clusterRoleBinding(t)
	return ensure(ctx, r.Client, clusterBinding, &rbacv1.ClusterRoleBinding{}, func(have *rbacv1.ClusterRoleBinding) bool {
		return equality.Semantic.DeepEqual(have.Subjects, clusterBinding.Subjects) && have.RoleRef == clusterBinding.RoleRef
	}, func(have *rbacv1.ClusterRoleBinding) { have.Subjects = clusterBinding.Subjects })
}

// ensure creates want, or mends what is there. The cache knows only what carries the Tenant's label.
func ensure[T client.Object](ctx context.Context, c client.Client, want, have T, right func(T) bool, mend func(T)) error {
	key := client.ObjectKeyFromObject(want)
	switch err := c.Get(ctx, key, have); {
	case apierrors.IsNotFound(err):
		if err := c.Create(ctx, want, client.FieldOwner(kit.FieldManager)); err != nil {
			return fmt.Errorf("making %T %s: %w", want, key, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading %T %s: %w", want, key, err)
	}
	if right(have) {
		return nil
	}
	old, ok := have.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copying %T %s", want, key)
	}
	mend(have)
	if err := c.Patch(ctx, have, client.MergeFrom(old), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("mending %T %s: %w", want, key, err)
	}
	return nil
}

// usage sums what the Tenant has, and what of it its cluster is missing.
func (r *Reconciler) usage(ctx context.Context, t *v1alpha1.Tenant, f *facts) error {
	u := r.Keeper.UsageOf(t.NamespaceName())
	f.usage = v1alpha1.TenantUsage{LoadBalancers: int32(u.LoadBalancers + r.Services(t.NamespaceName())), Addresses: int32(u.Addresses), Ports: int32(u.Ports)}
	groups := &v1alpha1.TargetGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(t.NamespaceName()), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the TargetGroups of Tenant %s: %w", t.Name, err)
	}
	counted := make([]*v1alpha1.TargetGroup, 0, len(groups.Items))
	for i := range groups.Items {
		counted = append(counted, &groups.Items[i])
	}
	f.usage.Targets = int32(build.CountTargets(counted))
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(t.NamespaceName()), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the LoadBalancers of Tenant %s: %w", t.Name, err)
	}
	for i := range list.Items {
		if l := &list.Items[i]; l.DeletionTimestamp == nil && l.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
			f.missing = append(f.missing, l.Name)
		}
	}
	slices.Sort(f.missing)
	return nil
}

// holding names the LoadBalancers, sorted, that keep a Tenant from being deleted: those that are served, unless it is suspended.
func (r *Reconciler) holding(ctx context.Context, t *v1alpha1.Tenant, namespace *metav1.PartialObjectMetadata, owned bool) ([]string, error) {
	if !owned || namespace.DeletionTimestamp != nil || t.Spec.Suspend {
		return nil, nil
	}
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the LoadBalancers of Tenant %s: %w", t.Name, err)
	}
	var out []string
	for i := range list.Items {
		if l := &list.Items[i]; l.DeletionTimestamp == nil {
			out = append(out, l.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// delete releases everything, then lets the namespace, if it was made for the Tenant, and the Tenant go.
func (r *Reconciler) delete(ctx context.Context, t *v1alpha1.Tenant, namespace *metav1.PartialObjectMetadata, owned bool) error {
	if !controllerutil.ContainsFinalizer(t, Finalizer) {
		return nil
	}
	if owned {
		list := &clusterv1.LoadBalancerList{}
		if err := r.Client.List(ctx, list, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing the LoadBalancers of Tenant %s: %w", t.Name, err)
		}
		// The agent goes first: it would make its LoadBalancers anew.
		for _, o := range []client.Object{roleBinding(t), clusterRoleBinding(t), clusterRole(t)} {
			if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting %T %s: %w", o, o.GetName(), err)
			}
		}
		for i := range list.Items {
			if l := &list.Items[i]; l.DeletionTimestamp == nil {
				if err := r.Client.Delete(ctx, l.DeepCopy(), client.Preconditions{UID: &l.UID}); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("deleting LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
				}
			}
		}
		if held := r.Keeper.UsageOf(namespace.Name).Addresses; len(list.Items) > 0 || held > 0 {
			return r.deleting(ctx, t, len(list.Items), held)
		}
		if namespace.Annotations[annotationMade] != "" {
			uid := namespace.UID
			gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}}
			if err := r.Client.Delete(ctx, gone, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting namespace %s: %w", namespace.Name, err)
			}
		} else {
			for _, o := range []client.Object{serviceAccount(t), resourceQuota(t)} {
				if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("deleting %T %s of Tenant %s: %w", o, o.GetName(), t.Name, err)
				}
			}
		}
	}
	if err := kit.LetGo(ctx, r.Client, t, Finalizer); err != nil {
		return err
	}
	r.unhear(t.Name)
	r.Logger.Info("tenant gone", "tenant", t.Name)
	return nil
}

// deleting says what the deletion waits for.
func (r *Reconciler) deleting(ctx context.Context, t *v1alpha1.Tenant, loadBalancers, addresses int) error {
	next := t.DeepCopy()
	next.Status = describeDeleting(t, loadBalancers, addresses)
	if _, err := kit.PatchStatus(ctx, r.Client, t, next); err != nil {
		return fmt.Errorf("tenant %s: %w", t.Name, err)
	}
	return nil
}

// agent looks at what the agent, and one that is refused, say on the Lease, and says when to look again.
func (r *Reconciler) agent(ctx context.Context, t *v1alpha1.Tenant, f *facts) (time.Duration, error) {
	lease, err := r.lease(ctx, t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || lease == nil {
		delete(r.agents, t.Name)
		return 0, err
	}
	renewal := ""
	if lease.Spec.RenewTime != nil {
		renewal = lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	s := r.agents[t.Name]
	if s.tenant != t.UID {
		s = sightings{tenant: t.UID}
	}
	left := s.agent.left(renewal, r.Now())
	f.lease, f.silent = lease, left <= 0
	again := max(left, 0)
	if word := lease.Annotations[v1alpha1.AnnotationRefused]; word != "" {
		if left := s.refused.left(word, r.Now()); left > 0 {
			f.refused, _, _ = strings.Cut(word, " ")
			again = cmp.Or(min(again, left), left)
		}
	}
	r.agents[t.Name] = s
	return again, nil
}

// unhear forgets the agent of a Tenant that is gone.
func (r *Reconciler) unhear(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, tenant)
}

// left is how long it is until who said that last counts as silent.
func (s *sighting) left(word string, now time.Time) time.Duration {
	if s.seen.IsZero() || s.word != word {
		*s = sighting{word, now}
	}
	return silence - now.Sub(s.seen)
}

// silence is how long an agent may go without a renewal: it renews every minute.
const silence = 150 * time.Second
