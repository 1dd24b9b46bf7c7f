package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	rules "fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// generatedFrom is the kind of the objects that the manager makes a group from: it would write its targets again; "": it makes it from none.
func generatedFrom(g *v1alpha1.TargetGroup) rules.Kind {
	return rules.KindOf(g.Labels[v1alpha1.LabelGeneratedFrom])
}

// Machines reads what is to be known of Machines or Nodes where some of the targets are such. A Node is of no namespace: then it reads
// what is there of all.
func (h *Hub) Machines(ctx context.Context, o *Objects, t Targets) error {
	places, err := t.find(o)
	if err != nil || len(places) == 0 || generatedFrom(places[0].group) == "" { // all are of one group
		return err
	}
	of := generatedFrom(places[0].group)
	if of == rules.Nodes {
		all, err := h.Everything(ctx)
		if err != nil {
			return err
		}
		if *o = *all; o.hidden("targetgroups") {
			return fmt.Errorf("you may not list TargetGroups of all namespaces, and a Node drains from all: %w", errHidden)
		}
		if places, err = t.find(o); err != nil {
			return err
		}
	}
	if o.Machines, err = h.lookAtMachines(ctx, of, t.Namespace); err != nil {
		return fmt.Errorf("%w %s: the manager makes that group from %ss and would write it again: %w", ErrTarget, t, of, err)
	}
	o.still = map[types.UID]string{}
	ofCluster := map[types.NamespacedName]string{}
	for _, p := range places {
		m := o.machine(p)
		if m == nil {
			x := &p.group.Spec.Targets[p.index]
			return fmt.Errorf("%w %s: the manager makes that group from %ss and would write it again, and there is no %s %s of UID %s: ask again in a moment, or bring it back", ErrTarget, t, of, of, nameIn(of, t.Namespace, x.Name), x.UID)
		}
		if of == rules.Nodes {
			continue
		}
		if o.still[m.GetUID()], err = h.still(ctx, m, ofCluster); err != nil {
			return err
		}
	}
	return nil
}

// nameIn is the name of a kind's object, with its namespace where it has one.
func nameIn(of rules.Kind, namespace, name string) string {
	if of == rules.Nodes {
		return name
	}
	return namespace + "/" + name
}

// kindOf is a kind as this API server serves it.
func (h *Hub) kindOf(of rules.Kind) (schema.GroupVersionKind, error) {
	if of == rules.Nodes {
		return corev1.SchemeGroupVersion.WithKind("Node"), nil
	}
	kind, err := clusters.Served(h.client.RESTMapper(), "Machine")
	switch {
	case err != nil:
		return kind, fmt.Errorf("looking for Machines: %w", err)
	case kind.Empty():
		return kind, errors.New("this API server serves no Machines: ask the management cluster of Cluster API, in which they are")
	}
	return kind, nil
}

// lookAtMachines reads the Machines of a namespace, or all Nodes.
func (h *Hub) lookAtMachines(ctx context.Context, of rules.Kind, namespace string) ([]*unstructured.Unstructured, error) {
	kind, err := h.kindOf(of)
	if err != nil {
		return nil, err
	}
	resource, where := "machines", client.ListOption(client.InNamespace(namespace))
	if of == rules.Nodes {
		resource, where = "nodes", client.InNamespace("")
	}
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	o := &Objects{}
	out, err := list(ctx, h, o, resource, page, func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items }, where)
	switch {
	case err != nil || !o.hidden(resource):
	case of == rules.Nodes:
		err = errors.New("you may not list Nodes: use the kubeconfig of this cluster's operator")
	default:
		err = fmt.Errorf("you may not list Machines of namespace %s: use the kubeconfig of Cluster API's operator", namespace)
	}
	return out, err
}

// machine is the Machine or Node that a target stands for; nil: there is none.
func (o *Objects) machine(p place) *unstructured.Unstructured {
	t := &p.group.Spec.Targets[p.index]
	i := slices.IndexFunc(o.Machines, func(m *unstructured.Unstructured) bool {
		return (m.GetNamespace() == "" || m.GetNamespace() == p.group.Namespace) && m.GetName() == t.Name && string(m.GetUID()) == t.UID
	})
	if i < 0 {
		return nil
	}
	return o.Machines[i]
}

