package controller_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restarted: a manager that comes back goes on where the other stopped, and frees nothing before it has seen the live proxies.
func restarted(h *hub) {
	stop := h.manager(app.LeaderElection{})
	h.stage("192.0.2.104/29")
	p := h.proxy("1")
	p.rest() // it renews when it is told to
	p.catchUp()
	served := h.loadBalancer("served", 80)
	h.waitFor(served, "AddressGranted=True")
	going := h.loadBalancer("going", 80)
	h.waitFor(going, "AddressGranted=True")
	p.catchUp()
	h.waitFor(served, "Programmed=True")
	address := h.address(going)
	h.delete(going)
	h.gone(going)
	stop()

	meanwhile := h.loadBalancer("meanwhile", 80)
	p.catchUp()
	before := h.writes()
	h.manager(app.LeaderElection{})
	h.waitFor(meanwhile, "AddressGranted=False/Pending") // the proxy may have something to say
	wait(h, address, "Releasing, for the proxy has not renewed", isReleasing)
	p.renew()
	h.waitFor(meanwhile, "AddressGranted=True")
	if addressOf(meanwhile) == addressOf(served) {
		h.t.Errorf("granted %s again", addressOf(meanwhile))
	}
	p.catchUp()
	h.waitFor(meanwhile, "Programmed=True")
	if addressOf(meanwhile) != address.Name { // else it was free before it was granted anew
		h.gone(address)
	}
	for _, w := range before() {
		if w.Name == served.Name {
			h.t.Errorf("the restart wrote %s %s %s", w.Verb, w.Resource, w.Name)
		}
	}
}

// asked: a manager that comes back asks proxies to renew their Leases, and waits for no renewal that comes by itself.
func asked(h *hub) {
	stop := h.manager(app.LeaderElection{})
	h.stage("192.0.2.208/30")
	p := h.proxy("1")
	p.rest() // it renews when it is asked to
	p.catchUp()
	stop()
	meanwhile := h.loadBalancer("meanwhile", 80)
	p.catchUp()
	p.answer()
	h.manager(app.LeaderElection{})
	h.waitFor(meanwhile, "AddressGranted=True")
	p.catchUp()
	h.waitFor(meanwhile, "Programmed=True")
}

// elected: of two managers one works; the other takes over.
func elected(h *hub) {
	election := app.LeaderElection{Enabled: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 500 * time.Millisecond}
	stopOne := h.manager(election)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: app.ManagerLease}}
	leader := func(not string) string {
		who := ""
		wait(h, lease, "held", func(l *coordinationv1.Lease) error {
			if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || *l.Spec.HolderIdentity == not {
				return fmt.Errorf("held by nobody new")
			}
			who = *l.Spec.HolderIdentity
			return nil
		})
		return who
	}
	first := leader("")
	h.manager(election)
	h.stage("192.0.2.112/29")
	p := h.proxy("1")
	p.catchUp()
	one := h.loadBalancer("one", 80)
	h.waitFor(one, "AddressGranted=True")
	p.catchUp()
	h.waitFor(one, "Programmed=True")
	p.renew() // the standby sees it, too

	stopOne()
	leader(first)
	two := h.loadBalancer("two", 80)
	h.waitFor(two, "AddressGranted=True")
	p.catchUp()
	h.waitFor(two, "Programmed=True")
	address := h.address(one)
	h.delete(one)
	h.gone(one)
	p.catchUp()
	h.gone(address) // at once: a standby has seen the renewal
	if addressOf(two) == address.Name {
		h.t.Errorf("both had %s", address.Name)
	}
}

// away: a manager that loses its leadership because the hub is away starts anew in its process, and goes on.
func away(h *hub) {
	h.manager(app.LeaderElection{Enabled: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond})
	h.stage("192.0.2.136/29")
	p := h.proxy("1")
	p.catchUp()
	one := h.loadBalancer("one", 80)
	h.waitFor(one, "AddressGranted=True")
	if err := h.control.StopAPIServer(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("the manager to start anew", func(ctx) error { return h.log.has("starting anew") })
	if err := h.control.StartAPIServer(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	p.beat()
	two := h.loadBalancer("two", 80)
	h.waitFor(two, "AddressGranted=True")
	p.catchUp()
	h.waitFor(one, "Programmed=True")
	h.waitFor(two, "Programmed=True")
}

// burst: many at once, each at the cost of one Address and at most two statuses.
func burst(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("198.51.100.0/24")
	const n = 200
	h.proxy("1").run()
	h.proxy("2").run()
	before := h.writes()
	began := time.Now()
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- h.api.Create(h.t.Context(), h.newLoadBalancer(fmt.Sprintf("lb-%d", i), 80)) }()
	}
	for range n {
		if err := <-failed; err != nil {
			h.t.Fatal(err)
		}
	}
	h.t.Logf("%d created in %s", n, time.Since(began).Round(time.Millisecond))
	addresses := map[string]string{}
	h.eventually("all to be served", func(ctx ctx) error {
		list := &clusterv1.LoadBalancerList{}
		if err := h.api.List(ctx, list, client.InNamespace(h.name)); err != nil {
			return err
		}
		clear(addresses)
		for i := range list.Items {
			l := &list.Items[i]
			if err := condition(l.Status.Conditions, "Ready=True"); err != nil {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			if other, taken := addresses[addressOf(l)]; taken {
				h.t.Fatalf("%s and %s both have %s", other, l.Name, addressOf(l))
			}
			addresses[addressOf(l)] = l.Name
		}
		return nil
	})
	h.t.Logf("%d served after %s", n, time.Since(began).Round(time.Millisecond))
	perObject := map[string][]int{}
	sum := map[string]int{}
	for _, w := range before() {
		if strings.Contains(w.User, "fairlead-manager") {
			sum[w.Verb+" "+w.Resource]++
			if w.Namespace == h.name {
				what := w.Resource + " " + w.Name
				perObject[what] = append(perObject[what], w.StatusCode)
			}
		}
	}
	h.t.Logf("the manager wrote %v", sum)
	// One on the good path; on a busy machine, what is waited for is written once when it has lasted. A write from a cache that lags is
	// refused, and changes nothing.
	for what, writes := range perObject {
		taken := slices.DeleteFunc(slices.Clone(writes), func(status int) bool { return status == http.StatusConflict })
		if strings.HasPrefix(what, "loadbalancers") && len(taken) > 2 {
			h.t.Errorf("writes of %s: %v", what, writes)
		}
	}
	if got := sum["create addresses"]; got != n {
		h.t.Errorf("%d Addresses created for %d LoadBalancers", got, n)
	}
}
