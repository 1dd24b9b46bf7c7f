package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// autoscalerTaint is what the cluster autoscaler puts on a Node that it is about to delete.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

func drainPlot(s *story) []string {
	return []string{
		fmt.Sprintf("`fairlead drain node` takes a node of %s out, the autoscaler's taint one of %s. Expected: open connections", s.Tenants[0].Name(), s.Tenants[1].Name()),
		"stay, the command shows how many there are, new ones go elsewhere. Once it says Drained both nodes die, and no",
		"request fails.",
	}
}

// drain: nodes that are told to go get no new connection, and keep the open ones; when the command says that one is drained, nothing is
// lost with it.
func drain(ctx context.Context, s *story) (string, error) {
	t, other := s.Tenants[0], s.Tenants[1]
	node, tainted := t.Nodes()[2].Name, other.Nodes()[2].Name
	open, err := traffic.Hold(ctx, s.services(holdAll)[0])
	if err != nil {
		return "", err
	}
	defer open.Close()
	seen := ""
	_, measured, err := s.windowHolding(ctx, [tenants]int{0, held}, func(ctx context.Context) error {
		if err := taint(ctx, other, tainted, `[{"key":"`+autoscalerTaint+`","effect":"NoSchedule"}]`); err != nil {
			return err
		}
		command, err := s.command(ctx, "drain", "node", node, "--tenant="+t.Name(), "--tenant-kubeconfig="+t.Kubeconfig())
		if err != nil {
			return err
		}
		defer command.end()
		both := []struct {
			*fleet.Tenant
			node   string
			before []float64
		}{{t, node, nil}, {other, tainted, nil}}
		for i, d := range both {
			if err := s.awaitOpen(ctx, d.Tenant, d.node); err != nil {
				return err
			}
			if both[i].before, err = s.connectsBy(ctx, d.Tenant, d.node); err != nil {
				return err
			}
			if slices.Contains(both[i].before, 0) && !s.inKernel {
				return fmt.Errorf("of %s of %s proxies counted %v connections before it drained: the claim could not fail", d.node, d.Name(), both[i].before)
			}
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		progress, err := command.says(ctx, "open connection")
		if err != nil {
			return err
		}
		s.note("both drain; the command says %q", progress)
		if lost := open.Lost(); len(lost) > 0 {
			return fmt.Errorf("%d of %d open connections were lost while %s drained; first: %s", len(lost), held, node, lost[0])
		}
		if command.ended() {
			return fmt.Errorf("`fairlead drain` ended while connections were open: %s", command.text())
		}
		lines := []string{}
		for _, d := range both {
			m, err := s.Member(ctx, d.Tenant, d.node)
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%s of %s: %d open", d.node, d.Name(), m.OpenConnections))
			after, err := s.connectsBy(ctx, d.Tenant, d.node)
			if err != nil {
				return err
			}
			if !slices.Equal(after, d.before) {
				return fmt.Errorf("%s of %s drains, and proxies tried it: they counted %v connections, then %v", d.node, d.Name(), d.before, after)
			}
		}
		open.Close()
		closed := time.Now()
		if err := command.await(ctx); err != nil {
			return err
		}
		if !strings.Contains(command.text(), "Drained") {
			return fmt.Errorf("`fairlead drain` doesn't say Drained: %s", command.text())
		}
		s.note("%d connections of %s stayed, and are closed now by their clients: the command says Drained after %s", held, t.Name(), time.Since(closed).Round(time.Millisecond))
		for _, d := range both {
			if err := d.KillNode(ctx, d.node); err != nil {
				return err
			}
		}
		s.note("both nodes have died")
		seen = strings.Join(lines, ", ") + ", none lost, no new ones there; drained after they had ended"
		return nil
	})
	if err != nil {
		return "", err
	}
	undo, err := s.command(ctx, "drain", "node", node, "--tenant="+t.Name(), "--tenant-kubeconfig="+t.Kubeconfig(), "--undo")
	if err != nil {
		return "", err
	}
	defer undo.end()
	if err := undo.await(ctx); err != nil {
		return "", err
	}
	if err := taint(ctx, other, tainted, "null"); err != nil {
		return "", err
	}
	if err := t.ReviveNode(ctx, node); err != nil {
		return "", err
	}
	if err := other.ReviveNode(ctx, tainted); err != nil {
		return "", err
	}
	if err := s.awaitMember(ctx, t, node, "", ""); err != nil {
		return "", err
	}
	return "seen: " + seen + "; both dead: " + measured, s.awaitMember(ctx, other, tainted, "", "")
}

// taint sets all taints of a Node.
func taint(ctx context.Context, t *fleet.Tenant, node, taints string) error {
	o := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := t.API.Patch(ctx, o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"taints":%s}}`, taints))); err != nil {
		return fmt.Errorf("tainting %s of %s: %w", node, t.Name(), err)
	}
	return nil
}

// awaitOpen waits until the hub says that a node drains and that all it waits for is open connections to it by each proxy.
func (s *story) awaitOpen(ctx context.Context, t *fleet.Tenant, node string) error {
	waits := []string{}
	for _, p := range s.Proxies {
		waits = append(waits, p.Name+" has open connections")
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%s of %s to have open connections alone", node, t.Name()), func(ctx context.Context) error {
		m, err := s.Member(ctx, t, node)
		if err != nil {
			return err
		}
		for _, w := range waits {
			if m.State != "draining" || m.OpenConnections == 0 || !strings.Contains(m.Message, w) {
				return fmt.Errorf("it is %q with %d open: %s", m.State, m.OpenConnections, m.Message)
			}
		}
		return nil
	})
}
