package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errCut is what an agent gets that has made its last write.
var errCut = errors.New("the agent has made its last write for this Service")

// writesLeft counts down an agent's writes, Service by Service, to both clusters. What an agent knows and does is by Service, so one
// agent can end at another write of each.
type writesLeft struct {
	mu   sync.Mutex
	left map[string][]string // by the Service's name: the names of its objects
	n    map[string]int
	cut  map[string]bool // a write was held back
}

func (c *writesLeft) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cutting{c, rt} })
	return cfg
}

// allow lets an agent make n writes more for a Service. One that isn't named is held back by nothing.
func (c *writesLeft) allow(w *world, name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[name] = []string{name, w.lbKey(name).Name}
	c.n[name] = n
}

// lift lets all be written again, by an agent that starts.
func (c *writesLeft) lift() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.left)
	clear(c.cut)
}

func (c *writesLeft) isCut(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut[name]
}

// take is false for a write that must not be made any more.
func (c *writesLeft) take(path string, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, objects := range c.left {
		if !slices.ContainsFunc(objects, func(o string) bool { return strings.Contains(path, "/"+o) || bytes.Contains(body, []byte(o)) }) {
			continue
		}
		if c.n[name] == 0 {
			c.cut[name] = true
			return false
		}
		c.n[name]--
	}
	return true
}

type cutting struct {
	*writesLeft
	next http.RoundTripper
}

func (c cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/leases") {
		return c.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !c.take(r.URL.Path, body) {
		return nil, errCut
	}
	return c.next.RoundTrip(r)
}

// event is something that happens to a Service that is served, or to one that comes.
type event struct {
	do  func(w *world, name string)
	end func(ctx context.Context, w *world, name string) error
}

// elsewhere is where addresses are from that the event "address" gives.
const elsewhere = "198.51.200."

var events = map[string]event{
	"comes": {func(w *world, name string) { w.create(name) }, isServed},
	"ports": {func(w *world, name string) { w.patch(name, port81) }, isServed},
	"class": {func(w *world, name string) {
		w.patch(name, `{"metadata":{"annotations":{"fairlead.dev/class":"gold"}}}`)
	}, isServed},
	"type":   {func(w *world, name string) { w.patch(name, `{"spec":{"type":"ClusterIP"}}`) }, isReleased},
	"delete": {func(w *world, name string) { w.delete(name) }, isGone},
	"address": {func(w *world, name string) {
		l, err := w.loadBalancer(w.Context(), name)
		w.must(err)
		w.manager.set(func(m *manager) { m.next++; m.granted[l.UID] = fmt.Sprint(elsewhere, m.next%250) })
	}, isServedElsewhere},
}

// TestTheAgentRestartedBetweenAnyTwoWrites has an agent end before each of the first writes for each event of a Service's life. The one after it
// knows nothing, and everything ends as if there had been one agent all along.
func TestTheAgentRestartedBetweenAnyTwoWrites(t *testing.T) {
	const most = 6 // agents for one event, the last of which lives on
	w := newWorld(t)
	c := &writesLeft{left: map[string][]string{}, n: map[string]int{}, cut: map[string]bool{}}
	w.stop()
	w.agentHub, w.agentTenant = c.wrap(w.agentHub), c.wrap(w.agentTenant)
	w.start()
	all := map[string]string{} // name to event
	happens := func(which string) {
		for n := range most + 1 {
			name := fmt.Sprintf("%s-%d-service", which, n)
			all[name] = which
			if which != "comes" {
				w.create(name)
			}
		}
	}
	// meet has one agent end where each Service says, and another one go on.
	meet := func(which ...string) {
		for _, which := range which {
			for n := range most + 1 {
				name := fmt.Sprintf("%s-%d-service", which, n)
				if n < most {
					c.allow(w, name, n)
				}
				events[which].do(w, name)
			}
		}
		uncut := map[string]int{}
		for _, which := range which {
			for n := range most + 1 {
				name := fmt.Sprintf("%s-%d-service", which, n)
				w.eventually(name+" to be as it should, or its agent to end", func(ctx context.Context) error {
					if c.isCut(name) {
						return nil
					}
					return events[which].end(ctx, w, name)
				})
				if !c.isCut(name) {
					uncut[which]++
				}
			}
			if t.Logf("%s: %d of %d agents saw it through", which, uncut[which], most+1); uncut[which] > most {
				t.Errorf("%s: no agent ended in the middle", which)
			}
		}
		w.stop()
		c.lift()
		w.start()
		for name, which := range all {
			if _, begun := uncut[which]; !begun {
				continue
			}
			w.eventually(name+" to be as it should", func(ctx context.Context) error { return events[which].end(ctx, w, name) })
		}
	}
	happens("comes")
	meet("comes")
	for _, which := range slices.Sorted(maps.Keys(events)) {
		if which != "comes" {
			happens(which)
		}
	}
	for name, which := range all {
		if which != "comes" {
			w.eventually(name+" to be served", func(ctx context.Context) error { return isServed(ctx, w, name) })
		}
	}
	meet("ports", "class", "type", "delete", "address")

	// Nothing in the hub is anybody's but theirs.
	list := &clusterv1.LoadBalancerList{}
	w.must(w.hub.api.List(t.Context(), list, client.InNamespace(w.hubNamespace)))
	for _, l := range list.Items {
		key, ok := service.Origin(&l)
		if !ok || all[key.Name] == "type" || all[key.Name] == "delete" {
			t.Errorf("LoadBalancer %s is left of Service %s", l.Name, key)
		}
	}
	groups := &v1alpha1.TargetGroupList{}
	w.must(w.hub.api.List(t.Context(), groups, client.InNamespace(w.hubNamespace)))
	if len(groups.Items) != 1 {
		t.Errorf("%d TargetGroups, want that of the Nodes", len(groups.Items))
	}
	for name, which := range all {
		if which != "delete" {
			w.delete(name)
		}
	}
	for name := range all {
		w.gone(name)
	}
}

