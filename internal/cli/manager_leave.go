package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaveOptions say what of the managers' is taken off Machines and Nodes.
type LeaveOptions struct {
	// DryRun: nothing is written.
	DryRun bool
	// Force: though a manager leads, or that can't be told.
	Force bool
	// Agent: it is a management cluster's whose hub is another one, so that an agent followed Machines. Finalizers of its LoadBalancers
	// go with the last of what Machines carry.
	Agent bool
	// Paused: from those too that are paused, or move to another hub, or whose Cluster is or does.
	Paused bool
}

// leaves is one Machine or Node that carries something.
type leaves struct {
	*unstructured.Unstructured
	kind member.Kind
	line *LeaveLine
}

// Leave takes off all Machines and Nodes what managers wrote there, and calls told with each as it is done. What fails at one is said of
// that one, and the others go on; an error is that nothing could be asked.
func (h *Hub) Leave(ctx context.Context, o LeaveOptions, told func(LeaveLine)) (Leave, error) {
	out := Leave{Machines: []LeaveLine{}}
	if !o.Force {
		who, err := h.leads(ctx, managerLease)
		if err == nil && who == "" && o.Agent {
			who, err = h.leads(ctx, v1alpha1.AgentLease)
		}
		if err != nil {
			return out, err
		}
		if who != "" {
			out.State, out.Message = LeaveRefused, who
			out.Fix = fmt.Sprintf("Stop all %ss first: they would write it again. --force does it all the same.", o.by())
			if !o.DryRun {
				return out, nil
			}
		}
	}
	kind, err := clusters.Served(h.client.RESTMapper(), "Machine")
	if err != nil {
		return out, fmt.Errorf("looking for Machines: %w", err)
	}
	found, unseen, err := h.allMarked(ctx, kind, o.Agent)
	if err != nil {
		return out, err
	}
	if kind.Empty() && len(found) == 0 && unseen == "" {
		out.State, out.Message, out.Fix = LeaveDone, "this API server serves no Machines, and no Node carries anything, so that there is nothing to take off", ""
		return out, nil
	}
	stills := map[types.NamespacedName]string{}
	var left []string
	for i := range found {
		m := &found[i]
		still := ""
		if m.kind == member.Machines {
			if still, err = h.still(ctx, m.Unstructured, stills); err != nil {
				return out, err
			}
		}
		switch {
		case still != "" && !o.Paused:
			m.line.State, m.line.Message = LeaveLeft, still
			left = append(left, m.line.String()+": "+still)
		case o.DryRun:
			m.line.State = LeavePlanned
		default:
			if err := h.takeOff(ctx, m); err != nil {
				m.line.State, m.line.Message = LeaveLeft, err.Error()
				left = append(left, m.line.String()+": "+err.Error())
			} else {
				m.line.State = LeaveDone
			}
		}
		out.Machines = append(out.Machines, *m.line)
		told(*m.line)
	}
	switch {
	case out.State == LeaveRefused: // a dry run says what there is, and that it would be refused
	case o.DryRun:
		out.State = LeavePlanned
	case len(left) > 0:
		out.State, out.Message = LeaveLeft, some(left)
		out.Fix = "Run it again once they are paused no longer, or with --paused; see to what else is said."
	default:
		if err := h.lookAfter(ctx, kind, o, &out); err != nil || out.State != LeaveDone || !o.Agent {
			return out, err
		}
		return out, h.unhold(ctx, &out)
	}
	return out, nil
}

// by is who wrote it.
func (o *LeaveOptions) by() string {
	if o.Agent {
		return "agent"
	}
	return "manager"
}

// lookAfter looks once more: one that runs on would have written it again.
func (h *Hub) lookAfter(ctx context.Context, kind schema.GroupVersionKind, o LeaveOptions, out *Leave) error {
	again, unseen, err := h.allMarked(ctx, kind, o.Agent)
	if err != nil {
		return err
	}
	by := o.by()
	out.State, out.Message = LeaveDone, fmt.Sprintf("%s carry nothing of %s %s's any more", out.all(), article(by), by)
	if unseen != "" {
		out.Message += "; " + unseen
	}
	if len(again) > 0 {
		out.State, out.Message = LeaveLeft, fmt.Sprintf("%s carries it again: %s %s is at work", again[0].line, article(by), by)
		out.Fix = fmt.Sprintf("Stop all %ss, and run it again.", by)
	}
	return nil
}

// errHiddenLease: whoever asks may not look.
var errHiddenLease = errors.New("a Lease is hidden")

func article(by string) string {
	if by == "agent" {
		return "an"
	}
	return "a"
}

