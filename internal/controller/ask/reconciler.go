package ask

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes.
	Client client.Client
	Fleet  *fleet.Fleet
}

// Reconciler asks each Proxy in its queue once.
type Reconciler struct {
	Options
	Queue *kit.Queue
	// question is this manager's.
	question string
}

// New returns a reconciler with a question of its own.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, Queue: &kit.Queue{}, question: string(uuid.NewUUID())}
}

// Begin queues whom this manager has not heard of. Who comes later is heard of as he comes.
func (r *Reconciler) Begin() {
	for _, p := range r.Fleet.All() {
		if unheard(p) {
			r.Queue.Add("", p.Name)
		}
	}
}

func unheard(p *proof.Proxy) bool { return p.Unheard() && !p.Out }

// Reconcile asks one proxy, unless it was heard of meanwhile.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !slices.ContainsFunc(r.Fleet.All(), func(p *proof.Proxy) bool { return p.Name == req.Name && unheard(p) }) {
		return reconcile.Result{}, nil
	}
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}
	old := p.DeepCopy()
	p.Annotations = map[string]string{v1alpha1.AnnotationAsked: r.question}
	if err := r.Client.Patch(ctx, p, client.MergeFrom(old), client.FieldOwner(kit.FieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("asking proxy %s to renew its lease: %w", req.Name, err)
	}
	r.Logger.Debug("a proxy is asked to renew its lease", "proxy", req.Name)
	return reconcile.Result{}, nil
}
