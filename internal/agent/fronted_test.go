package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inACloud is a world where a cloud's controller is the default one.
func inACloud(t *testing.T) *world {
	w := newWorld(t)
	w.stop()
	w.filter.Unclassed = false
	w.start()
	return w
}

func fronted(s *v1.Service) { s.Annotations[v1alpha1.AnnotationExposeLoadBalancer] = "true" }

// cloudSays is what the cloud's controller does to a Service that it serves.
func (w *world) cloudSays(name, ingress string) {
	w.Helper()
	p := client.RawPatch(types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":`+ingress+`}}}`))
	w.must(w.tenant.api.Status().Patch(w.Context(), w.service(name), p))
}

// backend waits for a TargetGroup of the Service's own with exactly these addresses.
func (w *world) backend(name string, want ...string) *v1alpha1.TargetGroup {
	w.Helper()
	g := &v1alpha1.TargetGroup{}
	w.eventually(fmt.Sprintf("TargetGroup of %s with %q", name, want), func(ctx context.Context) error {
		if err := w.hub.api.Get(ctx, w.lbKey(name), g); err != nil {
			return err
		}
		var got []string
		for _, x := range g.Spec.Targets {
			got = append(got, x.Addresses...)
		}
		if !slices.Equal(got, want) || g.Labels[v1alpha1.LabelTargets] != g.Name {
			return fmt.Errorf("it has %q and labels %v", got, g.Labels)
		}
		return nil
	})
	return g
}

func (w *world) backendGone(name string) {
	w.Helper()
	w.eventually("TargetGroup of "+name+" to go", func(ctx context.Context) error {
		return absent(w.hub.api.Get(ctx, w.lbKey(name), &v1alpha1.TargetGroup{}))
	})
}

func TestACloudsLoadBalancerIsTheTarget(t *testing.T) {
	w := inACloud(t)
	w.create("quiet")
	s := w.create("web", fronted, func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} }) // the cloud's
	w.backend("web")
	if note := w.serviceThat("web", "waits for the cloud", func(s *v1.Service) error {
		if len(s.Status.Conditions) == 0 || s.Status.Conditions[0].Reason != service.ReasonNoBackend || s.Status.Conditions[0].Status != metav1.ConditionFalse {
			return errors.New("it says something else")
		}
		return nil
	}).Status.Conditions[0].Message; !strings.Contains(note, "has no address yet") {
		t.Errorf("it says %q", note)
	}
	w.cloudSays("web", `[{"ip":"10.9.0.1","ports":[{"port":80,"protocol":"TCP"}]}]`)
	w.backend("web", "10.9.0.1")
	address := w.announced("web")
	if note := w.says("web", clusterv1.ReasonProgrammed); !strings.Contains(note, address) {
		t.Errorf("the event says %q", note)
	}
	l, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	if l.Spec.Ports[0].TargetPort != 80 || l.Spec.Selector.MatchLabels[v1alpha1.LabelTargets] != l.Name {
		t.Errorf("LoadBalancer %+v", l.Spec)
	}
	// Another address follows, a name too; the status stays the cloud's.
	w.cloudSays("web", `[{"hostname":"lb-1.example.com"}]`)
	w.backend("web", "lb-1.example.com")
	// What somebody else does to the group is mended.
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: l.Name}}
	w.must(w.hub.api.Patch(t.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null},"spec":{"targets":[]}}`))))
	w.backend("web", "lb-1.example.com")
	w.must(w.hub.api.Delete(t.Context(), g))
	w.backend("web", "lb-1.example.com")
	count := w.count()
	now, err := w.get(t.Context(), "web")
	w.must(err)
	if in := now.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].Hostname != "lb-1.example.com" || !slices.Contains(now.Finalizers, service.Finalizer) || now.UID != s.UID {
		t.Errorf("the cloud's own was touched: %+v, %q", in, now.Finalizers)
	}
	// The cloud takes it, and that is seen.
	w.cloudSays("web", `null`)
	w.backend("web")
	w.serviceThat("web", "says so", func(s *v1.Service) error {
		if s.Status.Conditions[0].Reason != service.ReasonNoBackend {
			return errors.New("it says something else")
		}
		return nil
	})
	if got := count.writes(); len(got) > 3 {
		t.Errorf("%d writes:%s", len(got), show(got))
	}
	w.cloudSays("web", `[{"ip":"10.9.0.2"}]`)
	w.backend("web", "10.9.0.2")
	// It is no longer asked for: what is the cloud's stays.
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-loadbalancer":null}}}`)
	w.lbGone("web")
	w.backendGone("web")
	w.isTheClouds("web")
	if s, err := w.get(t.Context(), "quiet"); err != nil || len(s.Finalizers)+len(s.Annotations)+len(s.Status.Conditions) > 0 {
		t.Errorf("a Service that didn't ask was touched: %v, %+v", err, s)
	}
	// Asked for again, then deleted: the cloud lets go of its own part, when it will, and we of ours.
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-loadbalancer":"true"}}}`)
	w.announced("web")
	w.delete("web")
	w.backendGone("web")
	w.lbGone("web")
	w.isTheClouds("web")
	w.patch("web", `{"metadata":{"labels":{"the-cloud":"at-it"}}}`)
	w.stop()
	w.start() // another agent, which finds it so
	w.patch("web", `{"metadata":{"labels":{"the-cloud":"at-it-still"}}}`)
	w.passes("later")
	w.isTheClouds("web")
	w.patch("web", `{"metadata":{"finalizers":null}}`)
	w.gone("web")
}

