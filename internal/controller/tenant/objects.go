package tenant

import (
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Finalizer holds a Tenant until what it has is released.
	Finalizer = "fairlead.dev/tenant"
	// annotationMade marks a namespace that was made for its Tenant, and goes with it.
	annotationMade = "fairlead.dev/made-by"
	// AgentRole is the ClusterRole, installed with the manager, that an agent has in its Tenant's namespace.
	AgentRole = "fairlead-agent"
)

func labelsOf(t *v1alpha1.Tenant) map[string]string {
	return map[string]string{v1alpha1.LabelTenant: t.Name}
}

func namespaceOf(t *v1alpha1.Tenant) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: t.NamespaceName(), Labels: labelsOf(t), Annotations: map[string]string{annotationMade: "fairlead-manager"},
	}}
}

// clusterName is of the Tenant's cluster-scoped objects.
func clusterName(t *v1alpha1.Tenant) string { return "fairlead-tenant-" + t.Name }

func serviceAccount(t *v1alpha1.Tenant) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.NamespaceName(), Name: v1alpha1.AgentServiceAccount, Labels: labelsOf(t),
	}}
}

func subjects(t *v1alpha1.Tenant) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.NamespaceName(), Name: v1alpha1.AgentServiceAccount}}
}

func roleBinding(t *v1alpha1.Tenant) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.NamespaceName(), Name: v1alpha1.AgentServiceAccount, Labels: labelsOf(t)},
		Subjects:   subjects(t),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: AgentRole},
	}
}

// clusterRole lets the agent read its own Tenant, the classes, which one is the default, and who the hub is.
func clusterRole(t *v1alpha1.Tenant) *rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName(t), Labels: labelsOf(t)},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"tenants"}, ResourceNames: []string{t.Name}, Verbs: read},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"loadbalancerclasses"}, Verbs: read},
			{APIGroups: []string{corev1.GroupName}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}},
		},
	}
}

func clusterRoleBinding(t *v1alpha1.Tenant) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName(t), Labels: labelsOf(t)},
		Subjects:   subjects(t),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterName(t)},
	}
}
