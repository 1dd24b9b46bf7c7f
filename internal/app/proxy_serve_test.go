package app_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestProxyServesReportsAndReleases(t *testing.T) {
	h := startHub(t)
	stop := h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: t.TempDir()})
	defer stop()
	kubetest.Eventually(t, soon, "the proxy to register and serve", func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err == nil && px.Status.Phase != v1alpha1.ProxyServing {
			err = fmt.Errorf("phase %q", px.Status.Phase)
		}
		return err
	})

	// Served, soon, and said.
	one := netip.AddrPortFrom(h.address(101), 8080)
	began := time.Now()
	h.loadBalancer(t, "web", one)
	kubetest.Eventually(t, soon, "an answer through the listener", func(context.Context) error { return answers(one) })
	t.Logf("answered %s after the creates began", time.Since(began).Round(time.Millisecond))
	address := &v1alpha1.Address{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: one.Addr().String()}, address); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "through to reach the address", func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err != nil {
			return err
		}
		if px.Status.Frontends != 1 {
			return fmt.Errorf("%d frontends", px.Status.Frontends)
		}
		return reaches(px.Status.Through.Addresses, address.ResourceVersion)
	})
	lease := &coordinationv1.Lease{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "edge-1"}, lease); err != nil {
		t.Fatal(err)
	}
	if px, err := h.proxy(t.Context(), "edge-1"); err != nil || lease.Annotations[v1alpha1.AnnotationBoot] != px.Status.Boot {
		t.Errorf("boot on lease %q, in status %q, %v", lease.Annotations[v1alpha1.AnnotationBoot], px.Status.Boot, err)
	}

	// A port that somebody else has is refused by name, and bound once it is free.
	two := netip.AddrPortFrom(h.address(102), 8081)
	thief, err := net.Listen("tcp", two.String())
	if err != nil {
		t.Fatal(err)
	}
	h.loadBalancer(t, "stolen", two)
	kubetest.Eventually(t, soon, "the report of the refused port", func(ctx context.Context) error {
		r, err := h.report(ctx, "edge-1")
		if err == nil && !slices.ContainsFunc(r.Refused, func(f v1alpha1.RefusedFrontend) bool {
			return f.LoadBalancer == "stolen" && f.Port == 8081 && f.Problem.Reason == clusterv1.ReasonPortInUse
		}) {
			err = fmt.Errorf("refused: %+v", r.Refused)
		}
		return err
	})
	thief.Close()
	kubetest.Eventually(t, soon, "the port to be served once it is free", func(context.Context) error { return answers(two) })
	kubetest.Eventually(t, soon, "the report to be gone", func(ctx context.Context) error {
		if _, err := h.report(ctx, "edge-1"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%w)", err)
		}
		return nil
	})

	// A target drains: Draining while a connection is open, Gone after.
	held, err := net.Dial("tcp", one.String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := say(held); err != nil {
		t.Fatal(err)
	}
	tg := &v1alpha1.TargetGroup{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "nodes-0"}, tg); err != nil {
		t.Fatal(err)
	}
	tg.Spec.Targets[0].State = v1alpha1.TargetDraining
	if err := h.client.Update(t.Context(), tg); err != nil {
		t.Fatal(err)
	}
	member := func(want v1alpha1.ReportedState, open int64) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := h.report(ctx, "edge-1")
			if err != nil {
				return err
			}
			if len(r.Members) != 1 || r.Members[0].State != want || r.Members[0].OpenConnections != open || r.Members[0].GroupUID != string(tg.UID) || r.Members[0].TargetUID != "uid-1" {
				return fmt.Errorf("members: %+v", r.Members)
			}
			px, err := h.proxy(ctx, "edge-1")
			if err != nil {
				return err
			}
			return errors.Join(reaches(px.Status.Through.TargetGroups, tg.ResourceVersion), reaches(px.Status.Reports, r.ResourceVersion))
		}
	}
	kubetest.Eventually(t, soon, "the member to be reported as draining", member(v1alpha1.ReportedDraining, 1))
	if err := say(held); err != nil {
		t.Errorf("connection that was open when its target began to drain: %v", err)
	}
	held.Close()
	kubetest.Eventually(t, soon, "the member to be reported as gone", member(v1alpha1.ReportedGone, 0))

	// What others make of its report and its Proxy it writes again.
	r, err := h.report(t.Context(), "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "the deleted report to be back", member(v1alpha1.ReportedGone, 0))
	kubetest.Eventually(t, soon, "emptying the report", func(ctx context.Context) error {
		if r, err = h.report(ctx, "edge-1"); err != nil {
			return err
		}
		r.Members = nil
		return h.client.Update(ctx, r)
	})
	kubetest.Eventually(t, soon, "the emptied report to be whole", member(v1alpha1.ReportedGone, 0))
	px, err := h.proxy(t.Context(), "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(t.Context(), px); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "the deleted Proxy to be back", member(v1alpha1.ReportedGone, 0))
	tg.Spec.Targets[0].State = v1alpha1.TargetServing
	if err := h.client.Update(t.Context(), tg); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "an answer after the drain", func(context.Context) error { return answers(one) })

	// Deleted, and its address given up: refused at once; that is reported gone when the last connection ended.
	held, err = net.Dial("tcp", one.String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := say(held); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(t.Context(), &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	address.Spec.Phase = v1alpha1.AddressReleasing
	if err := h.client.Update(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "the listener to be closed", func(context.Context) error { return refuses(one) })
	released := func(want v1alpha1.ReportedState) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := h.report(ctx, "edge-1")
			if err == nil && (len(r.Addresses) != 1 || r.Addresses[0].Name != address.Name || r.Addresses[0].UID != string(address.UID) || r.Addresses[0].State != want) {
				err = fmt.Errorf("addresses: %+v", r.Addresses)
			}
			return err
		}
	}
	kubetest.Eventually(t, soon, "the address to be reported as draining", released(v1alpha1.ReportedDraining))
	held.Close()
	kubetest.Eventually(t, soon, "the address to be reported as gone", released(v1alpha1.ReportedGone))

	// Fenced: nothing is served; and again afterwards.
	fence := func(f *v1alpha1.Fence) {
		kubetest.Eventually(t, soon, "the fence to be written", func(ctx context.Context) error {
			px, err := h.proxy(ctx, "edge-1")
			if err != nil {
				return err
			}
			px.Spec.Fenced = f
			return h.client.Update(ctx, px)
		})
	}
	fence(&v1alpha1.Fence{By: "test", Reason: "to see it stop"})
	kubetest.Eventually(t, soon, "the fenced proxy to stop", func(context.Context) error { return refuses(two) })
	fence(nil)
	kubetest.Eventually(t, soon, "the proxy to serve again", func(context.Context) error { return answers(two) })
}

