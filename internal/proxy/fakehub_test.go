package proxy

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// fakeHub keeps what proxies write, with versions and conflicts like an API
// server. It fails at a set rate, before or after the write took effect.
type fakeHub struct {
	mu      sync.Mutex
	uid     string
	version int
	proxies map[string]*v1alpha1.Proxy
	reports map[Key]*v1alpha1.ProxyReport
	leases  map[Key]*coordinationv1.Lease
	failing float64
	away    bool
	// nameless: nobody may read its kube-system namespace; readOnly: nobody may update a Proxy.
	nameless bool
	readOnly bool
	// bare: it serves no Proxies, as one where nothing is installed.
	bare bool
	// slow is how long it takes to answer who asks for a Proxy, which is connected at once.
	slow   time.Duration
	forbid map[string]bool
	// ending are the namespaces that are being deleted, ended counts the writes that they refused.
	ending map[string]bool
	ended  int
	// trouble is how writes of a namespace's report fail, troubled how many did; hung: no request is answered.
	trouble  map[string]string
	troubled int
	hung     bool
	statuses int
	journal  *journal
	own      *Own
	// others are further processes of that name.
	others []*Own
	// dying: it takes the next write of status, its watches say so, and it goes away without an answer.
	dying bool
	// onUID is called whenever its UID is read.
	onUID func()
	// onStatus is called once, when a write of status has taken effect and is not answered yet.
	onStatus func()
	// onReport is called before each write of a report takes effect.
	onReport func()
}

func newFakeHub(j *journal) *fakeHub {
	return &fakeHub{uid: "hub-uid", version: 1000, proxies: map[string]*v1alpha1.Proxy{}, reports: map[Key]*v1alpha1.ProxyReport{}, leases: map[Key]*coordinationv1.Lease{}, forbid: map[string]bool{}, ending: map[string]bool{}, trouble: map[string]string{}, journal: j}
}

func (h *fakeHub) next() string { h.version++; return strconv.Itoa(h.version) }

func (h *fakeHub) fail(rate float64) { h.mu.Lock(); defer h.mu.Unlock(); h.failing = rate }
func (h *fakeHub) leave()            { h.mu.Lock(); defer h.mu.Unlock(); h.away = true }
func (h *fakeHub) comeBack()         { h.mu.Lock(); defer h.mu.Unlock(); h.away = false }

// call runs f as a request.
func (h *fakeHub) call(f func() error) error {
	h.mu.Lock()
	if h.hung {
		h.mu.Unlock()
		time.Sleep(writeTimeout)
		return context.DeadlineExceeded
	}
	defer h.mu.Unlock()
	if h.away {
		return errors.New("connection refused")
	}
	luck := rand.Float64()
	if luck < h.failing/2 {
		return errors.New("connection reset before the request")
	}
	err := f()
	if err == nil && luck < h.failing {
		return errors.New("connection reset before the answer")
	}
	return err
}

var anything = schema.GroupResource{Resource: "things"}

// ofProxies is by what a hub says that it lacks a Proxy.
var ofProxies = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "proxies"}

func (h *fakeHub) UID(context.Context) (out string, err error) {
	h.mu.Lock()
	read := h.onUID
	h.mu.Unlock()
	if read != nil {
		read()
	}
	return out, h.call(func() error {
		if h.nameless {
			return apierrors.NewForbidden(anything, "kube-system", errors.New("no"))
		}
		out = h.uid
		return nil
	})
}

// fakeCopy is what a fakeHub held at one moment.
type fakeCopy struct {
	version int
	proxies map[string]*v1alpha1.Proxy
	reports map[Key]*v1alpha1.ProxyReport
	leases  map[Key]*coordinationv1.Lease
}

func (h *fakeHub) copy() fakeCopy {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fakeCopy{h.version, maps.Clone(h.proxies), maps.Clone(h.reports), maps.Clone(h.leases)}
}

// restore goes back to a copy.
func (h *fakeHub) restore(c fakeCopy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version, h.proxies, h.reports, h.leases = c.version, maps.Clone(c.proxies), maps.Clone(c.reports), maps.Clone(c.leases)
}

// replace makes it another, empty hub.
func (h *fakeHub) replace(uid string) {
	h.restore(fakeCopy{1, map[string]*v1alpha1.Proxy{}, map[Key]*v1alpha1.ProxyReport{}, map[Key]*coordinationv1.Lease{}})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uid = uid
}

