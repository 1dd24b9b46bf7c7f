package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hub reads the hub's objects. It may be used by one goroutine at a time.
type Hub struct {
	client client.Client
	config *rest.Config
	clock  *clock
}

// NewHub returns a reader of the API server that cfg names.
func NewHub(cfg *rest.Config, scheme *runtime.Scheme) (*Hub, error) {
	h := &Hub{clock: &clock{}}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &dated{rt, h.clock} })
	h.config = cfg
	var err error
	if h.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	return h, nil
}

// clock is the hub's: what a person's machine thinks of the time says nothing of Leases.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

type dated struct {
	next  http.RoundTripper
	clock *clock
}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(r)
	if err == nil {
		if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			// The header has whole seconds: within one, our own clock is as good.
			if ahead := time.Until(at); ahead > time.Second || ahead < -2*time.Second {
				d.clock.ahead.Store(int64(ahead))
			}
		}
	}
	return resp, err
}

// list reads all objects of a kind into into, in pages. What may not be read is noted as hidden.
func list[T any, L client.ObjectList](ctx context.Context, h *Hub, o *Objects, resource string, page L, items func(L) []T, opts ...client.ListOption) ([]*T, error) {
	var out []*T
	opts = append(opts, client.Limit(1000))
	for token := ""; ; {
		err := h.client.List(ctx, page, append(opts, client.Continue(token))...)
		switch {
		case apierrors.IsForbidden(err):
			if !slices.Contains(o.Hidden, resource) {
				o.Hidden = append(o.Hidden, resource)
			}
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", resource, err)
		}
		// Each page decodes into a new slice, so that pointers into the last one stay good.
		got := items(page)
		for i := range got {
			out = append(out, &got[i])
		}
		if token = page.GetContinue(); token == "" {
			return out, nil
		}
		page = newOf(page)
	}
}

func newOf[L client.ObjectList](l L) L { return l.DeepCopyObject().(L) }

// fleet reads what all questions need: proxies first, their Leases, then reports,
// so that a report is at least as new as the Proxy that speaks of it.
func (h *Hub) fleet(ctx context.Context, o *Objects, reports ...client.ListOption) error {
	var err error
	if o.Proxies, err = list(ctx, h, o, "proxies", &v1alpha1.ProxyList{}, func(l *v1alpha1.ProxyList) []v1alpha1.Proxy { return l.Items }); err != nil {
		return err
	}
	if o.Leases, err = list(ctx, h, o, "leases", &coordinationv1.LeaseList{}, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items },
		client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return err
	}
	if o.Reports, err = list(ctx, h, o, "proxyreports", &v1alpha1.ProxyReportList{}, func(l *v1alpha1.ProxyReportList) []v1alpha1.ProxyReport { return l.Items }, reports...); err != nil {
		return err
	}
	if o.Classes, err = list(ctx, h, o, "loadbalancerclasses", &v1alpha1.LoadBalancerClassList{}, func(l *v1alpha1.LoadBalancerClassList) []v1alpha1.LoadBalancerClass { return l.Items }); err != nil {
		return err
	}
	if o.Pools, err = list(ctx, h, o, "addresspools", &v1alpha1.AddressPoolList{}, func(l *v1alpha1.AddressPoolList) []v1alpha1.AddressPool { return l.Items }); err != nil {
		return err
	}
	if o.Addresses, err = list(ctx, h, o, "addresses", &v1alpha1.AddressList{}, func(l *v1alpha1.AddressList) []v1alpha1.Address { return l.Items }); err != nil {
		return err
	}
	o.Tenants, err = list(ctx, h, o, "tenants", &v1alpha1.TenantList{}, func(l *v1alpha1.TenantList) []v1alpha1.Tenant { return l.Items })
	return err
}

// Everything reads what Summarize needs.
func (h *Hub) Everything(ctx context.Context) (*Objects, error) {
	o := &Objects{}
	if err := h.fleet(ctx, o); err != nil {
		return nil, err
	}
	if err := h.namespaced(ctx, o); err != nil {
		return nil, err
	}
	kube := &corev1.Namespace{}
	switch err := h.client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, kube); {
	case err == nil:
		o.HubUID = string(kube.UID)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading the hub's namespace %s: %w", metav1.NamespaceSystem, err)
	}
	o.Now = h.clock.now()
	return o, nil
}

// namespaced reads LoadBalancers and TargetGroups.
func (h *Hub) namespaced(ctx context.Context, o *Objects, opts ...client.ListOption) error {
	// Without these there is nothing to tell.
	var err error
	if o.LoadBalancers, err = list(ctx, h, o, "loadbalancers", &clusterv1.LoadBalancerList{}, func(l *clusterv1.LoadBalancerList) []clusterv1.LoadBalancer { return l.Items }, opts...); err != nil {
		return err
	}
	if o.hidden("loadbalancers") {
		return errors.New("you may not list LoadBalancers there: use the hub operator's kubeconfig, or the tenant's with --hub-namespace")
	}
	o.TargetGroups, err = list(ctx, h, o, "targetgroups", &v1alpha1.TargetGroupList{}, func(l *v1alpha1.TargetGroupList) []v1alpha1.TargetGroup { return l.Items }, opts...)
	return err
}

// Namespace reads what an explanation of something in one namespace of the hub needs.
func (h *Hub) Namespace(ctx context.Context, namespace string) (*Objects, error) {
	o := &Objects{}
	// Reports of all namespaces where they may be read: they say who holds up an address.
	if err := h.fleet(ctx, o); err != nil {
		return nil, err
	}
	if o.hidden("proxyreports") {
		var err error
		o.Hidden = slices.DeleteFunc(o.Hidden, func(r string) bool { return r == "proxyreports" })
		if o.Reports, err = list(ctx, h, o, "proxyreports", &v1alpha1.ProxyReportList{}, func(l *v1alpha1.ProxyReportList) []v1alpha1.ProxyReport { return l.Items }, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	if err := h.namespaced(ctx, o, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	switch err := h.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: v1alpha1.AgentLease}, lease); {
	case err == nil:
		o.Leases = append(o.Leases, lease)
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading the agent's Lease: %w", err)
	}
	o.Now = h.clock.now()
	return o, nil
}

// TenantNamespace returns the hub's namespace of a Tenant.
func (h *Hub) TenantNamespace(ctx context.Context, name string) (string, error) {
	t := &v1alpha1.Tenant{}
	switch err := h.client.Get(ctx, types.NamespacedName{Name: name}, t); {
	case err == nil:
		return t.NamespaceName(), nil
	case apierrors.IsForbidden(err):
		// A tenant's own identity may not read Tenants; the name is the default.
		return name, nil
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no Tenant %s: look for its name with kubectl get tenants", name)
	default:
		return "", fmt.Errorf("reading Tenant %s: %w", name, err)
	}
}
