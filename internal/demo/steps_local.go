package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// localNoticed is when no request goes any more to a node whose last Pod of a Service was told to end: two checks 2 s apart, after up
// to 2 s and a jitter. The Pod of examples/local.yaml would answer for 3 s more.
const localNoticed = 6 * time.Second

func localPolicyPlot(s *story) []string {
	nodes := s.Tenants[1].Nodes()
	return []string{
		fmt.Sprintf("a Service with externalTrafficPolicy Local, whose one Pod moves from %s to %s. Expected: requests go to a node", nodes[0].Name, nodes[2].Name),
		fmt.Sprintf("with a Pod alone, none fails, and none is answered by the old Pod %s after it was told to end.", localNoticed),
	}
}

// localPolicy: a Service that is served only by nodes with a Pod of it keeps being served while its Pod moves to another node.
func localPolicy(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[1]
	from, to := t.Nodes()[0].Name, t.Nodes()[2].Name
	objects, err := s.Network.Example("local.yaml")
	if err != nil {
		return "", err
	}
	if err := t.Apply(ctx, objects...); err != nil {
		return "", err
	}
	old, err := awaitLonePod(ctx, t, "")
	if err != nil {
		return "", err
	}
	a, err := awaitAddress(ctx, t, "local")
	if err != nil {
		return "", err
	}
	if err := s.awaitLocal(ctx, t, from); err != nil {
		return "", err
	}
	service := traffic.Service{Name: t.Name() + "'s local", Rate: rate, Held: 20, Allow: t.Pods.AllowEnding("local", localNoticed)}
	for _, p := range s.Proxies {
		service.Ways = append(service.Ways, p.Way(a, webPort))
	}
	young := ""
	reports, err := s.around(ctx, []traffic.Service{service}, func(ctx context.Context) error {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":%q}}}}}`, to))
		if err := t.API.Patch(ctx, d, patch); err != nil {
			return fmt.Errorf("moving %s's local to %s: %w", t.Name(), to, err)
		}
		if young, err = awaitLonePod(ctx, t, old); err != nil {
			return err
		}
		s.note("%s at %s has been told to end, %s at %s is there", old, from, young, to)
		return pause(ctx, localNoticed)
	})
	if err != nil {
		return "", err
	}
	r := &reports[0]
	if err := errors.Join(s.nothingFailed(*r), eachAnswers(r, []string{old, young})); err != nil {
		return "", err
	}
	if len(r.Pods) > 2 {
		return "", fmt.Errorf("%v answered, want %s and %s", r.Pods, old, young)
	}
	if err := s.awaitLocal(ctx, t, to); err != nil {
		return "", err
	}
	if err := deleteService(ctx, t, "local"); err != nil {
		return "", err
	}
	return fmt.Sprintf("seen: %d answers from %s, then %d from %s, the only node that is used; %s", r.Pods[old], from, r.Pods[young], to, counts(reports)),
		t.API.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// awaitLonePod waits until one Pod of app local runs, another than that one, and returns its name.
func awaitLonePod(ctx context.Context, t *fleet.Tenant, than string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*soon)
	defer cancel()
	name := ""
	err := testkit.Poll(ctx, look, fmt.Sprintf("one Pod of %s's local, and not %q", t.Name(), than), func(ctx context.Context) error {
		running := t.Pods.Running("local")
		if len(running) != 1 || running[0] == than {
			return fmt.Errorf("there are %q", running)
		}
		name = running[0]
		d := &appsv1.Deployment{}
		if err := t.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "local"}, d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas < 1 {
			return errors.New("it is not ready")
		}
		return nil
	})
	return name, err
}

// awaitLocal waits until each proxy uses that node alone for the Service local: the others fail its health check, as each proxy reports.
func (s *story) awaitLocal(ctx context.Context, t *fleet.Tenant, node string) error {
	o, err := service(ctx, t, "local")
	if err != nil {
		return err
	}
	check, want := fmt.Sprintf("HTTP:%d/healthz", o.Spec.HealthCheckNodePort), []string{}
	for _, n := range t.Nodes() {
		if n.Name != node {
			want = append(want, n.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for _, p := range s.Proxies {
		err := testkit.Poll(ctx, look, fmt.Sprintf("%s to use %s alone, by %s", p.Name, node, check), func(ctx context.Context) error {
			r, failing := &v1alpha1.ProxyReport{}, []string{}
			if err := s.Hub.API.Get(ctx, client.ObjectKey{Namespace: t.Name(), Name: p.Name}, r); err != nil {
				return err
			}
			for _, m := range r.Members {
				if m.Check == check && m.State == v1alpha1.ReportedUnhealthy {
					failing = append(failing, m.Target)
				}
			}
			slices.Sort(failing)
			if !slices.Equal(failing, want) {
				return fmt.Errorf("it reports that %q fail", failing)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