func (h *fakeHub) GetProxy(ctx context.Context, name string) (out *v1alpha1.Proxy, err error) {
	h.mu.Lock()
	slow, away := h.slow, h.away
	h.mu.Unlock()
	if t := httptrace.ContextClientTrace(ctx); t != nil && !away {
		t.GotConn(httptrace.GotConnInfo{})
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(slow):
	}
	return out, h.call(func() error {
		if h.bare {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", ofProxies, name, "404 page not found", 0, true)
		}
		px := h.proxies[name]
		if px == nil {
			return apierrors.NewNotFound(ofProxies, name)
		}
		out = px.DeepCopy()
		return nil
	})
}

// each tells every process that watches its own objects.
func (h *fakeHub) each(f func(*Own)) {
	f(h.own)
	for _, o := range h.others {
		f(o)
	}
}

// put writes a Proxy; the watch says so at once.
func (h *fakeHub) put(px *v1alpha1.Proxy) *v1alpha1.Proxy {
	px = px.DeepCopy()
	px.ResourceVersion = h.next()
	h.proxies[px.Name] = px
	h.each(func(o *Own) { o.Set(px.DeepCopy(), px.ResourceVersion) })
	return px.DeepCopy()
}

func (h *fakeHub) CreateProxy(_ context.Context, px *v1alpha1.Proxy) (out *v1alpha1.Proxy, err error) {
	return out, h.call(func() error {
		if h.proxies[px.Name] != nil {
			return apierrors.NewAlreadyExists(anything, px.Name)
		}
		px = px.DeepCopy()
		px.UID = types.UID("uid-" + h.next())
		out = h.put(px)
		return nil
	})
}

func (h *fakeHub) update(px *v1alpha1.Proxy, change func(*v1alpha1.Proxy)) (out *v1alpha1.Proxy, err error) {
	return out, h.call(func() error {
		old := h.proxies[px.Name]
		if old == nil {
			return apierrors.NewNotFound(ofProxies, px.Name)
		}
		if h.readOnly {
			return apierrors.NewForbidden(anything, px.Name, errors.New("no"))
		}
		if old.ResourceVersion != px.ResourceVersion {
			return apierrors.NewConflict(anything, px.Name, errors.New("old version"))
		}
		next := old.DeepCopy()
		change(next)
		out = h.put(next)
		return nil
	})
}

func (h *fakeHub) UpdateProxy(_ context.Context, px *v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	return h.update(px, func(o *v1alpha1.Proxy) { o.Spec = px.DeepCopy().Spec })
}

func (h *fakeHub) UpdateProxyStatus(_ context.Context, px *v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	lost := false
	out, err := h.update(px, func(o *v1alpha1.Proxy) {
		o.Status = px.DeepCopy().Status
		h.statuses++
		h.journal.add("status %s", px.Status.Through.LoadBalancers)
		if h.dying {
			lost, h.away, h.dying = true, true, false
		}
	})
	h.mu.Lock()
	slow := h.onStatus
	h.onStatus = nil
	h.mu.Unlock()
	if slow != nil {
		slow()
	}
	if lost {
		return nil, errors.New("connection reset before the answer")
	}
	return out, err
}

func (h *fakeHub) CountProxies(context.Context) (n int, err error) {
	return n, h.call(func() error { n = len(h.proxies); return nil })
}

func (h *fakeHub) ListReports(_ context.Context, name string) (out []v1alpha1.ProxyReport, err error) {
	return out, h.call(func() error {
		for k, r := range h.reports {
			if k.Name == name {
				out = append(out, *r.DeepCopy())
			}
		}
		return nil
	})
}

func (h *fakeHub) GetReport(_ context.Context, namespace, name string) (out *v1alpha1.ProxyReport, err error) {
	return out, h.call(func() error {
		r := h.reports[Key{namespace, name}]
		if r == nil {
			return apierrors.NewNotFound(anything, name)
		}
		out = r.DeepCopy()
		return nil
	})
}

// putReport writes a report; the watch says so at once.
func (h *fakeHub) putReport(r *v1alpha1.ProxyReport) *v1alpha1.ProxyReport {
	r = r.DeepCopy()
	r.ResourceVersion = h.next()
	h.reports[keyOf(r)] = r
	h.each(func(o *Own) { o.SetReport(r.DeepCopy()) })
	return r.DeepCopy()
}

