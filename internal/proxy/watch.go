package proxy

import (
	"context"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// reconnect is the pause between attempts to reach the hub: doubled up to one
// second, then up to twice that by chance, so that proxies don't come back in step.
func reconnect() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 6, Cap: time.Second}
}

// Watch delivers the five resources to in, and the own Proxy and ProxyReports
// to own, until ctx ends. An API server finds the watchers of one name by that
// name: the reports of others cost neither side anything. When the hub is
// another one, everything is listed anew.
func (c *Client) Watch(ctx context.Context, in *Inbox, own *Own) {
	var all sync.WaitGroup
	each := func(resource, fields string, of runtime.Object, into func(era int) cache.ReflectorStore, opened, lost func()) {
		lw := &listWatch{client: c.fairlead, parameters: c.parameters, resource: resource, fields: fields, list: listOf(of), opened: opened, lost: lost}
		if resource == LoadBalancers.String() {
			lw.client = c.cluster
		}
		all.Go(func() {
			for ctx.Err() == nil {
				era, cancel := context.WithCancel(ctx)
				n, ends := in.Era()
				go func() {
					select {
					case <-ends:
						cancel()
					case <-era.Done():
					}
				}()
				c.reflect(era, lw, of, into(n))
				cancel()
			}
		})
	}
	for r := range resources {
		each(r.String(), "", r.newObject(), func(era int) cache.ReflectorStore { return store{in, r, era} }, func() { in.Opened(r) }, func() { in.Lost(r) })
	}
	named := "metadata.name=" + c.name
	each("proxies", named, &v1alpha1.Proxy{}, func(era int) cache.ReflectorStore { return ownStore{own, era} }, func() { in.Opened(OwnProxy) }, func() { in.Lost(OwnProxy) })
	each("proxyreports", named, &v1alpha1.ProxyReport{}, func(era int) cache.ReflectorStore { return reportStore{own, era} }, func() {}, func() {})
	all.Wait()
}

// reflect lists and watches one resource until ctx ends.
func (c *Client) reflect(ctx context.Context, lw *listWatch, of runtime.Object, into cache.ReflectorStore) {
	resource := lw.resource
	r := cache.NewReflectorWithOptions(lw, of, into, cache.ReflectorOptions{Name: resource, Backoff: reconnect()})
	pause := reconnect().DelayWithReset(clock.RealClock{}, 10*time.Second)
	for ctx.Err() == nil {
		if err := r.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			c.watchErrors(resource, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause()):
		}
	}
}

func listOf(o runtime.Object) func() runtime.Object {
	switch o.(type) {
	case *clusterv1.LoadBalancer:
		return func() runtime.Object { return &clusterv1.LoadBalancerList{} }
	case *v1alpha1.TargetGroup:
		return func() runtime.Object { return &v1alpha1.TargetGroupList{} }
	case *v1alpha1.Address:
		return func() runtime.Object { return &v1alpha1.AddressList{} }
	case *v1alpha1.LoadBalancerClass:
		return func() runtime.Object { return &v1alpha1.LoadBalancerClassList{} }
	case *v1alpha1.Tenant:
		return func() runtime.Object { return &v1alpha1.TenantList{} }
	case *v1alpha1.ProxyReport:
		return func() runtime.Object { return &v1alpha1.ProxyReportList{} }
	}
	return func() runtime.Object { return &v1alpha1.ProxyList{} }
}

// listWatch is a cache.ListerWatcherWithContext whose lists are consistent:
// where the reflector falls back from streaming to a list of version "0",
// which may be any old state, the newest is asked for instead.
type listWatch struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	resource   string
	fields     string
	list       func() runtime.Object
	// opened is called before the first event of each watch, lost when it has ended.
	opened, lost func()
}

func (l *listWatch) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = l.fields
	return l.client.Get().Resource(l.resource).VersionedParams(&o, l.parameters).MaxRetries(0)
}

func (l *listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	out := l.list()
	return out, l.request(o).Do(ctx).Into(out)
}

func (l *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	w, err := l.request(o).Watch(ctx)
	if err != nil {
		return nil, err
	}
	l.opened()
	return &opened{w, l.lost, sync.Once{}}, nil
}

// opened is a watch that says when it ends: who reads it stops it then.
type opened struct {
	watch.Interface
	lost func()
	once sync.Once
}

func (w *opened) Stop() {
	w.Interface.Stop()
	w.once.Do(w.lost)
}

func (l *listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l *listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}
