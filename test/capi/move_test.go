package capi_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// movedKinds are those that clusterctl moves, owners first.
var movedKinds = []schema.GroupVersionKind{
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "LoadBalancer"},
	{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "ClusterEndpoint"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevCluster"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevMachineTemplate"},
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevMachine"},
	{Version: "v1", Kind: "Secret"},
}

// moved has a Cluster and all that belongs to it move to another hub as clusterctl does it, and the proxy follow. No Cluster API runs there: what
// its controllers find out again of Machines is written for them.
func (c *cluster) moved(w world) {
	c.t.Helper()
	c.whole()
	v := c.visited()
	v.more(quiet)
	address := c.endpoint.Addr().String()
	v.watchedMember() // which is to stay
	to := startHub(c.t, "other", c.hub.state)
	to.installKinds(filepath.Join(root(c.t), "bin", "capi", "crd"))
	to.startFairlead("127.0.0.1:9410")
	to.operators(c.namespace, fmt.Sprintf("127.79.%d.0/24", w.number), w.plane)
	c.cloud.leave() // the Machines stay as they are

	c.pause(c.hub, true)
	objects := c.objects()
	news := map[types.UID]types.UID{}
	for _, o := range objects {
		to.copyOf(o, news)
	}
	for _, o := range slices.Backward(objects) {
		c.hub.deleteForMove(o)
	}
	for _, o := range objects {
		if o.GetKind() == "Machine" {
			to.writeStatus(o)
		}
	}
	c.pause(to, false)
	there := *c
	there.hub = to
	there.loadBalancer = &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.loadBalancer.Name}}
	wait(c.t, to.api, there.loadBalancer, soon, "the address that it had, and its Machines", func(l *clusterv1.LoadBalancer) error {
		targets, err := there.targets(c.t.Context())
		if err != nil {
			return err
		}
		if s := l.Status; len(s.Addresses) != 1 || s.Addresses[0].Value != address || len(targets) != 3 {
			return fmt.Errorf("its targets are %v, its status %+v", targets, s)
		}
		return nil
	})
	v.more(quiet)

	kubetest.StartProcess(c.t, to.proxy(w.plane))
	v.more(quiet)
	there.has(3)
	v.more(quiet)
	v.leave()
	c.t.Logf("%s, moved: %s", c.namespace, v)
	if v.failed() > 0 {
		c.t.Error("requests were lost")
	}
	if n := v.ended("cut"); n > 0 {
		c.t.Errorf("%d watches were cut", n)
	}
	entry := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: address}}
	wait(c.t, c.hub.api, entry, soon, "moved", func(a *v1alpha1.Address) error {
		if a.Spec.Phase != v1alpha1.AddressMoved {
			return fmt.Errorf("it is %s", a.Spec.Phase)
		}
		return nil
	})
}

// pause has controllers leave the Cluster alone, or not any more.
func (c *cluster) pause(h *hub, paused bool) {
	c.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused))
	if err := h.api.Patch(c.t.Context(), c.object(), patch); err != nil {
		c.t.Fatal(err)
	}
}

// objects are all that move, owners first.
func (c *cluster) objects() (all []*unstructured.Unstructured) {
	c.t.Helper()
	for _, kind := range movedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		of := []client.ListOption{client.InNamespace(c.namespace)}
		if kind.Kind == "Secret" {
			of = append(of, client.HasLabels{capiv1.ClusterNameLabel})
		}
		if err := c.hub.api.List(c.t.Context(), list, of...); err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}

// copyOf makes an object anew, without its status, and has it be owned by the copies of its owners, which news knows by their UIDs of before.
func (h *hub) copyOf(o *unstructured.Unstructured, news map[types.UID]types.UID) {
	h.t.Helper()
	n := o.DeepCopy()
	n.SetResourceVersion("")
	n.SetUID("")
	n.SetManagedFields(nil)
	unstructured.RemoveNestedField(n.Object, "status")
	owners := []metav1.OwnerReference{}
	for _, owner := range o.GetOwnerReferences() {
		if uid, known := news[owner.UID]; known {
			owner.UID = uid
			owners = append(owners, owner)
		}
	}
	n.SetOwnerReferences(owners)
	if err := h.api.Create(h.t.Context(), n); err != nil {
		h.t.Fatalf("copying %s: %v", nameOf(o), err)
	}
	news[o.GetUID()] = n.GetUID()
}

// deleteForMove deletes an object as clusterctl does: with one annotation in place of all, and at last without its finalizers.
func (h *hub) deleteForMove(o *unstructured.Unstructured) {
	h.t.Helper()
	ctx := h.t.Context()
	annotate := []byte(`[{"op":"add","path":"/metadata/annotations","value":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}]`)
	err := h.api.Patch(ctx, o, client.RawPatch(types.JSONPatchType, annotate))
	if err == nil {
		err = h.api.Delete(ctx, o)
	}
	if err == nil && len(o.GetFinalizers()) > 0 {
		err = h.api.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`)))
	}
	if client.IgnoreNotFound(err) != nil {
		h.t.Fatalf("deleting %s: %v", nameOf(o), err)
	}
}

// writeStatus gives the copy of an object the status that the object had.
func (h *hub) writeStatus(o *unstructured.Unstructured) {
	h.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": o.Object["status"]})
	if err != nil {
		h.t.Fatal(err)
	}
	n := &unstructured.Unstructured{}
	n.SetGroupVersionKind(o.GroupVersionKind())
	n.SetNamespace(o.GetNamespace())
	n.SetName(o.GetName())
	if err := h.api.Status().Patch(h.t.Context(), n, client.RawPatch(types.MergePatchType, patch)); err != nil {
		h.t.Fatalf("the status of %s: %v", nameOf(o), err)
	}
}
