package simulation

import (
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proxy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var fromKind = map[kind]proxy.Resource{
	loadBalancers: proxy.LoadBalancers, targetGroups: proxy.TargetGroups, addresses: proxy.Addresses, classes: proxy.Classes, tenants: proxy.Tenants,
	proxies: proxy.OwnProxy,
}

func (h *host) listed(k kind, all []client.Object, version string) {
	switch k {
	case reports:
		h.reread = true
		return
	case proxies:
		h.opened(k)
		h.own = nil
		for _, o := range all {
			h.hearOwn(o)
		}
		return
	}
	objects := make([]proxy.Object, 0, len(all))
	for _, o := range all {
		objects = append(objects, deepCopy(o))
	}
	h.view.Inbox.Replace(fromKind[k], objects, version)
}

func (h *host) hearOwn(o client.Object) {
	if o.GetName() == h.name {
		h.own = o.(*v1alpha1.Proxy)
		h.meet(h.own)
	}
}

func (h *host) happened(k kind, e event) {
	switch {
	case k == reports:
		// What others made of its reports.
		if have := h.known[e.object.GetNamespace()]; e.object.GetName() == h.name && have != nil && e.version > versionOf(have) {
			h.reread = true
		}
		return
	case k == proxies && e.gone && e.object.GetName() == h.name:
		h.view.Inbox.OwnDeleted()
		h.own, h.registered = nil, false
		return
	case k == proxies:
		h.hearOwn(e.object)
		return
	case h.w.has(VersionsRunAhead):
		h.view.Inbox.Bookmark(fromKind[k], strconv.FormatInt(h.w.server.version, 10))
	}
	if e.gone {
		h.view.Inbox.Delete(fromKind[k], proxy.Key{Namespace: e.object.GetNamespace(), Name: e.object.GetName()}, e.object.GetResourceVersion())
		return
	}
	h.view.Inbox.Set(fromKind[k], deepCopy(e.object))
}

func (h *host) bookmark(k kind, version string) {
	if k != reports && k != proxies {
		h.view.Inbox.Bookmark(fromKind[k], version)
	}
}

// opened hears that a watch goes on where it ended.
func (h *host) opened(k kind) {
	if k != reports && !h.w.has(ReopenedUnconfirmed) {
		h.view.Inbox.Opened(fromKind[k])
	}
}

// lost hears that a watch ended.
func (h *host) lost(k kind) {
	if k != reports && !h.w.has(ReopenedUnconfirmed) {
		h.view.Inbox.Lost(fromKind[k])
	}
}
