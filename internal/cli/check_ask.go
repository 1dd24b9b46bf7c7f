package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/controller/clusters"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentRole is the ClusterRole to which the manager binds each Tenant's agent in the Tenant's namespace.
const agentRole = "fairlead-agent"

// atOnce bounds the questions that are open at one API server.
const atOnce = 16

// asker puts questions to one API server.
type asker struct {
	config *rest.Config
	client client.Client
}

// Check reads what Diagnose needs of the hub.
func (h *Hub) Check(ctx context.Context, version string) (*Facts, error) {
	a := &asker{h.config, h.client}
	f := &Facts{Version: version}
	var err error
	// First, so that who can't reach the hub, or stands before one without our kinds, hears of that.
	if f.Server, err = a.server(); err != nil {
		return nil, err
	}
	kinds, err := crd.All()
	if err != nil {
		return nil, err
	}
	roles, err := rbac.Hub()
	if err != nil {
		return nil, err
	}
	if f.Installed, err = a.installed(ctx, areaKinds, kinds, crd.FieldManager); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(f.Installed, func(i Installed) bool { return i.State == InstalledMissing }) {
		// Nothing more can be read.
		f.Objects = &Objects{Now: h.clock.now(), Hidden: []string{"leases", "proxies", "proxyreports", "tenants"}}
		return f, nil
	}
	more, err := a.installed(ctx, areaRoles, roles, rbac.FieldManager)
	if err != nil {
		return nil, err
	}
	f.Installed = append(f.Installed, more...)
	if f.Objects, err = h.Everything(ctx); err != nil {
		return nil, err
	}
	if f.AgentLeases, err = h.agentLeases(ctx); err != nil {
		return nil, err
	}
	needs := needsOf(areaRoles, roles)
	for _, t := range f.Tenants {
		needs = append(needs, agentNeeds(roles, t))
	}
	f.Rights, err = a.rights(ctx, needs)
	return f, err
}

// agentLeases are the Leases of agents by namespace; nil: the reader may not see them.
func (h *Hub) agentLeases(ctx context.Context) (map[string]Renewal, error) {
	o := &Objects{}
	leases, err := list(ctx, h, o, "leases", &coordinationv1.LeaseList{}, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items },
		client.MatchingFields{"metadata.name": v1alpha1.AgentLease})
	if err != nil || o.hidden("leases") {
		return nil, err
	}
	out := map[string]Renewal{}
	for _, l := range leases {
		if l.Spec.RenewTime != nil {
			out[l.Namespace] = Renewal{At: l.Spec.RenewTime.Time, Version: l.Annotations[v1alpha1.AnnotationVersion], Refused: l.Annotations[v1alpha1.AnnotationRefused]}
		}
	}
	return out, nil
}

// Check reads what Diagnose needs of the cluster of the Tenant of that name.
func (t *Tenant) Check(ctx context.Context, tenant string) (*ClusterFacts, error) {
	a := &asker{t.config, t.client}
	f := &ClusterFacts{Tenant: tenant}
	var err error
	if f.Server, err = a.server(); err != nil {
		return nil, err
	}
	kube := &corev1.Namespace{}
	switch err := t.client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, kube); {
	case err == nil:
		f.UID = string(kube.UID)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading namespace %s of the tenant cluster: %w", metav1.NamespaceSystem, err)
	}
	roles, err := rbac.Tenant()
	if err != nil {
		return nil, err
	}
	if f.Installed, err = a.installed(ctx, areaTenant, roles, rbac.FieldManager); err != nil {
		return nil, err
	}
	f.Rights, err = a.rights(ctx, needsOf(areaTenant, roles))
	return f, err
}

