package proxy

import (
	"context"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// Hub is what a proxy writes in the hub, and reads of its own. Errors are the
// API's (apierrors). Objects that it returns belong to the caller; those that
// it takes are not changed. Updates carry the resource version and conflict.
// All methods may be called from several goroutines.
type Hub interface {
	// UID is the hub's name for itself: the UID of its kube-system namespace.
	UID(context.Context) (string, error)

	GetProxy(ctx context.Context, name string) (*v1alpha1.Proxy, error)
	CreateProxy(context.Context, *v1alpha1.Proxy) (*v1alpha1.Proxy, error)
	UpdateProxy(context.Context, *v1alpha1.Proxy) (*v1alpha1.Proxy, error)
	UpdateProxyStatus(context.Context, *v1alpha1.Proxy) (*v1alpha1.Proxy, error)
	// CountProxies is the number of all Proxies.
	CountProxies(context.Context) (int, error)

	// ListReports are the ProxyReports of that name in all namespaces, read consistently.
	ListReports(ctx context.Context, name string) ([]v1alpha1.ProxyReport, error)
	GetReport(ctx context.Context, namespace, name string) (*v1alpha1.ProxyReport, error)
	CreateReport(context.Context, *v1alpha1.ProxyReport) (*v1alpha1.ProxyReport, error)
	UpdateReport(context.Context, *v1alpha1.ProxyReport) (*v1alpha1.ProxyReport, error)
	DeleteReport(ctx context.Context, namespace, name string) error

	GetLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error)
	CreateLease(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)
	UpdateLease(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Source watches the hub.
type Source interface {
	// Watch delivers the five resources to in, and the own Proxy and ProxyReports to own, until ctx ends, reconnecting for ever.
	// It delivers consistent lists only, and each resource's events in the order of their versions. It tells in of each watch
	// that opens, before its events, and ends (Opened, Lost); when in's Era ends it lists everything anew, from scratch.
	Watch(ctx context.Context, in *Inbox, own *Own)
}