// dropReport deletes one likewise.
func (h *fakeHub) dropReport(k Key) {
	delete(h.reports, k)
	version := h.next()
	h.each(func(o *Own) { o.DeleteReport(k.Namespace, version) })
}

// fails is what becomes of a write of a namespace's report, if it fails.
func (h *fakeHub) fails(namespace string) error {
	h.mu.Lock()
	how := h.trouble[namespace]
	if how != "" {
		h.troubled++
	}
	h.mu.Unlock()
	switch how {
	case "unavailable":
		return apierrors.NewServiceUnavailable("no endpoints for the webhook")
	case "timeout":
		return apierrors.NewTimeoutError("the webhook does not answer", 1)
	case "error":
		return apierrors.NewInternalError(errors.New("the webhook fails"))
	case "broken":
		return errors.New("connection reset by peer")
	case "hang":
		time.Sleep(writeTimeout)
		return context.DeadlineExceeded
	}
	return nil
}

func (h *fakeHub) CreateReport(_ context.Context, r *v1alpha1.ProxyReport) (out *v1alpha1.ProxyReport, err error) {
	if err := h.fails(r.Namespace); err != nil {
		return nil, err
	}
	return out, h.call(func() error {
		k := keyOf(r)
		switch {
		case h.ending[r.Namespace]:
			h.ended++
			e := apierrors.NewForbidden(anything, r.Name, errors.New("namespace is being terminated"))
			e.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return e
		case h.forbid[r.Namespace]:
			return apierrors.NewForbidden(anything, r.Name, errors.New("no"))
		case h.reports[k] != nil:
			return apierrors.NewAlreadyExists(anything, r.Name)
		}
		out = h.putReport(r)
		h.journal.add("report %s", r.Namespace)
		if h.onReport != nil {
			h.onReport()
		}
		return nil
	})
}

func (h *fakeHub) UpdateReport(_ context.Context, r *v1alpha1.ProxyReport) (out *v1alpha1.ProxyReport, err error) {
	return out, h.call(func() error {
		old := h.reports[keyOf(r)]
		switch {
		case h.forbid[r.Namespace]:
			return apierrors.NewForbidden(anything, r.Name, errors.New("no"))
		case old == nil:
			return apierrors.NewNotFound(anything, r.Name)
		case old.ResourceVersion != r.ResourceVersion:
			return apierrors.NewConflict(anything, r.Name, errors.New("old version"))
		}
		out = h.putReport(r)
		h.journal.add("report %s", r.Namespace)
		if h.onReport != nil {
			h.onReport()
		}
		return nil
	})
}

func (h *fakeHub) DeleteReport(_ context.Context, namespace, name string) error {
	return h.call(func() error {
		if h.reports[Key{namespace, name}] == nil {
			return apierrors.NewNotFound(anything, name)
		}
		h.dropReport(Key{namespace, name})
		h.journal.add("delete %s", namespace)
		return nil
	})
}

func (h *fakeHub) GetLease(_ context.Context, namespace, name string) (out *coordinationv1.Lease, err error) {
	return out, h.call(func() error {
		l := h.leases[Key{namespace, name}]
		if l == nil {
			return apierrors.NewNotFound(anything, name)
		}
		out = l.DeepCopy()
		return nil
	})
}

func (h *fakeHub) CreateLease(_ context.Context, l *coordinationv1.Lease) (out *coordinationv1.Lease, err error) {
	return out, h.call(func() error {
		if h.leases[keyOf(l)] != nil {
			return apierrors.NewAlreadyExists(anything, l.Name)
		}
		out = l.DeepCopy()
		out.ResourceVersion = h.next()
		h.leases[keyOf(l)] = out.DeepCopy()
		return nil
	})
}

func (h *fakeHub) UpdateLease(_ context.Context, l *coordinationv1.Lease) (out *coordinationv1.Lease, err error) {
	return out, h.call(func() error {
		old := h.leases[keyOf(l)]
		if old == nil || old.ResourceVersion != l.ResourceVersion {
			return apierrors.NewConflict(anything, l.Name, errors.New("old version"))
		}
		out = l.DeepCopy()
		out.ResourceVersion = h.next()
		h.leases[keyOf(l)] = out.DeepCopy()
		return nil
	})
}
