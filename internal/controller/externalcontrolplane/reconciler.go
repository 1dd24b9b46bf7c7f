package externalcontrolplane

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// kubeconfigKey is where a kubeconfig is in its Secret, as Cluster API has it.
const kubeconfigKey = "value"

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Kinds says in which version the hub serves a kind, if at all.
	Kinds meta.RESTMapper
	// Who this is; the manager, if not told.
	Who clusters.Who
}

// Reconciler says of one ExternalControlPlane at a time what its round has found.
type Reconciler struct {
	Options
	// Queue wakes the controller when a probe has ended.
	Queue  *kit.Queue
	rounds *rounds
}

// New returns a reconciler. Start it beside its controller.
func New(o Options) *Reconciler {
	o.Who = cmp.Or(o.Who, clusters.Manager())
	r := &Reconciler{Options: o, Queue: &kit.Queue{}}
	r.rounds = newRounds(func(key types.NamespacedName) { r.Queue.Add(key.Namespace, key.Name) })
	return r
}

// Start ends all probes when ctx ends.
func (r *Reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.rounds.stop()
	return nil
}

// Reconcile says what was found of one, and has it asked again when that is due.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &controlplanev1.ExternalControlPlane{}
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		r.rounds.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := clusters.Of(ctx, r.Reader, r.Kinds, o)
	if err != nil {
		return reconcile.Result{}, err
	}
	if clusters.Leaving(o) || cluster != nil && clusters.Leaving(cluster) {
		r.rounds.forget(req.NamespacedName) // there is nothing outside that must be undone
		return reconcile.Result{}, nil
	}
	next := o.DeepCopy()
	if clusters.IsPaused(o) || cluster != nil && clusters.IsPaused(cluster) {
		r.rounds.forget(req.NamespacedName)
		set(next, metav1.Condition{Type: controlplanev1.ConditionPaused, Status: metav1.ConditionTrue, Reason: controlplanev1.ReasonPaused})
		return reconcile.Result{}, r.say(ctx, o, next)
	}
	set(next, metav1.Condition{Type: controlplanev1.ConditionPaused, Status: metav1.ConditionFalse, Reason: controlplanev1.ReasonNotPaused})
	next.Status.ExternalManagedControlPlane = true
	if cluster == nil {
		r.rounds.forget(req.NamespacedName)
		judge(next, found(controlplanev1.ReasonWaitingForCluster, "No Cluster owns it: name it in spec.controlPlaneRef of one."))
		return reconcile.Result{}, r.say(ctx, o, next)
	}
	is := subject{uid: o.UID, generation: o.Generation, cluster: cluster.GetUID()}
	available := meta.IsStatusConditionTrue(o.Status.Conditions, controlplanev1.ConditionAvailable)
	held, again := r.rounds.look(req.NamespacedName, is, available, func(ctx context.Context) *Found {
		return r.probe(ctx, o.Namespace, cluster.GetName())
	})
	if held != nil {
		judge(next, *held)
	}
	return reconcile.Result{RequeueAfter: again}, r.say(ctx, o, next)
}

// say writes the status, if the object is still as it was read, and logs what comes and goes.
func (r *Reconciler) say(ctx context.Context, o, next *controlplanev1.ExternalControlPlane) error {
	was, is := reason(o), reason(next)
	wrote, err := kit.PatchStatusAsRead(ctx, r.Client, o, next)
	if err != nil {
		return fmt.Errorf("ExternalControlPlane %s/%s: %w", o.Namespace, o.Name, err)
	}
	if wrote && was != is {
		r.Logger.Info("an external control plane is seen otherwise", "name", o.Namespace+"/"+o.Name, "reason", is, "before", was)
	}
	return nil
}

func reason(o *controlplanev1.ExternalControlPlane) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, controlplanev1.ConditionAvailable); c != nil {
		return c.Reason
	}
	return ""
}

// judge says what was found in a status. The cluster that is reached first is the one that is meant, unless the spec says which.
func judge(o *controlplanev1.ExternalControlPlane, f Found) {
	if meant := cmp.Or(o.Spec.ClusterUID, o.Status.ClusterUID); f.available() && meant != "" && f.ClusterUID != meant {
		f = found(controlplanev1.ReasonOtherCluster,
			"The kubeconfig leads to the cluster %s, not to %s: mend the kubeconfig, or set spec.clusterUID to the one that is meant.", f.ClusterUID, meant)
	}
	c := metav1.Condition{Type: controlplanev1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: f.Reason, Message: f.Message}
	if f.available() {
		c.Status = metav1.ConditionTrue
		o.Status.Version, o.Status.ClusterUID = f.Version, f.ClusterUID
		o.Status.Initialization = &controlplanev1.Initialization{ControlPlaneInitialized: true}
	}
	set(o, c)
}

func set(o *controlplanev1.ExternalControlPlane, c metav1.Condition) {
	c.ObservedGeneration = o.Generation
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

// probe reads the Secret with a Cluster's kubeconfig, and asks the control plane. nil: the hub didn't answer.
func (r *Reconciler) probe(ctx context.Context, namespace, cluster string) *Found {
	s := &corev1.Secret{}
	s.Namespace, s.Name = namespace, cluster+"-kubeconfig"
	reading, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.Reader.Get(reading, client.ObjectKeyFromObject(s), s)
	if err == nil {
		out := r.use(ctx, s, cluster)
		return &out
	}
	var out Found
	switch {
	case apierrors.IsNotFound(err):
		out = found(controlplanev1.ReasonKubeconfigMissing, "There is no Secret %s in this namespace: put the kubeconfig into its key %s.", s.Name, kubeconfigKey)
	case apierrors.IsForbidden(err):
		out = found(controlplanev1.ReasonKubeconfigForbidden, "Secret %s may not be read by %s: apply %s.", s.Name, r.Who.Name, r.Who.Rights)
	default:
		r.Logger.Warn("the kubeconfig of an external control plane can't be read", "secret", namespace+"/"+s.Name, "err", err)
		return nil
	}
	return &out
}

// use asks the control plane with what is in a Secret.
func (r *Reconciler) use(ctx context.Context, s *corev1.Secret, cluster string) Found {
	if label := s.Labels[clusterv1.ClusterNameLabel]; label != cluster {
		return found(controlplanev1.ReasonKubeconfigInvalid, "Secret %s is no kubeconfig of this Cluster, or Cluster API won't find it: give it the label %s=%s, which is %q.", s.Name, clusterv1.ClusterNameLabel, cluster, label)
	}
	cfg, err := parse(s.Data[kubeconfigKey])
	if err != nil {
		return found(controlplanev1.ReasonKubeconfigInvalid, "Secret %s, key %s: %s.", s.Name, kubeconfigKey, err)
	}
	out := ask(ctx, cfg)
	if out.Reason == controlplanev1.ReasonKubeconfigInvalid {
		out.Message = fmt.Sprintf("Secret %s, key %s: %s.", s.Name, kubeconfigKey, out.Message)
	}
	return out
}