// CheckManagement looks at what an agent with --management needs in a management cluster, whose hub is hub.
func (t *Tenant) CheckManagement(ctx context.Context, hub *Hub) (*ManagementFacts, error) {
	a, f := &asker{t.config, t.client}, &ManagementFacts{}
	kube := &corev1.Namespace{}
	switch err := hub.client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, kube); {
	case err == nil:
		f.HubUID = string(kube.UID)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading namespace %s of the hub: %w", metav1.NamespaceSystem, err)
	}
	for _, kind := range []string{"Cluster", "Machine"} {
		is, err := clusters.Served(t.client.RESTMapper(), kind)
		if err != nil {
			return nil, err
		}
		if is.Empty() {
			f.Unserved = append(f.Unserved, kind)
		}
	}
	here := &Hub{client: t.client, config: t.config, clock: &clock{}}
	who, err := here.leads(ctx, managerLease)
	if err != nil && !errors.Is(err, errHiddenLease) {
		return nil, err
	}
	f.Manager, f.Hidden = who, err != nil
	kinds, err := crd.All()
	if err != nil {
		return nil, err
	}
	roles, err := rbac.Management()
	if err != nil {
		return nil, err
	}
	if f.Installed, err = a.installed(ctx, areaManagement, kinds, crd.FieldManager); err != nil {
		return nil, err
	}
	more, err := a.installed(ctx, areaManagement, roles, rbac.FieldManager)
	if err != nil {
		return nil, err
	}
	f.Installed = append(f.Installed, more...)
	f.Rights, err = a.rights(ctx, needsOf(areaManagement, roles))
	return f, err
}

func (a *asker) server() (Server, error) {
	d, err := discovery.NewDiscoveryClientForConfig(a.config)
	if err != nil {
		return Server{}, fmt.Errorf("making a client of %s: %w", a.config.Host, err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		return Server{}, fmt.Errorf("asking %s for its version: %w", a.config.Host, err)
	}
	s := Server{Version: v.GitVersion}
	// Some providers write 35+.
	if s.Major, err = strconv.Atoi(strings.TrimRight(v.Major, "+")); err != nil {
		return s, fmt.Errorf("reading the version of %s, %q.%q: %w", a.config.Host, v.Major, v.Minor, err)
	}
	if s.Minor, err = strconv.Atoi(strings.TrimRight(v.Minor, "+")); err != nil {
		return s, fmt.Errorf("reading the version of %s, %q.%q: %w", a.config.Host, v.Major, v.Minor, err)
	}
	return s, nil
}

// each calls do for 0 to n-1, several at a time, and returns the first error of the lowest index.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			errs[i] = do(i)
			<-free
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// installed compares objects with what is there, by having the API server say what an apply would change. It changes nothing.
func (a *asker) installed(ctx context.Context, area string, objects []*unstructured.Unstructured, manager string) ([]Installed, error) {
	c, err := dynamic.NewForConfig(a.config)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", a.config.Host, err)
	}
	out := make([]Installed, len(objects))
	err = each(len(objects), func(i int) error {
		o := objects[i]
		out[i] = Installed{Area: area, Kind: o.GetKind(), Name: strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")}
		// All of these kinds have regular plurals.
		gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		var r dynamic.ResourceInterface = c.Resource(gvr)
		if ns := o.GetNamespace(); ns != "" {
			r = c.Resource(gvr).Namespace(ns)
		}
		var err error
		out[i].State, err = compare(ctx, r, o, manager)
		if err != nil {
			return fmt.Errorf("looking at %s %s of %s: %w", out[i].Kind, out[i].Name, a.config.Host, err)
		}
		return nil
	})
	return out, err
}

func compare(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured, manager string) (InstalledState, error) {
	there, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return InstalledUnserved, nil // no answer of the kind's own
	case apierrors.IsNotFound(err):
		return InstalledMissing, nil
	case apierrors.IsForbidden(err):
		return InstalledHidden, nil
	case err != nil:
		return "", err
	}
	applied, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsForbidden(err):
		return InstalledThere, nil
	case err != nil:
		return "", err
	}
	if !equality.Semantic.DeepEqual(content(there), content(applied)) {
		return InstalledDifferent, nil
	}
	return InstalledSame, nil
}

// content is what an object says, without what each write changes.
func content(u *unstructured.Unstructured) map[string]any {
	c := maps.Clone(u.Object)
	delete(c, "metadata")
	delete(c, "status")
	return c
}
