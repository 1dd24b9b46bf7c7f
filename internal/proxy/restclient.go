package proxy

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// writeTimeout bounds one request that is no watch. No request is repeated by
// the client library, which waits whole seconds: callers do that in their own time.
const writeTimeout = 5 * time.Second

// Client is the hub as an API server: a Hub and a Source.
type Client struct {
	name               string
	parameters         runtime.ParameterCodec
	core, coordination rest.Interface
	fairlead, cluster  rest.Interface
	watchErrors        func(resource string, err error)
}

// NewClient returns a Client for the proxy of that name. scheme knows
// Kubernetes' kinds and ours. watchErrors is told of each watch that broke.
func NewClient(cfg *rest.Config, scheme *runtime.Scheme, name string, watchErrors func(resource string, err error)) (*Client, error) {
	c := &Client{name: name, parameters: runtime.NewParameterCodec(scheme), watchErrors: watchErrors}
	http, err := rest.HTTPClientFor(mannered(cfg))
	if err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for gv, to := range map[schema.GroupVersion]*rest.Interface{
		corev1.SchemeGroupVersion:         &c.core,
		coordinationv1.SchemeGroupVersion: &c.coordination,
		v1alpha1.GroupVersion:             &c.fairlead,
		clusterv1.GroupVersion:            &c.cluster,
	} {
		one := rest.CopyConfig(cfg)
		one.GroupVersion, one.APIPath, one.NegotiatedSerializer = &gv, "/apis", codecs
		if gv.Group == "" {
			one.APIPath = "/api"
		}
		if *to, err = rest.RESTClientForConfigAndClient(one, http); err != nil {
			return nil, fmt.Errorf("making a client of the hub for %s: %w", gv, err)
		}
	}
	return c, nil
}

func do[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, r *rest.Request) (P, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	out := P(new(T))
	if err := r.MaxRetries(0).Do(ctx).Into(out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) UID(ctx context.Context) (string, error) {
	ns, err := do[corev1.Namespace](ctx, c.core.Get().Resource("namespaces").Name(metav1.NamespaceSystem))
	if err != nil {
		return "", err
	}
	return string(ns.UID), nil
}

func (c *Client) GetProxy(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	return do[v1alpha1.Proxy](ctx, c.fairlead.Get().Resource("proxies").Name(name))
}

func (c *Client) CreateProxy(ctx context.Context, px *v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	return do[v1alpha1.Proxy](ctx, c.fairlead.Post().Resource("proxies").Body(px))
}

func (c *Client) UpdateProxy(ctx context.Context, px *v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	return do[v1alpha1.Proxy](ctx, c.fairlead.Put().Resource("proxies").Name(px.Name).Body(px))
}

func (c *Client) UpdateProxyStatus(ctx context.Context, px *v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	return do[v1alpha1.Proxy](ctx, c.fairlead.Put().Resource("proxies").Name(px.Name).SubResource("status").Body(px))
}

func (c *Client) CountProxies(ctx context.Context) (int, error) {
	list, err := do[v1alpha1.ProxyList](ctx, c.fairlead.Get().Resource("proxies").VersionedParams(&metav1.ListOptions{Limit: 1}, c.parameters))
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}

func (c *Client) ListReports(ctx context.Context, name string) ([]v1alpha1.ProxyReport, error) {
	list, err := do[v1alpha1.ProxyReportList](ctx, c.fairlead.Get().Resource("proxyreports").
		VersionedParams(&metav1.ListOptions{FieldSelector: "metadata.name=" + name}, c.parameters))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *Client) GetReport(ctx context.Context, namespace, name string) (*v1alpha1.ProxyReport, error) {
	return do[v1alpha1.ProxyReport](ctx, c.fairlead.Get().Resource("proxyreports").Namespace(namespace).Name(name))
}

func (c *Client) CreateReport(ctx context.Context, r *v1alpha1.ProxyReport) (*v1alpha1.ProxyReport, error) {
	return do[v1alpha1.ProxyReport](ctx, c.fairlead.Post().Resource("proxyreports").Namespace(r.Namespace).Body(r))
}

func (c *Client) UpdateReport(ctx context.Context, r *v1alpha1.ProxyReport) (*v1alpha1.ProxyReport, error) {
	return do[v1alpha1.ProxyReport](ctx, c.fairlead.Put().Resource("proxyreports").Namespace(r.Namespace).Name(r.Name).Body(r))
}

func (c *Client) DeleteReport(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.fairlead.Delete().Resource("proxyreports").Namespace(namespace).Name(name).MaxRetries(0).Do(ctx).Error()
}

func (c *Client) GetLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	return do[coordinationv1.Lease](ctx, c.coordination.Get().Resource("leases").Namespace(namespace).Name(name))
}

func (c *Client) CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return do[coordinationv1.Lease](ctx, c.coordination.Post().Resource("leases").Namespace(l.Namespace).Body(l))
}

func (c *Client) UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return do[coordinationv1.Lease](ctx, c.coordination.Put().Resource("leases").Namespace(l.Namespace).Name(l.Name).Body(l))
}
