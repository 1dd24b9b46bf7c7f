package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silence is how long a proxy must be silent until it counts as such, and a moment.
const silence = 35 * time.Second

func proxyCutOffPlot(s *story) []string {
	return []string{
		fmt.Sprintf("%s does not reach the hub any more, and nobody tells it. Then a node is drained, an address is given up", s.Proxies[1].Name),
		"for which another tenant waits, and a Service is made. Expected: it serves on, and no request fails; member",
		"and address are kept until it can say that they are gone; the new Service does not wait for it.",
	}
}

// proxyCutOff: a proxy runs and serves, and only doesn't reach the hub. What leaves is not gone before it has said so: a member that drains,
// an address that is given up. What comes is published without it. When it reaches the hub again, all that waited goes on.
func proxyCutOff(ctx context.Context, s *story) (string, error) {
	holder, waits := s.Tenants[0], s.Tenants[1]
	cut, node := s.Proxies[1], holder.Nodes()[1].Name
	a, _, err := s.fillScarce(ctx)
	if err != nil {
		return "", err
	}
	if err := s.firstAnswers(ctx, holder, a, webPort); err != nil {
		return "", err
	}
	defer cut.Reconnect() // again, where a claim fails before
	healed := time.Duration(0)
	// No connection is held to the first tenant: a member with an open one is not gone.
	_, measured, err := s.windowHolding(ctx, [tenants]int{0, held}, func(ctx context.Context) error {
		cut.CutOff()
		began := time.Now()
		s.note("%s is cut off", cut.Name)
		if err := s.leaveBehind(ctx, holder, node, a, cut); err != nil {
			return err
		}
		s.note("%s of %s drains, and %s is Releasing; both say that they wait for %s", node, holder.Name(), a, cut.Name)
		kept := func(ctx context.Context) error { return s.keeps(ctx, holder, node, a, cut) }
		if err := throughout(ctx, time.Until(began.Add(silence)), kept); err != nil {
			return err
		}
		if err := s.awaitBlocked(ctx, cut); err != nil {
			return err
		}
		s.note("still so, and %s is answered through %s; the pool says ReleaseBlocked", a, cut.Name)
		fresh, err := s.serveWithout(ctx, waits, "meanwhile", cut)
		if err != nil {
			return err
		}
		if err := kept(ctx); err != nil {
			return err
		}
		s.note("Service meanwhile of %s got %s and is answered through the others", waits.Name(), fresh)
		cut.Reconnect()
		mended := time.Now()
		if err := s.awaitMember(ctx, holder, node, "drained", ""); err != nil {
			return err
		}
		got, err := awaitAddress(ctx, waits, "scarce")
		if err != nil {
			return err
		}
		healed = time.Since(mended)
		if got != a {
			return fmt.Errorf("%s got %s, not %s", waits.Name(), got, a)
		}
		s.note("%s reaches the hub again: %s is drained, and %s is %s's", cut.Name, node, a, waits.Name())
		if err := s.firstAnswers(ctx, waits, a, webPort); err != nil {
			return err
		}
		return s.firstAnswers(ctx, waits, fresh, webPort)
	})
	if err != nil {
		return "", err
	}
	if err := disable(ctx, holder, node, nil); err != nil {
		return "", err
	}
	if err := s.awaitMember(ctx, holder, node, "", ""); err != nil {
		return "", err
	}
	if err := deleteService(ctx, waits, "meanwhile"); err != nil {
		return "", err
	}
	return fmt.Sprintf("seen: kept for %s, gone %s after it reached the hub again; %s", silence, healed.Round(time.Millisecond), measured), s.emptyScarce(ctx, a)
}

// leaveBehind drains a node and gives up the one address of the pool scarce, and waits until both wait for the proxy that is cut off.
func (s *story) leaveBehind(ctx context.Context, holder *fleet.Tenant, node string, a netip.Addr, cut *fleet.Proxy) error {
	if err := disable(ctx, holder, node, ""); err != nil {
		return err
	}
	if err := giveUp(ctx, holder, "scarce"); err != nil {
		return err
	}
	if err := s.awaitMember(ctx, holder, node, "draining", fleet.WaitsFor(cut.Name)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "the ledger to release "+a.String(), func(ctx context.Context) error { return s.IsReleasing(ctx, holder, a) })
}

// keeps tells whether what left still waits for the proxy that is cut off, which serves it.
func (s *story) keeps(ctx context.Context, holder *fleet.Tenant, node string, a netip.Addr, cut *fleet.Proxy) error {
	if err := s.IsMember(ctx, holder, node, "draining", fleet.WaitsFor(cut.Name)); err != nil {
		return fmt.Errorf("%s: %w", node, err)
	}
	if err := s.IsReleasing(ctx, holder, a); err != nil {
		return err
	}
	waits := s.Tenants[1]
	o, err := service(ctx, waits, "scarce")
	if err != nil {
		return err
	}
	if got, err := addressOf(o); err == nil {
		return fmt.Errorf("%s got %s while %s had not said that it is gone", waits.Name(), got, cut.Name)
	}
	return s.answers(ctx, holder, a, cut)
}

// serveWithout makes a Service and waits until it has an address and answers through all proxies but one.
func (s *story) serveWithout(ctx context.Context, t *fleet.Tenant, name string, without *fleet.Proxy) (netip.Addr, error) {
	if err := t.Apply(ctx, newService(name)); err != nil {
		return netip.Addr{}, err
	}
	a, err := awaitAddress(ctx, t, name)
	if err != nil {
		return a, err
	}
	if err := s.awaitNodePorts(ctx, t, a); err != nil {
		return a, err
	}
	for _, p := range s.Proxies {
		if p == without {
			continue
		}
		if err := s.answers(ctx, t, a, p); err != nil {
			return a, err
		}
	}
	return a, nil
}

// disable annotates a Node so that it gets nothing new, as a person does; value nil ends that.
func disable(ctx context.Context, t *fleet.Tenant, node string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.DisabledAnnotation: value}}})
	if err != nil {
		return err
	}
	if err := t.API.Patch(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating %s of %s: %w", node, t.Name(), err)
	}
	return nil
}

// awaitMember waits until the hub says that of a tenant's node, with that message.
func (s *story) awaitMember(ctx context.Context, t *fleet.Tenant, node, state, message string) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%s of %s to be %q: %s", node, t.Name(), state, message), func(ctx context.Context) error {
		return s.IsMember(ctx, t, node, state, message)
	})
}

// awaitBlocked waits until the pool scarce says that a proxy holds up the release of its address.
func (s *story) awaitBlocked(ctx context.Context, p *fleet.Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "pool scarce to name "+p.Name, func(ctx context.Context) error { return s.IsBlocked(ctx, "scarce", p.Name) })
}
