package member

import (
	"context"
	"fmt"
	"maps"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeKind is what a hub has Nodes as.
var NodeKind = corev1.SchemeGroupVersion.WithKind("Node")

// NodeRights is the folder that the manager has its rights to Nodes from.
const NodeRights = "config/rbac/nodes"

// sight is whether a kind's objects are in the cache.
type sight struct {
	// as is the kind as it is watched; empty: it isn't.
	as schema.GroupVersionKind
	// looked: somebody has looked whether it can be. Nothing is done about its LoadBalancers before.
	looked bool
}

// Watches says that a kind's objects are in the cache, as that kind, and followed from now on; it returns whether that is new.
func (r *Reconciler) Watches(kind rules.Kind, as schema.GroupVersionKind) bool {
	return r.sees(kind, as)
}

// Unwatched says that a kind can't be watched now, and returns whether that is new.
func (r *Reconciler) Unwatched(kind rules.Kind) bool {
	return r.sees(kind, schema.GroupVersionKind{})
}

// Undecided says that nobody knows whether a kind can be, and returns whether somebody waits for a word of that: then none can.
func (r *Reconciler) Undecided(kind rules.Kind) bool { return r.blind(kind) && r.Unwatched(kind) }

func (r *Reconciler) sees(kind rules.Kind, as schema.GroupVersionKind) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.seen[kind]
	r.seen[kind] = sight{as: as, looked: true}
	return !was.looked || was.as != as
}

// blind says that nobody has looked yet whether a kind can be watched, and asks for it.
func (r *Reconciler) blind(kind rules.Kind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[kind].looked {
		return false
	}
	select {
	case r.wanted <- struct{}{}:
	default:
	}
	return true
}

// Wanted gets a word when somebody waits for a look whether a kind can be watched.
func (r *Reconciler) Wanted() <-chan struct{} { return r.wanted }

func (r *Reconciler) watched(kind rules.Kind) schema.GroupVersionKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[kind].as
}

// unread is why none of a kind can be read; a problem's reason, cause and fix.
func (r *Reconciler) unread(kind rules.Kind) *problem {
	if kind == rules.Nodes {
		return &problem{clusterv1.ReasonForbidden, fmt.Sprintf("%s may not read Nodes: apply %s", r.who().Name, r.rights(kind))}
	}
	return &problem{clusterv1.ReasonNotInstalled, fmt.Sprintf("no Machines are served here, or %s may not read them: install Cluster API, and apply %s", r.who().Name, r.rights(kind))}
}

// rights is the folder that those to a kind are from.
func (r *Reconciler) rights(kind rules.Kind) string {
	if kind == rules.Nodes {
		return NodeRights
	}
	return r.who().Rights
}

// object is a Machine or Node, and what is read of it.
type object struct {
	machines.Machine
	// shared with the cache, where it is from there.
	client.Object
}

// list reads all of a kind that a namespace's LoadBalancers may have as targets; of all where that is "".
func (r *Reconciler) list(ctx context.Context, from client.Reader, kind rules.Kind, namespace string) ([]object, error) {
	var out []object
	if kind == rules.Nodes {
		list := &corev1.NodeList{}
		if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Nodes: %w", err)
		}
		for i := range list.Items {
			out = append(out, object{machines.ReadNode(&list.Items[i]), &list.Items[i]})
		}
		return out, nil
	}
	as := r.watched(kind)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(as.GroupVersion().WithKind(as.Kind + "List"))
	if err := from.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Machines of namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		out = append(out, object{machines.Read(&list.Items[i]), &list.Items[i]})
	}
	return out, nil
}

// reannotate has an object's annotations come from what was read of them to what is wanted. Others, which weren't, stay.
func reannotate(o client.Object, read, want map[string]string) {
	out := maps.Clone(o.GetAnnotations())
	if out == nil {
		out = map[string]string{}
	}
	for key := range read {
		if _, stays := want[key]; !stays {
			delete(out, key)
		}
	}
	maps.Copy(out, want)
	o.SetAnnotations(out)
}
