package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// need is what an identity must be allowed.
type need struct {
	rights Rights
	user   string
	groups []string
	asks   []authorizationv1.ResourceAttributes
}

// needsOf reads what is bound in objects to whom: those are the rights that each process needs.
func needsOf(area string, objects []*unstructured.Unstructured) []need {
	byIdentity := map[string]*need{}
	var order []string
	for _, b := range objects {
		if b.GetKind() != "ClusterRoleBinding" && b.GetKind() != "RoleBinding" {
			continue
		}
		kind, _, _ := unstructured.NestedString(b.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(b.Object, "subjects")
		for _, s := range subjects {
			m, _ := s.(map[string]any)
			text := func(k string) string { t, _ := m[k].(string); return t }
			n := need{rights: Rights{Area: area, Fix: installedFix(area)}}
			switch text("kind") {
			case "ServiceAccount":
				n.rights.Identity = "ServiceAccount " + text("namespace") + "/" + text("name")
				n.user, n.groups = serviceAccount(text("namespace"), text("name"))
			case "Group":
				n.rights.Identity, n.user, n.groups = "group "+text("name"), "fairlead:check", []string{text("name")}
			default:
				continue
			}
			x := byIdentity[n.rights.Identity]
			if x == nil {
				x = &n
				byIdentity[n.rights.Identity] = x
				order = append(order, n.rights.Identity)
			}
			x.asks = append(x.asks, asksOf(objects, kind, name, b.GetNamespace())...)
		}
	}
	out := make([]need, len(order))
	for i, identity := range order {
		out[i] = *byIdentity[identity]
	}
	return out
}

// agentNeeds are those of a Tenant's agent in the hub, to whose role the manager binds it.
func agentNeeds(objects []*unstructured.Unstructured, t *v1alpha1.Tenant) need {
	namespace := t.NamespaceName()
	n := need{rights: Rights{Area: areaRoles, Identity: "ServiceAccount " + namespace + "/" + v1alpha1.AgentServiceAccount,
		Fix: "The manager binds it with the Tenant: kubectl describe tenant " + t.Name + " says what keeps it from that."}}
	n.user, n.groups = serviceAccount(namespace, v1alpha1.AgentServiceAccount)
	n.asks = asksOf(objects, "ClusterRole", agentRole, namespace)
	return n
}

// serviceAccount is the user and the groups of one.
func serviceAccount(namespace, name string) (string, []string) {
	return "system:serviceaccount:" + namespace + ":" + name, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// asksOf flattens the rules of a role among objects, as bound in a namespace; empty: everywhere.
func asksOf(objects []*unstructured.Unstructured, kind, name, namespace string) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, o := range objects {
		if o.GetKind() != kind || o.GetName() != name || kind == "Role" && o.GetNamespace() != namespace {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, r := range rules {
			m, _ := r.(map[string]any)
			names := texts(m["resourceNames"])
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range texts(m["apiGroups"]) {
				for _, resource := range texts(m["resources"]) {
					resource, sub, _ := strings.Cut(resource, "/")
					for _, verb := range texts(m["verbs"]) {
						for _, n := range names {
							out = append(out, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: n})
						}
					}
				}
			}
		}
	}
	return out
}

func texts(v any) []string {
	all, _ := v.([]any)
	var out []string
	for _, x := range all {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// rights asks the API server what identities may do.
func (a *asker) rights(ctx context.Context, needs []need) ([]Rights, error) {
	type question struct{ need, ask int }
	var questions []question
	for i, n := range needs {
		for j := range n.asks {
			questions = append(questions, question{i, j})
		}
	}
	refused := make([]string, len(questions))
	hidden := make([]bool, len(questions))
	err := each(len(questions), func(i int) error {
		n := &needs[questions[i].need]
		ask := n.asks[questions[i].ask]
		r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: n.user, Groups: n.groups, ResourceAttributes: &ask}}
		switch err := a.client.Create(ctx, r); {
		case apierrors.IsForbidden(err):
			hidden[i] = true
		case err != nil:
			return fmt.Errorf("asking %s what %s may do: %w", a.config.Host, n.rights.Identity, err)
		case !r.Status.Allowed:
			refused[i] = askText(&ask)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]Rights, len(needs))
	for i, n := range needs {
		out[i] = n.rights
		out[i].Needs = len(n.asks)
	}
	for i, q := range questions {
		x := &out[q.need]
		x.Hidden = x.Hidden || hidden[i]
		if refused[i] != "" && !slices.Contains(x.Lacks, refused[i]) {
			x.Lacks = append(x.Lacks, refused[i])
		}
	}
	return out, nil
}

func askText(a *authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in " + a.Namespace
	}
	return text
}
