package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LoseTenant has a tenant's cluster be lost for good, with its agent. Another one takes its place, with no object but its nodes.
func (f *Fleet) LoseTenant(ctx context.Context, t *Tenant) error {
	if err := t.Agent.Stop(ctx); err != nil {
		return err
	}
	if err := t.Lose(ctx); err != nil {
		return err
	}
	return t.Pods.anew(ctx, t.Cluster)
}

// RejoinTenant does what docs/api.md has a person do where another cluster replaces a tenant's: the agent's identity is made there,
// the Tenant is bound to it, and its agent starts.
func (f *Fleet) RejoinTenant(ctx context.Context, t *Tenant) error {
	if err := rbac.InstallTenant(ctx, t.RESTConfig()); err != nil {
		return err
	}
	fresh, err := t.ServiceAccountKubeconfig(ctx, v1alpha1.SystemNamespace, agentAccount)
	if err == nil {
		err = os.Rename(fresh, t.own)
	}
	if err != nil {
		return err
	}
	system := &v1.Namespace{}
	if err := t.API.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("reading which cluster %s is now: %w", t.Name(), err)
	}
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: t.Name()}}
	bind := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationClusterUID, system.UID))
	if err := f.Hub.API.Patch(ctx, tenant, bind); err != nil {
		return fmt.Errorf("binding Tenant %s to its new cluster: %w", t.Name(), err)
	}
	return t.Agent.Start()
}

// Backup is a cluster's Deployments and Services of a namespace that stay there, as backup tools keep them: without identity and status, and without
// what a cluster chooses for itself, node ports included.
func (c *Cluster) Backup(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	deployments, services := &appsv1.DeploymentList{}, &v1.ServiceList{}
	err := errors.Join(c.API.List(ctx, deployments, client.InNamespace(namespace)), c.API.List(ctx, services, client.InNamespace(namespace)))
	if err != nil {
		return nil, fmt.Errorf("backing up namespace %s of %s: %w", namespace, c.Name(), err)
	}
	saved := []*unstructured.Unstructured{}
	keep := func(o client.Object) error {
		if o.GetDeletionTimestamp() != nil {
			return nil
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": fields["spec"]}}
		u.SetName(o.GetName())
		u.SetNamespace(o.GetNamespace())
		u.SetLabels(o.GetLabels())
		u.SetAnnotations(o.GetAnnotations())
		u.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		saved = append(saved, u)
		return nil
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		err = errors.Join(err, keep(d))
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Name == "kubernetes" {
			continue // each cluster's own
		}
		s.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Service"))
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.HealthCheckNodePort = "", nil, 0
		for j := range s.Spec.Ports {
			s.Spec.Ports[j].NodePort = 0
		}
		err = errors.Join(err, keep(s))
	}
	return saved, err
}
