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
	"fairlead.dev/fairlead/internal/controller/member"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofMachines: the manager makes the group from Machines, and would write its targets again.
func ofMachines(g *v1alpha1.TargetGroup) bool {
	return g.Labels[v1alpha1.LabelGeneratedFrom] == member.FromMachines
}

// Machines reads what is to be known of Machines where some of the targets are such.
func (h *Hub) Machines(ctx context.Context, o *Objects, t Targets) error {
	places, err := t.find(o)
	if err != nil || !slices.ContainsFunc(places, func(p place) bool { return ofMachines(p.group) }) {
		return err
	}
	kind, err := clusters.Served(h.client.RESTMapper(), "Machine")
	if err != nil {
		return fmt.Errorf("looking for Machines: %w", err)
	}
	if kind.Empty() {
		return fmt.Errorf("%w %s: the manager makes that group from Machines and would write it again, and this API server serves none: ask the management cluster of Cluster API, in which they are", ErrTarget, t)
	}
	if o.Machines, err = h.machinesIn(ctx, kind, t.Namespace); err != nil {
		return err
	}
	o.still = map[types.UID]string{}
	ofCluster := map[types.NamespacedName]string{}
	for _, p := range places {
		m := o.machine(p)
		if m == nil {
			x := &p.group.Spec.Targets[p.index]
			return fmt.Errorf("%w %s: the manager makes that group from Machines and would write it again, and there is no Machine %s/%s of UID %s: ask again in a moment, or bring it back", ErrTarget, t, t.Namespace, x.Name, x.UID)
		}
		if o.still[m.GetUID()], err = h.still(ctx, m, ofCluster); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hub) machinesIn(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	o := &Objects{}
	out, err := list(ctx, h, o, "machines", page, func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items }, client.InNamespace(namespace))
	if err == nil && o.hidden("machines") {
		err = fmt.Errorf("you may not list Machines of namespace %s: use the kubeconfig of Cluster API's operator", namespace)
	}
	return out, err
}

// lookAtMachines reads what Judge needs of Machines.
func (h *Hub) lookAtMachines(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	kind, err := clusters.Served(h.client.RESTMapper(), "Machine")
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for Machines: %w", err)
	case kind.Empty():
		return nil, errors.New("this API server serves no Machines any more")
	}
	return h.machinesIn(ctx, kind, namespace)
}

// machine is the Machine that a target stands for; nil: there is none.
func (o *Objects) machine(p place) *unstructured.Unstructured {
	t := &p.group.Spec.Targets[p.index]
	i := slices.IndexFunc(o.Machines, func(m *unstructured.Unstructured) bool {
		return m.GetNamespace() == p.group.Namespace && m.GetName() == t.Name && string(m.GetUID()) == t.UID
	})
	if i < 0 {
		return nil
	}
	return o.Machines[i]
}

// everywhere adds to targets that are Machines the places where these stand for other LoadBalancers: a Machine drains from all.
func (o *Objects) everywhere(places []place) []place {
	out := slices.Clone(places)
	for _, p := range places {
		if !ofMachines(p.group) {
			continue
		}
		for _, g := range o.TargetGroups {
			for i := range g.Spec.Targets {
				other := place{g, i}
				if ofMachines(g) && g.Namespace == p.group.Namespace && g.Spec.Targets[i].UID == p.group.Spec.Targets[p.index].UID && !slices.Contains(out, other) {
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
	if !ofMachines(p.group) || m == nil {
		return ""
	}
	switch l := p.group.Labels[v1alpha1.LabelFor]; rules.StateIn(m.GetAnnotations(), l) {
	case rules.Disabled, rules.Removed:
		return ""
	default:
		return fmt.Sprintf("%s: the manager has yet to say that it is out of LoadBalancer %s", m.GetName(), l)
	}
}

// disableMachines annotates the Machines that targets of a group stand for, one after the other. still says what keeps some
// from taking connections again after an undo.
func (h *Hub) disableMachines(ctx context.Context, places []place, undo bool) (still string, err error) {
	kind, err := clusters.Served(h.client.RESTMapper(), "Machine")
	if err != nil {
		return "", fmt.Errorf("looking for Machines: %w", err)
	}
	if kind.Empty() {
		return "", errors.New("this API server serves no Machines: ask the management cluster of Cluster API")
	}
	var told []string
	for _, p := range places {
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
	t := &p.group.Spec.Targets[p.index]
	key := types.NamespacedName{Namespace: p.group.Namespace, Name: t.Name}
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(kind)
	var last error
	err = wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		if err := h.client.Get(ctx, key, m); err != nil {
			return false, err
		}
		if string(m.GetUID()) != t.UID {
			return false, fmt.Errorf("another Machine has its name now, of UID %s: ask again in a moment", m.GetUID())
		}
		read := machines.Read(m)
		if read.Disabled() != undo {
			return true, nil
		}
		if !undo && !read.Deleting && earlier(m, p.group) {
			last = errors.New("the manager has yet to see that an earlier drain was undone: see to it with fairlead status")
			return false, nil
		}
		last = annotate(ctx, h.client, m, undo, m.GetResourceVersion())
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, last
	})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("annotating Machine %s: %w: use the kubeconfig of Cluster API's operator", key, err)
	case err != nil:
		if !errors.Is(last, err) {
			err = errors.Join(err, last)
		}
		return "", fmt.Errorf("annotating Machine %s: %w", key, err)
	case !undo:
		return "", nil
	case m.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("Machine %s is being deleted", t.Name), nil
	}
	if still, err = h.still(ctx, m, map[types.NamespacedName]string{}); still != "" {
		still = fmt.Sprintf("Machine %s does so once this ends: %s", t.Name, still)
	}
	return still, err
}

// earlier: the manager says that a Machine without the annotation is disabled.
func earlier(m *unstructured.Unstructured, g *v1alpha1.TargetGroup) bool {
	switch rules.StateIn(m.GetAnnotations(), g.Labels[v1alpha1.LabelFor]) {
	case rules.Disabling, rules.Disabled:
		return true
	}
	return false
}

// seeTo says where it is told what a group of Machines waits for.
func seeTo(g *v1alpha1.TargetGroup) string {
	return fmt.Sprintf("See what it waits for: fairlead explain loadbalancer %s -n %s", g.Labels[v1alpha1.LabelFor], g.Namespace)
}

// generatedFix is what to do about a Machine that a group doesn't name.
func generatedFix(namespace, name string) string {
	return fmt.Sprintf(". One that was never served is told by kubectl annotate machine %s -n %s %s=%s", name, namespace, clusterv1.DisabledAnnotation, disabledValue)
}
