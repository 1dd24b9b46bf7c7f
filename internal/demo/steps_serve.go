package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// created: a Service gets an address in its status, and the first request to it is
// answered through each proxy.
func created(ctx context.Context, s *story) (string, error) {
	objects, err := s.Network.Example("web.yaml")
	if err != nil {
		return "", err
	}
	for _, t := range s.Tenants {
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				if err := t.Apply(ctx, o.DeepCopy()); err != nil {
					return "", err
				}
			}
		}
	}
	lines := []string{}
	for _, t := range s.Tenants {
		if err := awaitReplicas(ctx, t, "web", 3); err != nil {
			return "", err
		}
		began := time.Now()
		for _, o := range objects {
			if o.GetKind() == "Service" {
				if err := t.Apply(ctx, o.DeepCopy()); err != nil {
					return "", err
				}
			}
		}
		a, err := awaitAddress(ctx, t, "web")
		if err != nil {
			return "", err
		}
		published := time.Since(began)
		if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
			return "", err
		}
		s.web = append(s.web, a)
		lines = append(lines, fmt.Sprintf("%s: %s after %s", t.Name(), a, published.Round(time.Millisecond)))
	}
	return strings.Join(lines, ", ") + "; first request answered through " + s.proxyNames(), nil
}

func (s *story) proxyNames() string {
	names := []string{}
	for _, p := range s.Proxies {
		names = append(names, p.Name)
	}
	return strings.Join(names, " and ")
}

// spread: requests reach all Pods, through each proxy.
func spread(ctx context.Context, s *story) (string, error) {
	const requests = 300
	lines := []string{}
	for i, t := range s.Tenants {
		pods, err := awaitPods(ctx, t, 3)
		if err != nil {
			return "", err
		}
		for _, p := range s.Proxies {
			count, err := s.ask(ctx, t, "web", p.Way(s.web[i], webPort), requests)
			if err != nil {
				return "", err
			}
			shares := []string{}
			for _, pod := range pods {
				// An even share has a spread of 8; half of it is six times that away.
				if count[pod] < requests/len(pods)/2 {
					return "", fmt.Errorf("%s through %s: Pod %s answered %d of %d requests, want about %d", t.Name(), p.Name, pod, count[pod], requests, requests/len(pods))
				}
				shares = append(shares, fmt.Sprint(count[pod]))
			}
			lines = append(lines, fmt.Sprintf("%s through %s %s", t.Name(), p.Name, strings.Join(shares, "/")))
		}
	}
	return fmt.Sprintf("%d requests each: %s", requests, strings.Join(lines, ", ")), nil
}

// ask makes requests one after the other and counts the answers by Pod; each must be right.
func (s *story) ask(ctx context.Context, t *fleet.Tenant, app string, w traffic.Way, requests int) (map[string]int, error) {
	allow, count := t.Pods.Allow(app), map[string]int{}
	for range requests {
		begun := time.Now()
		answer, err := ask(ctx, w)
		s.judged.Add(1)
		if err != nil {
			return nil, fmt.Errorf("%s through %s: %w", t.Name(), w.Name, err)
		}
		if why := allow(answer.Identity, begun); why != "" {
			return nil, fmt.Errorf("%s through %s: %s", t.Name(), w.Name, why)
		}
		count[answer.Pod]++
	}
	return count, nil
}

// secondTenant: the Service of the same name in another tenant has an address of
// its own, and no request to either is answered by the other.
func secondTenant(ctx context.Context, s *story) (string, error) {
	if s.web[0] == s.web[1] {
		return "", fmt.Errorf("both tenants' Service web has %s", s.web[0])
	}
	_, measured, err := s.window(ctx, func(context.Context) error { return nil })
	return fmt.Sprintf("%s and %s, no mixing: %s", s.web[0], s.web[1], measured), err
}

// scale sets the replicas of a Deployment.
func scale(ctx context.Context, t *fleet.Tenant, name string, replicas int) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := t.API.Patch(ctx, d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		return fmt.Errorf("scaling %s's %s to %d: %w", t.Name(), name, replicas, err)
	}
	return awaitReplicas(ctx, t, name, replicas)
}

// awaitReplicas waits until that many Pods are ready and no other is left but those that end.
func awaitReplicas(ctx context.Context, t *fleet.Tenant, name string, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%d Pods of %s's %s", replicas, t.Name(), name), func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := t.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration < d.Generation || int(d.Status.Replicas) != replicas || int(d.Status.ReadyReplicas) != replicas {
			return fmt.Errorf("%d are there, %d ready", d.Status.Replicas, d.Status.ReadyReplicas)
		}
		return nil
	})
}

// awaitPods waits until that many Pods run, and returns their names in order.
func awaitPods(ctx context.Context, t *fleet.Tenant, replicas int) ([]string, error) {
	if err := awaitReplicas(ctx, t, "web", replicas); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	names := []string{}
	err := testkit.Poll(ctx, look, fmt.Sprintf("word of %d Pods of %s's web", replicas, t.Name()), func(context.Context) error {
		if names = t.Pods.Running("web"); len(names) != replicas {
			return fmt.Errorf("%d run", len(names))
		}
		return nil
	})
	return names, err
}

