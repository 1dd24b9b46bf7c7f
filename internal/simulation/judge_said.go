package simulation

import (
	"encoding/json"
	"slices"
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// speaker is the host whose present process wrote a Proxy or Lease of that name and boot; nil: it is another's word, or none that counts.
func (w *World) speaker(name, boot string) *host {
	i := slices.IndexFunc(w.hosts[:], func(h *host) bool { return h != nil && h.name == name && h.up && h.boot == boot && !h.doubled })
	if i < 0 {
		return nil
	}
	return w.hosts[i]
}

// judgeStatus holds what a proxy says against what it was told.
func (w *World) judgeStatus(px *v1alpha1.Proxy) {
	if h := w.speaker(px.Name, px.Status.Boot); h != nil {
		h.spoke = w.incarnation
		w.judgeThrough(h, px.Status.Through)
	}
}

// judgeRenewal holds a Lease against that, too: and nobody who watches the present hub renews it before he has said there who he is.
func (w *World) judgeRenewal(l *coordinationv1.Lease) {
	h := w.speaker(l.Name, l.Annotations[v1alpha1.AnnotationBoot])
	if h == nil || l.Namespace != v1alpha1.SystemNamespace {
		return
	}
	if px := w.proxyOf(h); px != nil && px.Status.Boot == h.boot && h.spoke != w.incarnation && h.link.up != [kinds]bool{} {
		w.broken("%s renews its Lease in a hub that has an older status of it", h.name)
	}
	var t v1alpha1.Through
	if err := json.Unmarshal([]byte(l.Annotations[v1alpha1.AnnotationThrough]), &t); err != nil {
		w.broken("%s can't be understood: %v", h.name, err)
		return
	}
	w.judgeThrough(h, t)
}

// judgeThrough finds a version that the present hub hasn't told to whom claims to be through it.
func (w *World) judgeThrough(h *host, t v1alpha1.Through) {
	if w.change != nil && w.change.mixed[h.boot] {
		return
	}
	for k, text := range map[kind]string{
		loadBalancers: t.LoadBalancers, targetGroups: t.TargetGroups, addresses: t.Addresses, classes: t.LoadBalancerClasses, tenants: t.Tenants,
	} {
		v, err := strconv.ParseInt(text, 10, 64)
		switch {
		case text == "":
		case err != nil:
			w.broken("%s says that it is through %q of %s", h.name, text, k)
		case v > h.link.at[k] || v > w.server.version || h.link.hub[k] != w.incarnation && !w.change.known[h.boot]:
			w.broken("%s says that it is through %s of %s, which this hub hasn't told it: it has heard up to %d", h.name, text, k, h.link.at[k])
		}
	}
}

// judgeWriter finds a manager that begins to write while another leads. One whose write hangs has begun before.
func (w *World) judgeWriter(m *manager) {
	l, _ := w.server.objects[leases][electionKey].(*coordinationv1.Lease)
	if w.change != nil || l == nil || l.Spec.HolderIdentity == nil {
		return // Who led in the copy is named by its Lease.
	}
	if by := *l.Spec.HolderIdentity; by != "" && by != m.lock.Identity() {
		w.broken("%s begins to write while %s leads", m.name, by)
	}
}

// remembered says that the hub, as it is now, has what a proxy's present process said last.
func (w *World) remembered(h *host) bool {
	px, _ := w.server.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
	return px != nil && h.object != nil && px.UID == h.object.UID && px.Status.Boot == h.boot && px.Status.Seq >= h.object.Status.Seq
}