func TestProxyServesWhileTheHubIsAway(t *testing.T) {
	h := startHub(t)
	state := t.TempDir()
	stop := h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: state})
	one, two := netip.AddrPortFrom(h.address(101), 8080), netip.AddrPortFrom(h.address(102), 8080)
	h.loadBalancer(t, "web", one)
	kubetest.Eventually(t, soon, "an answer", func(context.Context) error { return answers(one) })
	first := ""
	kubetest.Eventually(t, soon, "through to be said", func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err == nil && px.Status.Frontends != 1 {
			err = fmt.Errorf("%d frontends", px.Status.Frontends)
		}
		first = px.Status.Boot
		return err
	})

	// Away and back: traffic goes on, changes made afterwards arrive.
	if err := h.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := answers(one); err != nil {
			t.Fatalf("while the hub is away: %v", err)
		}
	}
	if err := h.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.loadBalancer(t, "later", two)
	kubetest.Eventually(t, soon, "a change made after the outage", func(context.Context) error { return answers(two) })
	kubetest.Eventually(t, soon, "the proxy to speak again", func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err == nil && px.Status.Frontends != 2 {
			err = fmt.Errorf("%d frontends", px.Status.Frontends)
		}
		return err
	})

	// Started without a hub: what the file says.
	if err := h.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := refuses(one); err != nil {
		t.Fatalf("after the proxy stopped: %v", err)
	}
	began := time.Now()
	h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: state})
	kubetest.Eventually(t, soon, "the last-good file to be served", func(context.Context) error { return errors.Join(answers(one), answers(two)) })
	t.Logf("served from the file %s after the start", time.Since(began).Round(time.Millisecond))

	// The hub is back, with another view.
	if err := h.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: one.Addr().String()}}, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}} {
		if err := h.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	kubetest.Eventually(t, soon, "the hub's view to replace the file's", func(context.Context) error { return refuses(one) })
	if err := answers(two); err != nil {
		t.Errorf("what both views have: %v", err)
	}
	kubetest.Eventually(t, soon, "the new boot to be said", func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err == nil && (px.Status.Boot == first || px.Status.Frontends != 1) {
			err = fmt.Errorf("boot %s, %d frontends", px.Status.Boot, px.Status.Frontends)
		}
		return err
	})
}

func TestProxyHandsOverToTheNext(t *testing.T) {
	h := startHub(t)
	o := app.ProxyOptions{StateDir: t.TempDir(), Metrics: app.MetricsOptions{Address: netip.AddrPortFrom(h.address(100), 9090).String()}}
	stop := h.startProxy(t, "edge-1", o)
	one := netip.AddrPortFrom(h.address(101), 8080)
	h.loadBalancer(t, "web", one)
	kubetest.Eventually(t, soon, "an answer", func(context.Context) error { return answers(one) })
	boot := ""
	serves := func(ctx context.Context) error {
		px, err := h.proxy(ctx, "edge-1")
		if err == nil && (px.Status.Boot == boot || px.Status.Frontends != 1) {
			err = fmt.Errorf("boot %s, %d frontends", px.Status.Boot, px.Status.Frontends)
		}
		if err == nil {
			boot = px.Status.Boot
		}
		return err
	}
	kubetest.Eventually(t, soon, "the first process to say that it serves", serves)
	held, err := net.Dial("tcp", one.String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := say(held); err != nil {
		t.Fatal(err)
	}

	over, failures := make(chan struct{}), make(chan error, 1)
	asked := 0
	go func() {
		defer close(failures)
		for {
			select {
			case <-over:
				return
			default:
			}
			asked++
			if err := answers(one); err != nil {
				failures <- err
				return
			}
		}
	}()
	h.startProxy(t, "edge-1", o)
	kubetest.Eventually(t, soon, "the second process to say that it serves", serves)
	kubetest.Eventually(t, soon, "the second process to be ready at the first one's address", func(ctx context.Context) error {
		resp, err := http.Get("http://" + o.Metrics.Address + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		return err
	})
	close(over)
	if err := <-failures; err != nil {
		t.Errorf("request %d: %v", asked, err)
	}
	if err := say(held); err != nil {
		t.Errorf("connection from before: %v", err)
	}
	held.Close()
	stop()
	if err := answers(one); err != nil {
		t.Errorf("after the first process has ended: %v", err)
	}
	t.Logf("%d requests", asked)
}
