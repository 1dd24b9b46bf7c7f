package limits_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// storm is how long nothing but refusals is said.
	storm = 15 * time.Second
	// mostAsked is how many requests a second a part may make of a hub that refuses all: 4 Services, one LoadBalancer, ten watches.
	mostAsked = 25
)

// An API server that answers slowly, wrongly, half or not at all delays what is wanted and breaks nothing: what is served is
// served, nothing is freed, nobody asks without pause, and when it answers again all becomes as it should be.
func TestBadAnswers(t *testing.T) {
	h := startHub(t, testkit.Options{Name: "hub"})
	own := &hub{ControlPlane: kubetest.Start(t, testkit.Options{Name: "shop"}), t: t, scheme: h.scheme}
	own.api = own.client(own.RESTConfig())
	if err := rbac.InstallTenant(t.Context(), own.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	parts := map[string]*faulty{}
	for i, name := range []string{"manager", "proxy", "agent"} {
		parts[name] = startFaulty(t, h.RESTConfig(), uint64(i))
	}
	become := func(w weather) {
		for _, f := range parts {
			f.become(w)
		}
	}
	become(mixed)
	h.basics(tenant("shop", nil))
	h.manager(parts["manager"].through(t, h.managerAccount()))
	kept(t, h.proxyCommand("edge-1", parts["proxy"].through(t, h.proxyAccount("edge-1")), t.TempDir()))
	kept(t, testkit.Command{Name: "agent", Path: program, Args: []string{
		"agent", "--tenant=shop", "--hub-kubeconfig=" + parts["agent"].through(t, h.account("shop", v1alpha1.AgentServiceAccount)),
		"--kubeconfig=" + own.account(v1alpha1.SystemNamespace, "fairlead-agent"), "--metrics-address=",
	}})
	target := startTarget(t)
	web := loadBalancer("shop", "web", target)
	g := targets("shop", target)
	g.Name = "mine"
	g.Labels = map[string]string{"of": "web"}
	web.Spec.Selector = &metav1.LabelSelector{MatchLabels: g.Labels}
	h.create(g, web)
	own.create(service(0), service(1), service(2))
	at := h.served(web)
	for i := range 3 {
		own.addressed(i)
	}
	t.Log("all is served in mixed weather")

	become(refusing)
	before := h.ledger()
	own.storm(at)
	for name, f := range parts {
		asked, early := f.become(fair)
		t.Logf("%s asked %d times in %s, early %v", name, asked, storm, early)
		if rate := float64(asked) / storm.Seconds(); rate > mostAsked {
			t.Errorf("the %s made %.0f requests a second while all were refused", name, rate)
		}
		for _, what := range slices.Sorted(maps.Keys(early)) {
			if strings.HasSuffix(what, "/leases/fairlead-manager watch=false") {
				continue // an election asks every two seconds, whatever it is told
			}
			t.Errorf("the %s was told to wait and asked %d times before for %s", name, early[what], what)
		}
	}
	if after := h.ledger(); !maps.Equal(before, after) {
		t.Errorf("the ledger was %v, and became %v while nobody could know anything", before, after)
	}
	h.settled(own, at)
}

// storm has the tenant want other things, while traffic must go on.
func (h *hub) storm(at netip.AddrPort) {
	h.t.Helper()
	if err := h.api.Delete(h.t.Context(), service(0)); err != nil {
		h.t.Fatal(err)
	}
	h.create(service(3))
	for end := time.Now().Add(storm); time.Now().Before(end); {
		if err := answers(h.t.Context(), at); err != nil {
			h.t.Fatalf("while the hub refuses all: %v", err)
		}
	}
}

// settled: what was wanted meanwhile is so.
func (h *hub) settled(own *hub, at netip.AddrPort) {
	h.t.Helper()
	own.addressed(3)
	h.eventually("the Service that was deleted to be gone, and its address free", func(ctx context.Context) error {
		if err := own.api.Get(ctx, client.ObjectKeyFromObject(service(0)), &corev1.Service{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Service is there (%v)", err)
		}
		if n := len(h.ledger()); n != 4 {
			return fmt.Errorf("%d addresses are held", n)
		}
		return nil
	})
	h.eventually("every LoadBalancer to be programmed", func(ctx context.Context) error {
		all := &clusterv1.LoadBalancerList{}
		if err := h.api.List(ctx, all); err != nil {
			return err
		}
		for _, l := range all.Items {
			if len(l.Status.Addresses) == 0 {
				return errors.New(l.Name + " has no address")
			}
		}
		return answers(ctx, at)
	})
}

// ledger is each Address with its phase.
func (h *hub) ledger() map[string]v1alpha1.AddressPhase {
	h.t.Helper()
	all := &v1alpha1.AddressList{}
	if err := h.api.List(h.t.Context(), all); err != nil {
		h.t.Fatal(err)
	}
	out := map[string]v1alpha1.AddressPhase{}
	for _, a := range all.Items {
		out[a.Name] = a.Spec.Phase
	}
	return out
}

// service is the nth Service of the tenant's cluster.
func service(n int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + strconv.Itoa(n)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// addressed waits until a Service shows an address.
func (h *hub) addressed(n int) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("Service %d to have an address", n), func(ctx context.Context) error {
		s := service(n)
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("conditions %+v", s.Status.Conditions)
		}
		return nil
	})
}