// isServed says what a Service lacks that should show what its one LoadBalancer has, as it stands.
func isServed(ctx context.Context, w *world, name string) error {
	s, err := w.get(ctx, name)
	if err != nil {
		return err
	}
	l, err := w.loadBalancer(ctx, name)
	if err != nil {
		return err
	}
	in := s.Status.LoadBalancer.Ingress
	switch condition := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed); {
	case l.DeletionTimestamp != nil || !service.MadeFrom(l, s) || l.Annotations[v1alpha1.AnnotationClass] != s.Annotations[v1alpha1.AnnotationClass]:
		return errors.New("the LoadBalancer is from before")
	case l.Spec.Ports[0].Port != s.Spec.Ports[0].Port || l.Spec.Ports[0].TargetPort != s.Spec.Ports[0].NodePort:
		return fmt.Errorf("the LoadBalancer has the ports %+v", l.Spec.Ports)
	case len(in) != 1 || len(l.Status.Addresses) != 1 || in[0].IP != l.Status.Addresses[0].Value || in[0].Ports[0].Port != s.Spec.Ports[0].Port:
		return fmt.Errorf("the Service shows %+v, the LoadBalancer has %+v", in, l.Status.Addresses)
	case !service.Holds(s, service.InStatus) || len(s.Finalizers) != 1:
		return fmt.Errorf("the Service has the finalizers %q", s.Finalizers)
	case condition == nil || condition.Reason != clusterv1.ReasonProgrammed:
		return fmt.Errorf("the Service says %+v", condition)
	}
	return nil
}

// isServedElsewhere is isServed, at the address that the event "address" gave.
func isServedElsewhere(ctx context.Context, w *world, name string) error {
	s, err := w.get(ctx, name)
	if err != nil {
		return err
	}
	if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || !strings.HasPrefix(in[0].IP, elsewhere) {
		return fmt.Errorf("the Service shows %+v", in)
	}
	return isServed(ctx, w, name)
}

func isReleased(ctx context.Context, w *world, name string) error {
	s, err := w.get(ctx, name)
	if err != nil {
		return err
	}
	if left(s) {
		return fmt.Errorf("something is left: %+v, %+v", s.ObjectMeta, s.Status)
	}
	_, err = w.loadBalancer(ctx, name)
	return absent(err)
}

func isGone(ctx context.Context, w *world, name string) error {
	if _, err := w.get(ctx, name); absent(err) != nil {
		return errors.New("the Service is there")
	}
	_, err := w.loadBalancer(ctx, name)
	return absent(err)
}

// left says that something of ours is at a Service.
func left(s *v1.Service) bool {
	return len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 || len(s.Status.Conditions) > 0 || service.Marked(s) || s.Annotations[v1alpha1.AnnotationPublished] != ""
}
