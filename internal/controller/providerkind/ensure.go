package providerkind

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/endpoint"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// moveLabel has clusterctl move an object along with its LoadBalancer, be that owned by a Cluster or not. One that were left behind would be
// collected as garbage once its LoadBalancer is gone there, and what is outside deleted with it.
const moveLabel = "clusterctl.cluster.x-k8s.io/move"

// Wanted is all that a LoadBalancer's object is made from.
type Wanted struct {
	// LoadBalancer; what is noted on it is written, and set here too.
	LoadBalancer *clusterv1.LoadBalancer
	// Class; nil: it doesn't exist, or spec.infrastructureRef is in its place.
	Class *v1alpha1.LoadBalancerClass
	// Problems are build.Validate's.
	Problems []lb.Problem
}

// Ensure makes or adopts the object, tells it the endpoint, and returns what it says. Where the whole LoadBalancer is refused, its class is
// gone, or its Cluster is paused, the object stays as it is. An error is one of the API server's: try again.
func (k *Kinds) Ensure(ctx context.Context, w Wanted) (State, error) {
	l := w.LoadBalancer
	_, refused := build.RefusalOfAll(w.Problems)
	want, template, ok := wanted(l, w.Class)
	have, has := noted(l)
	cluster, paused, err := k.clusterOf(ctx, l)
	if err != nil {
		return State{}, err
	}
	if refused || !ok || paused != "" {
		return k.asItIs(ctx, l, have, has, paused)
	}
	kind, t, err := k.follow(ctx, want.GroupKind)
	switch {
	case err != nil:
		return State{}, err
	case t != nil && has && have != want:
		return k.kept(ctx, l, have, has, t)
	case t != nil:
		return unread(t, l, has), nil
	}
	o, err := k.read(ctx, k.Cache, kind, l.Namespace, want.Name)
	if err != nil {
		return State{}, err
	}
	if !has || have != want {
		t := k.foreign(l, want, template, o)
		if t == nil && o == nil && template == nil {
			t = missing(l, want)
		}
		if t == nil && has { // the one before is given up once there is another
			if t = drains(l, have); t == nil {
				t, err = k.leave(ctx, l, have)
			}
		}
		switch {
		case err != nil:
			return State{}, err
		case t != nil:
			return k.kept(ctx, l, have, has, t)
		}
		if err := k.note(ctx, l, want.String()); err != nil {
			return State{}, err
		}
	}
	if o == nil {
		if o, t, err = k.make(ctx, l, want, kind, template); err != nil || t != nil {
			return stopped(t), err
		}
	}
	if t := k.foreign(l, want, template, o); t != nil {
		return stopped(t), nil
	}
	if o.GetDeletionTimestamp() != nil {
		return stopped(problem(clusterv1.ReasonWaitingForProvider, "%s is being deleted; where it was made from a template, it is made anew once it is gone", want.text(l.Namespace))), nil
	}
	differs, t, err := k.tell(ctx, l, want, o)
	switch {
	case err != nil:
		return State{}, err
	case t != nil:
		return k.kept(ctx, l, want, OwnerOf(o) == l.Name, t)
	}
	out := k.state(want, o)
	if differs != "" && out.Reason == "" {
		out.Reason, out.Message = clusterv1.ReasonEndpointDiffers, differs
	}
	if !clusters.Endpoint(cluster).Empty() && l.Spec.Role != clusterv1.RoleWorkload {
		out.Endpoint = clusterv1.Endpoint{} // a control plane's LoadBalancer is told the Cluster's, which goes before
	}
	return out, nil
}

// asItIs is what an object says that nothing is done to.
func (k *Kinds) asItIs(ctx context.Context, l *clusterv1.LoadBalancer, have reference, has bool, paused string) (State, error) {
	out := State{}
	if has {
		kind, t, err := k.follow(ctx, have.GroupKind)
		if err != nil || t != nil {
			return unread(t, l, true), err
		}
		o, err := k.read(ctx, k.Cache, kind, l.Namespace, have.Name)
		if err != nil {
			return State{}, err
		}
		if o != nil && OwnerOf(o) == l.Name {
			out = k.state(have, o)
			out.Endpoint = clusterv1.Endpoint{} // nothing is written while all stays as it is
		}
	}
	if paused != "" {
		out.Again = later
		if out.Reason == "" && len(out.Addresses) == 0 {
			out.Reason, out.Message = clusterv1.ReasonStandsStill, paused
		}
	}
	return out, nil
}

// kept is what the object says that a LoadBalancer has, while trouble keeps what is wanted from being done: what is outside goes on.
func (k *Kinds) kept(ctx context.Context, l *clusterv1.LoadBalancer, have reference, has bool, t *trouble) (State, error) {
	out, err := k.asItIs(ctx, l, have, has, "")
	if err != nil || out.Unread {
		return out, err
	}
	out.Reason, out.Message, out.Again = t.reason, t.message, t.again
	return out, nil
}

