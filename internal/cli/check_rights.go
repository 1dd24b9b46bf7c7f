package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
