package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notFencedYet is what keeps a fence where it is.
const notFencedYet = "has not said yet that it is fenced"

// testProxyIdentities: an identity of a proxy writes under that proxy's name only, whichever form it has.
func testProxyIdentities(t *testing.T, h *hub) {
	if err := rbac.InstallHub(t.Context(), h.config); err != nil {
		t.Fatal(err)
	}
	ns := "identities"
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: "px-a"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: "fairlead-manager"}},
	} {
		if err := h.typed.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	account := func(name string) client.Client {
		path, err := h.control.ServiceAccountKubeconfig(t.Context(), v1alpha1.ProxyNamespace, name)
		return clientOf(t, path, err)
	}
	user := func(name string) client.Client {
		path, err := h.control.UserKubeconfig(name, v1alpha1.ProxyGroup)
		return clientOf(t, path, err)
	}
	for who, c := range map[string]client.Client{"px-a": account("px-a"), "px-c": user(v1alpha1.ProxyUserPrefix + "px-c")} {
		t.Run(who, func(t *testing.T) {
			// The policy holds once the API server has seen it.
			denied(t, c, proxyOf("px-b"), "is the identity of proxy "+who)
			ctx := t.Context()
			px, report, lease := proxyOf(who), reportOf(ns, who), leaseOf(who)
			for _, o := range []client.Object{px, report, lease} {
				if err := c.Create(ctx, o); err != nil {
					t.Errorf("creating its own %T: %v", o, err)
				}
			}
			px.Status.Boot = "boot"
			if err := c.Status().Update(ctx, px); err != nil {
				t.Errorf("its own status: %v", err)
			}
			others := []client.Object{proxyOf("px-b"), reportOf(ns, "px-b"), leaseOf("px-b")}
			for _, o := range others {
				denied(t, c, o, "is the identity of proxy "+who)
				if err := h.typed.Create(ctx, o); err != nil {
					t.Fatal(err)
				}
				o.SetLabels(map[string]string{"a": "b"})
				if err := c.Update(ctx, o); !apierrors.IsForbidden(err) {
					t.Errorf("updating another's %T: %v", o, err)
				}
			}
			other := proxyOf("px-b")
			if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
				t.Fatal(err)
			}
			other.Status.Boot = "mine"
			if err := c.Status().Update(ctx, other); !apierrors.IsForbidden(err) {
				t.Errorf("another's status: %v", err)
			}
			if err := c.Delete(ctx, reportOf(ns, "px-b")); !apierrors.IsForbidden(err) {
				t.Errorf("deleting another's report: %v", err)
			}
			if err := c.Delete(ctx, report); err != nil {
				t.Errorf("deleting its own report: %v", err)
			}
			if err := h.typed.Get(ctx, client.ObjectKeyFromObject(px), px); err != nil {
				t.Fatal(err)
			}
			px.Spec.Fenced = &v1alpha1.Fence{By: "test", Reason: "test"}
			if err := h.typed.Update(ctx, px); err != nil {
				t.Fatal(err)
			}
			px.Spec.Fenced = nil
			if err := h.typed.Update(ctx, px.DeepCopy()); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), notFencedYet) {
				t.Errorf("taking off a fence that the proxy has not read: %v", err)
			}
			meta.SetStatusCondition(&px.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Fenced"})
			if err := h.typed.Status().Update(ctx, px); err != nil {
				t.Fatal(err)
			}
			px.Spec.Fenced = nil
			if err := c.Update(ctx, px); !apierrors.IsForbidden(err) {
				t.Errorf("taking off its own fence: %v", err)
			}
			px.Spec.Fenced = &v1alpha1.Fence{By: "test", Reason: "test"}
			px.Spec.Zone = "a"
			if err := c.Update(ctx, px); err != nil {
				t.Errorf("its own zone: %v", err)
			}
			// A person is not bound.
			for _, o := range append(others, px, lease) {
				if err := h.typed.Delete(ctx, o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	denied(t, user("mallory"), proxyOf("mallory"), "names no proxy")
	denied(t, account("fairlead-manager"), leaseOf("fairlead-manager"), "can't be called fairlead-manager")
}

func clientOf(t *testing.T, kubeconfig string, err error) client.Client {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// denied waits until a creation is forbidden with such words; until then it is tried dry.
func denied(t *testing.T, c client.Client, o client.Object, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := testkit.Poll(ctx, 50*time.Millisecond, fmt.Sprintf("%T %s to be refused", o, o.GetName()), func(ctx context.Context) error {
		err := c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func proxyOf(name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: "edge"}}
}

func reportOf(namespace, name string) *v1alpha1.ProxyReport {
	return &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Boot: "boot"}
}

func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: name}}
}
