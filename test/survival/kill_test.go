package survival

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// killedParts: kill -9 of each part again and again, in no order: proxies, manager, agents, and all of the hub. Each comes
// back after a second, as systemd would have it. The kernels carry the traffic, so nothing may fail. Services come and go
// meanwhile; in the end those that are there are served, and nothing is left of the others.
func killedParts(t *testing.T, w *world) {
	long := scaled(45*time.Second, 5*time.Minute)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	tenant, victims, kills := w.Tenants[0], w.victims(), map[string]int{}
	last := 0
	makeService(t, tenant, churned(last), "")
	w.window(t, w.all(), [2]int{held, held}, func() {
		for began := time.Now(); time.Since(began) < long || len(kills) < len(victims); {
			v := victims[random.IntN(len(victims))]
			if !v.Running() {
				pause(t, look)
				continue
			}
			must(t, v.Kill())
			kills[v.Name()]++
			makeService(t, tenant, churned(last+1), "")
			deleteService(t, tenant, churned(last))
			last++
			pause(t, time.Duration(500+random.IntN(2500))*time.Millisecond)
		}
		awaitAnswers(t, tenant, awaitAddress(t, tenant, churned(last)), w.all()...)
		w.awaitAddresses(t, tenant, 2)
	})
	t.Logf("killed: %v; %d Services came and %d went", kills, last+1, last)
	total, deaths := 0, w.TakeDeaths()
	for _, n := range kills {
		total += n
	}
	if len(deaths) != total {
		t.Errorf("%d programs died, %d were killed: %s", len(deaths), total, strings.Join(deaths, "; "))
	}
	deleteService(t, tenant, churned(last))
}

func churned(i int) string { return fmt.Sprintf("churned-%d", i) }

// awaitAddresses waits until a tenant has so many addresses and LoadBalancers, all Granted.
func (w *world) awaitAddresses(t *testing.T, tenant *fleet.Tenant, want int) {
	t.Helper()
	eventually(t, 2*soon, fmt.Sprintf("%s to have %d addresses", tenant.Name(), want), func(ctx context.Context) error {
		addresses, balancers := &v1alpha1.AddressList{}, &clusterv1.LoadBalancerList{}
		if err := w.Hub.API.List(ctx, addresses); err != nil {
			return err
		}
		if err := w.Hub.API.List(ctx, balancers, client.InNamespace(tenant.Name())); err != nil {
			return err
		}
		have := 0
		for _, a := range addresses.Items {
			for _, h := range a.Spec.Holders {
				if h.Namespace != tenant.Name() {
					continue
				}
				if a.Spec.Phase != v1alpha1.AddressGranted {
					return fmt.Errorf("%s is %s", a.Name, a.Spec.Phase)
				}
				have++
			}
		}
		if have != want || len(balancers.Items) != want {
			return fmt.Errorf("it has %d, and %d LoadBalancers", have, len(balancers.Items))
		}
		return nil
	})
}

// victims are all processes of ours, and the hub's.
func (w *world) victims() []*testkit.Process {
	all := append(w.Hub.Processes(), w.Manager.Process)
	for _, p := range w.Proxies {
		all = append(all, p.Process)
	}
	for _, t := range w.Tenants {
		all = append(all, t.Agent.Process)
	}
	return all
}