// everywhere adds to targets that are Machines or Nodes the places where these stand for other LoadBalancers: one drains from all.
func (o *Objects) everywhere(places []place) []place {
	out := slices.Clone(places)
	for _, p := range places {
		of := generatedFrom(p.group)
		if of == "" {
			continue
		}
		for _, g := range o.TargetGroups {
			for i := range g.Spec.Targets {
				other := place{g, i}
				if generatedFrom(g) == of && (of == rules.Nodes || g.Namespace == p.group.Namespace) && g.Spec.Targets[i].UID == p.group.Spec.Targets[p.index].UID && !slices.Contains(out, other) {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

// standing names the Machines that nobody may write now, with why.
func (o *Objects) standing(places []place) []string {
	var out []string
	for _, p := range places {
		if m := o.machine(p); m != nil && o.still[m.GetUID()] != "" {
			if text := fmt.Sprintf("Machine %s: %s", m.GetName(), o.still[m.GetUID()]); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// leftover says what the manager has yet to say of a Machine that proxies have let go of; empty: nothing.
func (o *Objects) leftover(p place) string {
	m := o.machine(p)
	of := generatedFrom(p.group)
	if of == "" || m == nil {
		return ""
	}
	switch l := p.group.Labels[v1alpha1.LabelFor]; of.StateIn(m.GetAnnotations(), of.Key(p.group.Namespace, l)) {
	case rules.Disabled, rules.Removed:
		return ""
	default:
		return fmt.Sprintf("%s: the manager has yet to say that it is out of LoadBalancer %s", m.GetName(), l)
	}
}

// disableMachines annotates the Machines or Nodes that targets of a group stand for, one after the other. still says what keeps some
// from taking connections again after an undo.
func (h *Hub) disableMachines(ctx context.Context, places []place, undo bool) (still string, err error) {
	var told []string
	for _, p := range places {
		kind, err := h.kindOf(generatedFrom(p.group))
		if err != nil {
			return "", err
		}
		why, err := h.disableMachine(ctx, kind, p, undo)
		if err != nil {
			return "", err
		}
		if why != "" {
			told = append(told, why)
		}
	}
	return strings.Join(told, "; "), nil
}

// disableMachine annotates one. Where an earlier drain was undone a moment ago it waits until the manager has seen that: what it
// says of that one is not of this one.
func (h *Hub) disableMachine(ctx context.Context, kind schema.GroupVersionKind, p place, undo bool) (still string, err error) {
	t, of := &p.group.Spec.Targets[p.index], generatedFrom(p.group)
	key := types.NamespacedName{Namespace: p.group.Namespace, Name: t.Name}
	if of == rules.Nodes {
		key.Namespace = ""
	}
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(kind)
	var last error
	err = wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		if err := h.client.Get(ctx, key, m); err != nil {
			return false, err
		}
		if string(m.GetUID()) != t.UID {
			return false, fmt.Errorf("another %s has its name now, of UID %s: ask again in a moment", of, m.GetUID())
		}
		if _, disabled := m.GetAnnotations()[clusterv1.DisabledAnnotation]; disabled != undo {
			return true, nil
		}
		if !undo && m.GetDeletionTimestamp() == nil && earlier(m, p.group) {
			last = errors.New("the manager has yet to see that an earlier drain was undone: see to it with fairlead status")
			return false, nil
		}
		last = annotate(ctx, h.client, m, undo, m.GetResourceVersion())
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, last
	})
	name := nameIn(of, key.Namespace, key.Name)
	switch {
	case apierrors.IsForbidden(err) && of == rules.Nodes:
		return "", fmt.Errorf("annotating Node %s: %w: use the kubeconfig of this cluster's operator", name, err)
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("annotating Machine %s: %w: use the kubeconfig of Cluster API's operator", name, err)
	case err != nil:
		if !errors.Is(last, err) {
			err = errors.Join(err, last)
		}
		return "", fmt.Errorf("annotating %s %s: %w", of, name, err)
	case !undo:
		return "", nil
	case m.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s %s is being deleted", of, t.Name), nil
	case of == rules.Nodes:
		return "", nil
	}
	if still, err = h.still(ctx, m, map[types.NamespacedName]string{}); still != "" {
		still = fmt.Sprintf("Machine %s does so once this ends: %s", t.Name, still)
	}
	return still, err
}

// earlier: the manager says that a Machine or Node without the annotation is disabled.
func earlier(m *unstructured.Unstructured, g *v1alpha1.TargetGroup) bool {
	of := generatedFrom(g)
	switch of.StateIn(m.GetAnnotations(), of.Key(g.Namespace, g.Labels[v1alpha1.LabelFor])) {
	case rules.Disabling, rules.Disabled:
		return true
	}
	return false
}

// seeTo says where it is told what a group of Machines or Nodes waits for.
func seeTo(g *v1alpha1.TargetGroup) string {
	return fmt.Sprintf("See what it waits for: fairlead explain loadbalancer %s -n %s", g.Labels[v1alpha1.LabelFor], g.Namespace)
}

// generatedFix is what to do about a Machine or Node that a group doesn't name.
func generatedFix(of rules.Kind, namespace, name string) string {
	if of == rules.Nodes {
		return fmt.Sprintf(". One that was never served is told by kubectl annotate node %s %s=%s", name, clusterv1.DisabledAnnotation, disabledValue)
	}
	return fmt.Sprintf(". One that was never served is told by kubectl annotate machine %s -n %s %s=%s", name, namespace, clusterv1.DisabledAnnotation, disabledValue)
}