// isTheClouds waits until nothing is left of us in a Service that the cloud's controller serves and holds.
func (w *world) isTheClouds(name string) {
	w.Helper()
	w.serviceThat(name, "is the cloud's alone", func(s *v1.Service) error {
		if !slices.Equal(s.Finalizers, []string{service.Finalizer}) || service.Marked(s) || s.Annotations[v1alpha1.AnnotationPublished] != "" || len(s.Status.Conditions) > 0 || len(s.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("annotations %v", s.Annotations)
		}
		return nil
	})
}

// Somebody takes our finalizer off a Service that the cloud serves: it is put back while the Service asks, and the cloud's stays
// whatever becomes of it.
func TestTheCloudsFinalizerStaysWhereOursIsTakenOff(t *testing.T) {
	w := inACloud(t)
	clouds := func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} }
	const byHand = `{"metadata":{"finalizers":["` + service.Finalizer + `"]}}`
	w.create("waits", fronted, clouds)
	w.create("web", fronted, clouds)
	w.cloudSays("web", `[{"ip":"10.9.0.1"}]`)
	w.announced("web")
	w.serviceThat("waits", "says so", func(s *v1.Service) error {
		if !service.Told(s) || !service.Holds(s, service.InAnnotation) {
			return errors.New("it doesn't yet")
		}
		return nil
	})
	for _, name := range []string{"waits", "web"} {
		w.patch(name, byHand)
		w.serviceThat(name, "is held by both", func(s *v1.Service) error {
			if !slices.Contains(s.Finalizers, service.OwnFinalizer) || !slices.Contains(s.Finalizers, service.Finalizer) {
				return fmt.Errorf("it is held by %q", s.Finalizers)
			}
			return nil
		})
	}
	w.manager.set(func(m *manager) { m.keep = true })
	w.delete("web")
	w.lbDeleting("web")
	w.patch("web", byHand)
	w.manager.set(func(m *manager) { m.keep = false })
	w.lbGone("web")
	w.isTheClouds("web")
	for _, name := range []string{"waits", "web"} { // the cloud lets go
		w.patch(name, `{"metadata":{"finalizers":null}}`)
	}
	w.gone("web")
}

// passes makes a Service that is served and goes: the agent has looked at all that happened before.
func (w *world) passes(name string) {
	w.Helper()
	w.create(name, fronted)
	w.cloudSays(name, `[{"ip":"10.9.0.99"}]`)
	w.announced(name)
	w.delete(name)
	w.gone(name)
}

// What was never held, for its name is somebody else's in the hub, is let go without a touch to what is the cloud's.
func TestANameThatIsTakenLeavesTheCloudsAlone(t *testing.T) {
	w := inACloud(t)
	theirs := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: w.lbKey("web").Name}}
	w.must(w.hub.api.Create(t.Context(), theirs))
	w.create("web", fronted, func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} }) // the cloud's
	w.cloudSays("web", `[{"ip":"10.9.0.1"}]`)
	w.says("web", service.ReasonNameTaken)
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-loadbalancer":null}}}`)
	w.serviceThat("web", "says nothing of ours", func(s *v1.Service) error {
		if len(s.Status.Conditions) > 0 {
			return errors.New("it does")
		}
		return nil
	})
	w.passes("later")
	w.isTheClouds("web")
	w.must(w.hub.api.Delete(t.Context(), theirs))
	w.patch("web", `{"metadata":{"finalizers":null}}`)
}

// A Service that has no address when an agent comes may be one that was restored from a copy.
func TestABackendThatNobodySawGoIsHeldForADay(t *testing.T) {
	w := inACloud(t)
	w.create("web", fronted)
	w.cloudSays("web", `[{"ip":"10.9.0.1"}]`)
	w.announced("web")
	w.stop()
	w.cloudSays("web", `null`)
	w.start()
	if note := w.says("web", service.ReasonBackendMissing); !strings.Contains(note, "10.9.0.1") {
		t.Errorf("the event says %q", note)
	}
	g := w.backend("web", "10.9.0.1")
	until, err := time.Parse(time.RFC3339, g.Annotations[v1alpha1.AnnotationHeldUntil])
	if lasts := time.Until(until); err != nil || lasts < 23*time.Hour || lasts > 25*time.Hour {
		t.Errorf("held for %s, %v", lasts, err)
	}
	w.cloudSays("web", `[{"ip":"10.9.0.1"}]`)
	w.eventually("it to be held no more", func(ctx context.Context) error {
		if g := w.backend("web", "10.9.0.1"); g.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
			return errors.New("it is")
		}
		return nil
	})
	w.says("web", clusterv1.ReasonProgrammed)
	w.stop()
	w.cloudSays("web", `null`)
	w.start()
	w.says("web", service.ReasonBackendMissing)
	w.heldUntil(&v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}, time.Now())
	w.backend("web")
}

// Somebody's TargetGroup of that name is left alone, and so is a Service that the hub would send back to itself.
func TestABackendIsNobodyElses(t *testing.T) {
	w := inACloud(t)
	theirs := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: w.lbKey("web").Name}}
	w.must(w.hub.api.Create(t.Context(), theirs))
	w.create("web", fronted)
	if note := w.says("web", service.ReasonNameTaken); !strings.Contains(note, theirs.Name) {
		t.Errorf("the event says %q", note)
	}
	w.must(w.hub.api.Delete(t.Context(), theirs))
	w.patch("web", `{"metadata":{"labels":{"again":"1"}}}`)
	w.cloudSays("web", `[{"ip":"10.9.0.1"}]`)
	address := w.announced("web")
	w.cloudSays("web", fmt.Sprintf(`[{"ip":%q},{"ip":"10.9.0.1"}]`, address))
	w.patch("web", `{"metadata":{"labels":{"again":"2"}}}`)
	w.cloudSays("web", fmt.Sprintf(`[{"ip":%q},{"ip":"10.9.0.2"}]`, address))
	w.backend("web", "10.9.0.2")
}
