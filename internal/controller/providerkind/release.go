package providerkind

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Release deletes the object of a LoadBalancer that is being deleted, as the LoadBalancer's own: be it made for it, or adopted. It says what of
// it is still there; "": nothing.
func (k *Kinds) Release(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (left string, err error) {
	of, has := noted(l)
	if !has {
		var may bool
		if of, _, may = wanted(l, class); !may {
			return "", nil
		}
	}
	t, err := k.remove(ctx, l, of)
	switch {
	case err != nil || t == nil, !has && t.reason == clusterv1.ReasonProviderForbidden: // of a kind that it may not read it has made nothing
		return "", err
	}
	return t.message, nil
}

// LetGo ends what a LoadBalancer had of provider kinds, which something else serves now.
func (k *Kinds) LetGo(ctx context.Context, l *clusterv1.LoadBalancer) (left string, err error) {
	of, has := noted(l)
	if !has {
		return "", nil
	}
	if still, err := k.Still(ctx, l); err != nil || still != "" {
		return still, err
	}
	t := drains(l, of)
	if t == nil {
		if t, err = k.leave(ctx, l, of); err != nil {
			return "", err
		}
	}
	if t != nil {
		return t.message, nil
	}
	return "", k.note(ctx, l, "")
}

// leave ends what a LoadBalancer has of an object: one that was made for it is deleted; one that a person made is theirs again, and what
// is outside goes on. nil: that is done.
func (k *Kinds) leave(ctx context.Context, l *clusterv1.LoadBalancer, of reference) (*trouble, error) {
	o, t, err := k.live(ctx, l, of)
	if err != nil || t != nil || o == nil {
		return t, err
	}
	if hasAnnotation(o, v1alpha1.AnnotationTemplate) {
		return k.remove(ctx, l, of)
	}
	next := o.DeepCopy()
	next.SetOwnerReferences(others(o))
	return k.patch(ctx, o, next, "writing", of.text(l.Namespace))
}

// live reads a LoadBalancer's object; nil: there is none, or it is somebody else's.
func (k *Kinds) live(ctx context.Context, l *clusterv1.LoadBalancer, of reference) (*unstructured.Unstructured, *trouble, error) {
	kind, t, err := k.served(of.GroupKind)
	switch {
	case err != nil:
		return nil, nil, err
	case t != nil:
		return nil, nil, nil // where there is no such kind, there is no object
	}
	o, err := k.read(ctx, k.Reader, kind, l.Namespace, of.Name)
	if t, err := refusedBy(err, "reading", of.text(l.Namespace)); err != nil || t != nil {
		return nil, t, err
	}
	if o == nil || OwnerOf(o) != l.Name {
		k.forget(l.Namespace, of)
		return nil, nil, nil
	}
	return o, nil, nil
}

// remove deletes a LoadBalancer's object. nil: it is gone.
func (k *Kinds) remove(ctx context.Context, l *clusterv1.LoadBalancer, of reference) (*trouble, error) {
	o, t, err := k.live(ctx, l, of)
	if err != nil || t != nil || o == nil {
		return t, err
	}
	if _, _, err := k.follow(ctx, of.GroupKind); err != nil { // so that the last of it wakes the LoadBalancer
		return nil, err
	}
	if o.GetDeletionTimestamp() == nil {
		uid := o.GetUID()
		err := client.IgnoreNotFound(k.Client.Delete(ctx, o, client.Preconditions{UID: &uid}))
		if t, err := refusedBy(err, "deleting", of.text(l.Namespace)); err != nil || t != nil {
			return t, err
		}
		k.Logger.Info("provider object deleted", "loadbalancer", l.Namespace+"/"+l.Name, "kind", of.Kind, "name", of.Name)
		return problem(clusterv1.ReasonWaitingForProvider, "%s is being deleted", of.text(l.Namespace)), nil
	}
	return problem(clusterv1.ReasonWaitingForProvider, "%s is being deleted, and held by %s: see to its conditions, and to its provider's program%s", of.text(l.Namespace), strings.Join(o.GetFinalizers(), ", "), word(o, "Degraded")), nil
}

// word is what an object says of itself, for a message.
func word(o *unstructured.Unstructured, kind string) string {
	if c, ok := conditions(o)[kind]; ok && c.Status == metav1.ConditionTrue && c.Message != "" {
		return fmt.Sprintf(" (it says %s: %s)", c.Reason, strings.TrimSuffix(c.Message, "."))
	}
	return ""
}