// leads says which of the processes with a Lease leads; "": none does.
func (h *Hub) leads(ctx context.Context, name string) (string, error) {
	lease, by := &coordinationv1.Lease{}, strings.TrimPrefix(name, "fairlead-")
	switch err := h.client.Get(ctx, types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: name}, lease); {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("%w: whether %s %s leads can't be told, for you may not read Lease %s/%s: use an operator's kubeconfig, or --force", errHiddenLease, article(by), by, v1alpha1.SystemNamespace, name)
	case err != nil:
		return "", fmt.Errorf("reading Lease %s/%s: %w", v1alpha1.SystemNamespace, name, err)
	}
	o := &Objects{Now: h.clock.now()}
	ago, renewed := o.renewed(lease)
	if !renewed || ago > silence || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %s leads: it renewed its Lease %s ago", by, *lease.Spec.HolderIdentity, short(ago)), nil
}

// allMarked are the Machines, of that kind, and, beside a manager, the Nodes that carry something. unseen says why that isn't known of
// Nodes; "": it is.
func (h *Hub) allMarked(ctx context.Context, machine schema.GroupVersionKind, agent bool) (out []leaves, unseen string, err error) {
	if !machine.Empty() {
		var hidden bool
		if out, hidden, err = h.marked(ctx, member.Machines, machine); err == nil && hidden {
			err = errors.New("you may not list Machines of all namespaces: use the kubeconfig of Cluster API's operator")
		}
	}
	if err != nil || agent {
		return out, "", err
	}
	nodes, hidden, err := h.marked(ctx, member.Nodes, corev1.SchemeGroupVersion.WithKind("Node"))
	if hidden {
		unseen = "whether Nodes carry anything can't be told, for you may not list them"
	}
	return append(out, nodes...), unseen, err
}

// marked are those of a kind that carry something of a manager's, sorted by namespace and name; hidden: they may not be listed.
func (h *Hub) marked(ctx context.Context, of member.Kind, kind schema.GroupVersionKind) (out []leaves, hidden bool, err error) {
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	o := &Objects{}
	resource := strings.ToLower(string(of)) + "s"
	all, err := list(ctx, h, o, resource, page, func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items })
	if err != nil {
		return nil, false, err
	}
	for _, m := range all {
		if takes := written(of, m); len(takes) > 0 {
			out = append(out, leaves{m, of, &LeaveLine{Namespace: m.GetNamespace(), Name: m.GetName(), Deleting: m.GetDeletionTimestamp() != nil, Takes: takes}})
		}
	}
	slices.SortFunc(out, func(a, b leaves) int { return a.line.compare(b.line) })
	return out, o.hidden(resource), nil
}

// written are the keys of what managers wrote to a Machine or Node, sorted.
func written(of member.Kind, m *unstructured.Unstructured) []string {
	had, keeps := m.GetAnnotations(), of.Strip(m.GetAnnotations())
	var out []string
	for key := range had {
		if _, stays := keeps[key]; !stays {
			out = append(out, key)
		}
	}
	if of == member.Machines && labelled(m) {
		out = append(out, labelOf+member.NameLabel)
	}
	slices.Sort(out)
	return out
}

// labelOf tells a label's key from an annotation's of the same name.
const labelOf = "label "

// labelled says that a Machine has the label that names its LoadBalancer from a manager, and from nobody else.
func labelled(m *unstructured.Unstructured) bool {
	if _, has := m.GetLabels()[member.NameLabel]; !has {
		return false
	}
	ours := false
	for _, by := range m.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if by.FieldsV1 == nil || json.Unmarshal(by.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // it tells nothing of labels
		}
		if _, owns := fields.Metadata.Labels["f:"+member.NameLabel]; owns {
			if by.Manager != kit.FieldManager {
				return false
			}
			ours = true
		}
	}
	return ours
}

// still says why a Machine is left as it is; "": it isn't. What was found of Clusters is remembered.
func (h *Hub) still(ctx context.Context, u *unstructured.Unstructured, of map[types.NamespacedName]string) (string, error) {
	m := machines.Read(u)
	if why := m.Still(); why != "" {
		return why, nil
	}
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: m.Cluster()}
	why, known := of[key]
	if known || key.Name == "" {
		return why, nil
	}
	c, err := clusters.Get(ctx, h.client, h.client.RESTMapper(), key)
	switch {
	case err != nil:
		return "", err
	case c == nil:
	case clusters.IsPaused(c):
		why = "its Cluster is paused"
	default:
		if _, moves := c.GetAnnotations()[clusterv1.MoveAnnotation]; moves {
			why = "its Cluster moves to another hub"
		}
	}
	of[key] = why
	return why, nil
}

// takeOff writes one Machine or Node as it is without what managers wrote. One that is gone is no error.
func (h *Hub) takeOff(ctx context.Context, m *leaves) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		next := m.DeepCopy()
		if m.kind == member.Machines && labelled(m.Unstructured) {
			labels := maps.Clone(next.GetLabels())
			delete(labels, member.NameLabel)
			next.SetLabels(labels)
		}
		next.SetAnnotations(m.kind.Strip(m.GetAnnotations()))
		err := h.client.Patch(ctx, next, client.MergeFromWithOptions(m.Unstructured, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager))
		if apierrors.IsConflict(err) {
			return errors.Join(h.client.Get(ctx, client.ObjectKeyFromObject(m), m.Unstructured), err)
		}
		return err
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing it: %w", err)
	}
	return nil
}