// drains says which target of a LoadBalancer's is on its way out of an object: another one can't know when that is done; nil: none is.
func drains(l *clusterv1.LoadBalancer, of reference) *trouble {
	for _, t := range l.Status.Targets {
		switch member.State(t.State) {
		case member.Removing, member.Disabling, member.Updating:
			return problem(clusterv1.ReasonWaitingForProvider, "target %s is %s in %s, which is given up once that is done", t.Name, t.State, of.text(l.Namespace))
		}
	}
	return nil
}

// Still is why nothing of a LoadBalancer's may be touched now; "": it may.
func (k *Kinds) Still(ctx context.Context, l *clusterv1.LoadBalancer) (string, error) {
	_, still, err := k.clusterOf(ctx, l)
	return still, err
}

// clusterOf reads the Cluster of a LoadBalancer, nil if it has none, and says why nothing of the LoadBalancer's may be touched now.
func (k *Kinds) clusterOf(ctx context.Context, l *clusterv1.LoadBalancer) (c *unstructured.Unstructured, still string, err error) {
	if name := member.ClusterName(l); name != "" {
		c, err = clusters.Get(ctx, k.Reader, k.Kinds, types.NamespacedName{Namespace: l.Namespace, Name: name})
		if apierrors.IsForbidden(err) {
			return nil, fmt.Sprintf("whether Cluster %s is paused can't be read: apply config/rbac/hub (%v)", name, err), nil
		}
	}
	switch {
	case err != nil:
		return nil, "", err
	case clusters.IsPaused(l):
		still = fmt.Sprintf("the LoadBalancer has the annotation %s", clusterv1.PausedAnnotation)
	case c == nil:
	case clusters.IsPaused(c):
		still = fmt.Sprintf("Cluster %s is paused", c.GetName())
	case hasAnnotation(c, clusterv1.MoveAnnotation):
		still = fmt.Sprintf("Cluster %s moves to another hub", c.GetName())
	}
	return c, still, nil
}

func hasAnnotation(o client.Object, key string) bool {
	_, has := o.GetAnnotations()[key]
	return has
}

// read gets an object; nil: it isn't there.
func (k *Kinds) read(ctx context.Context, from client.Reader, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	switch err := from.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, o); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return o, nil
}