// scaledUp: the new Pods get requests, and nothing fails.
func scaledUp(ctx context.Context, s *story) (string, error) {
	const replicas = 6
	t := s.Tenants[0]
	if err := scale(ctx, t, "web", 3); err != nil { // there may be as many already, where it is told again
		return "", err
	}
	pods := []string{}
	reports, measured, err := s.window(ctx, func(ctx context.Context) (err error) {
		if err := scale(ctx, t, "web", replicas); err != nil {
			return err
		}
		pods, err = awaitPods(ctx, t, replicas)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := eachAnswers(&reports[0], pods); err != nil {
		return "", err
	}
	return fmt.Sprintf("to %d, each Pod answers; %s", replicas, measured), nil
}

// scaledDown: Pods that end get no request any more, their open connections stay,
// and nothing fails.
func scaledDown(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	if err := scale(ctx, t, "web", 6); err != nil {
		return "", err
	}
	if _, err := awaitPods(ctx, t, 6); err != nil {
		return "", err
	}
	pods := []string{}
	reports, measured, err := s.window(ctx, func(ctx context.Context) (err error) {
		if err := scale(ctx, t, "web", 2); err != nil {
			return err
		}
		pods, err = awaitPods(ctx, t, 2)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := eachAnswers(&reports[0], pods); err != nil {
		return "", err
	}
	return fmt.Sprintf("from 6 to 2, no answer of an ended Pod; %s", measured), scale(ctx, t, "web", 3)
}

// noticedInKernel is when no packet goes to a dead node any more: two checks 2 s apart, after up to 2 s and a jitter.
const noticedInKernel = 6 * time.Second

// judgeDeath judges a window in which a node of the first tenant died, at some moment between two. A proxy that is a process tries
// another node. A kernel that rewrites packets can't: what is lost there is what goes to the dead node until the checks have failed
// twice. Nothing else may fail, and connections that are open stay open.
func (s *story) judgeDeath(reports []traffic.Report, killing, killed time.Time) error {
	if !s.inKernel {
		return s.nothingFailed(reports...)
	}
	return errors.Join(s.onlyBetween(&reports[0], killing, killed.Add(noticedInKernel)), verdict(reports[0].AllHeld()), s.nothingFailed(reports[1]))
}

// nodeKilledInKernel: a node's ports close, and nothing fails but what is on its way there until that is noticed; and it comes back.
func nodeKilledInKernel(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	node := t.Nodes()[1].Name
	killing, killed := time.Time{}, time.Time{} // it died in between
	reports, err := s.measure(ctx, holdAll, func(ctx context.Context) error {
		killing = time.Now()
		if err := t.KillNode(ctx, node); err != nil {
			return err
		}
		killed = time.Now()
		return pause(ctx, noticedInKernel)
	})
	if err != nil {
		return "", err
	}
	if err := s.judgeDeath(reports, killing, killed); err != nil {
		return "", err
	}
	_, back, err := s.window(ctx, func(ctx context.Context) error { return t.ReviveNode(ctx, node) })
	return fmt.Sprintf("%s dead: %d of %d requests lost within %s, none after; %d of %d held; back: %s",
		node, reports[0].Failed, reports[0].Sent, noticedInKernel, reports[0].Held, reports[0].Held, back), err
}

// nodeKilled: a node's ports close, and nothing fails; 2 s later no proxy tries it
// any more but with health checks; and it comes back.
func nodeKilled(ctx context.Context, s *story) (string, error) {
	if s.inKernel {
		return nodeKilledInKernel(ctx, s)
	}
	t := s.Tenants[0]
	node := t.Nodes()[1].Name
	before, err := s.connectsBy(ctx, t, node)
	if err != nil {
		return "", err
	}
	var killed, noticed, after []float64
	_, dead, err := s.window(ctx, func(ctx context.Context) (err error) {
		if killed, err = s.connectsBy(ctx, t, node); err != nil {
			return err
		}
		if err := t.KillNode(ctx, node); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		noticed, err = s.connectsBy(ctx, t, node)
		return err
	})
	if err != nil {
		return "", err
	}
	if after, err = s.connectsBy(ctx, t, node); err != nil {
		return "", err
	}
	tries := []string{}
	for i, p := range s.Proxies {
		if killed[i] <= before[i] && len(s.busy) == 0 {
			return "", fmt.Errorf("%s counted no connections to %s before it was killed: the claim could not fail", p.Name, node)
		}
		if after[i] > noticed[i] {
			return "", fmt.Errorf("%s tried %s %.0f times more than 2 s after it was killed", p.Name, node, after[i]-noticed[i])
		}
		tries = append(tries, fmt.Sprintf("%.0f by %s", noticed[i]-killed[i], p.Name))
	}
	_, back, err := s.window(ctx, func(ctx context.Context) error {
		if err := t.ReviveNode(ctx, node); err != nil {
			return err
		}
		return s.awaitConnects(ctx, t, node, after)
	})
	return fmt.Sprintf("%s dead: %s; tries %s within 2 s, 0 in 5 s after; back: %s", node, dead, strings.Join(tries, ", "), back), err
}

// connectsBy reads from each proxy how many connections it tried to a node.
func (s *story) connectsBy(ctx context.Context, t *fleet.Tenant, node string) ([]float64, error) {
	counts := []float64{}
	for _, p := range s.Proxies {
		n, err := p.Connects(ctx, t.Name(), node)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// awaitConnects waits until each proxy uses a node again.
func (s *story) awaitConnects(ctx context.Context, t *fleet.Tenant, node string, than []float64) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "connections to "+node+" by each proxy", func(ctx context.Context) error {
		now, err := s.connectsBy(ctx, t, node)
		if err != nil {
			return err
		}
		for i, p := range s.Proxies {
			if now[i] <= than[i] {
				return fmt.Errorf("%s makes none", p.Name)
			}
		}
		return nil
	})
}