// note writes on a LoadBalancer which object it has; "": none.
func (k *Kinds) note(ctx context.Context, l *clusterv1.LoadBalancer, of string) error {
	old := l.DeepCopy()
	if delete(l.Annotations, v1alpha1.AnnotationImplementedBy); of != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationImplementedBy, of)
	}
	if err := k.Client.Patch(ctx, l, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("noting the provider object of LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}

func missing(l *clusterv1.LoadBalancer, of reference) *trouble {
	return problem(clusterv1.ReasonProviderObjectNotFound, "spec.infrastructureRef: there is no %s: create it, or mend the reference", of.text(l.Namespace))
}

// foreign says why an object isn't the LoadBalancer's to have; nil: it is, or there is none.
func (k *Kinds) foreign(l *clusterv1.LoadBalancer, of reference, template *clusterv1.ObjectReference, o *unstructured.Unstructured) *trouble {
	if o == nil {
		return nil
	}
	by, _, other := owner(o)
	switch {
	case other != "":
		return problem(clusterv1.ReasonProviderObjectOwned, "%s is controlled by %s, and left as it is: name one that is free", of.text(l.Namespace), other)
	case by != "" && by != l.Name:
		return problem(clusterv1.ReasonProviderObjectOwned, "%s is LoadBalancer %s's: name one that is free", of.text(l.Namespace), by)
	case by == "" && template != nil && !hasAnnotation(o, v1alpha1.AnnotationTemplate):
		return problem(clusterv1.ReasonProviderObjectOwned, "%s wasn't made for this LoadBalancer, and is left as it is: rename one of the two, or name it in spec.infrastructureRef of a LoadBalancer without a class", of.text(l.Namespace))
	}
	return nil
}

// make makes an object from the template of a class.
func (k *Kinds) make(ctx context.Context, l *clusterv1.LoadBalancer, of reference, kind schema.GroupVersionKind, template *clusterv1.ObjectReference) (*unstructured.Unstructured, *trouble, error) {
	if template == nil {
		return nil, missing(l, of), nil
	}
	from, t, err := k.template(ctx, template)
	if err != nil || t != nil {
		return nil, t, err
	}
	o := cloned(l, of, kind, from)
	err = k.Client.Create(ctx, o, client.FieldOwner(kit.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err): // the cache lags
		o, err = k.read(ctx, k.Reader, kind, l.Namespace, of.Name)
		if err == nil && o == nil {
			err = apierrors.NewConflict(schema.GroupResource{Group: of.Group, Resource: of.Kind}, of.Name, err)
		}
		return o, nil, err
	case apierrors.IsNotFound(err): // its CRD was deleted
		return nil, notInstalled(of.GroupKind), nil
	}
	if t, err = refusedBy(err, "making", of.text(l.Namespace)); err != nil || t != nil {
		return nil, t, err
	}
	k.Logger.Info("provider object made", "loadbalancer", l.Namespace+"/"+l.Name, "kind", of.Kind, "template", template.Name)
	return o, nil, nil
}

// template reads the one of a class.
func (k *Kinds) template(ctx context.Context, of *clusterv1.ObjectReference) (*unstructured.Unstructured, *trouble, error) {
	kind, t, err := k.served(schema.GroupKind{Group: of.APIGroup, Kind: of.Kind})
	if err != nil || t != nil {
		return nil, t, err
	}
	name := fmt.Sprintf("%s %s/%s", of.Kind, v1alpha1.SystemNamespace, of.Name)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err = k.Reader.Get(ctx, types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: of.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, problem(clusterv1.ReasonTemplateNotFound, "there is no %s, as the class says: the hub's operator creates it there, or mends spec.infrastructureTemplate", name), nil
	}
	t, err = refusedBy(err, "reading", name)
	return o, t, err
}

// cloned is a LoadBalancer's object as its template has it.
func cloned(l *clusterv1.LoadBalancer, of reference, kind schema.GroupVersionKind, from *unstructured.Unstructured) *unstructured.Unstructured {
	part := func(path ...string) map[string]any {
		// What isn't as templates have it says nothing; the API server's schema sees to that.
		m, _, _ := unstructured.NestedMap(from.Object, append([]string{"spec", "template"}, path...)...)
		return m
	}
	spec := part("spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "id")
	delete(spec, "endpoint")
	if e := endpointValue(l.Spec.Endpoint); e.Host != "" && e.Port != 0 {
		spec["endpoint"] = map[string]any{"host": e.Host, "port": int64(e.Port)}
	}
	labels, annotations := words(part("metadata", "labels")), words(part("metadata", "annotations"))
	annotations[v1alpha1.AnnotationTemplate], labels[moveLabel] = from.GetName(), ""
	if c := member.ClusterName(l); c != "" {
		labels[clusterv1.ClusterNameLabel] = c
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(l.Namespace)
	o.SetName(of.Name)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	o.SetOwnerReferences([]metav1.OwnerReference{ownedBy(l)})
	return o
}

func words(m map[string]any) map[string]string {
	out := map[string]string{}
	for key, v := range m {
		if s, ok := v.(string); ok {
			out[key] = s
		}
	}
	return out
}

// tell has the object be owned by the LoadBalancer, and have its endpoint before anything is outside. differs is
// how what is outside has another one.
func (k *Kinds) tell(ctx context.Context, l *clusterv1.LoadBalancer, of reference, o *unstructured.Unstructured) (differs string, t *trouble, err error) {
	next := o.DeepCopy()
	if by, uid, _ := owner(o); by == "" || uid != l.UID {
		next.SetOwnerReferences(append(others(o), ownedBy(l)))
	}
	if _, has := o.GetLabels()[moveLabel]; !has {
		labels := next.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[moveLabel] = ""
		next.SetLabels(labels)
	}
	own := endpointOf(o.Object, "spec")
	plan := endpoint.Decide(endpoint.Facts{LoadBalancer: &endpoint.LoadBalancer{
		Name: l.Name, Spec: endpoint.HostPort(endpointValue(l.Spec.Endpoint)), Granted: endpoint.HostPort(own), Up: true,
		Provider: &endpoint.Provider{Spec: endpoint.HostPort(own), Exists: exists(o)},
	}})
	if plan.Provider.Whole() {
		if err := unstructured.SetNestedMap(next.Object, map[string]any{"host": plan.Provider.Host, "port": int64(plan.Provider.Port)}, "spec", "endpoint"); err != nil {
			return "", problem(clusterv1.ReasonProviderObjectInvalid, "%s: spec.endpoint can't be set: %v", of.text(l.Namespace), err), nil
		}
	}
	for _, p := range plan.Problems {
		if p.Reason == endpoint.ReasonLBMatchesConfig {
			differs = p.Message
		}
	}
	t, err = k.patch(ctx, o, next, "writing", of.text(l.Namespace))
	return differs, t, err
}

// patch writes what differs of an object, if it is still as it was read.
func (k *Kinds) patch(ctx context.Context, o, next *unstructured.Unstructured, doing, what string) (*trouble, error) {
	if equality.Semantic.DeepEqual(o.Object, next.Object) {
		return nil, nil
	}
	patch := client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})
	t, err := refusedBy(k.Client.Patch(ctx, next, patch, client.FieldOwner(kit.FieldManager)), doing, what)
	if err == nil && t == nil {
		*o = *next
	}
	return t, err
}
