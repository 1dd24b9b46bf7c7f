package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// endsWithin is how long after the first word that a Pod ends an answer of it is still
// right: it listens on for a second, so that the word reaches every node first.
const endsWithin = 2 * time.Second

// PodTracker knows which Pods there were, and when.
type PodTracker struct {
	cluster string
	stop    context.CancelFunc // of the present watch

	mu   sync.Mutex
	pods map[string]trackedPod // by namespace/name
}

type trackedPod struct {
	labels map[string]string
	ends   time.Time // when it was first seen to end; zero: it runs
}

// trackPods watches the Pods of a cluster until it is stopped.
func trackPods(ctx context.Context, c *Cluster) (*PodTracker, error) {
	t := &PodTracker{cluster: c.Name(), stop: func() {}, pods: map[string]trackedPod{}}
	return t, t.watch(ctx, c)
}

// anew watches the Pods of a cluster that has taken the place of the one before: all that were there have ended.
func (t *PodTracker) anew(ctx context.Context, c *Cluster) error {
	t.stop()
	t.mu.Lock()
	for key, p := range t.pods {
		if p.ends.IsZero() {
			p.ends = time.Now()
			t.pods[key] = p
		}
	}
	t.mu.Unlock()
	return t.watch(ctx, c)
}

func (t *PodTracker) watch(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return fmt.Errorf("making a client of %s: %w", c.Name(), err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	factory := informers.NewSharedInformerFactory(client, 0)
	note := func(o any) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		p := o.(*v1.Pod)
		t.mu.Lock()
		defer t.mu.Unlock()
		key := p.Namespace + "/" + p.Name
		known := t.pods[key]
		known.labels = p.Labels
		if p.DeletionTimestamp != nil && known.ends.IsZero() {
			known.ends = time.Now()
		}
		t.pods[key] = known
	}
	registered, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, o any) { note(o) },
		DeleteFunc: note,
	})
	if err != nil {
		stop()
		return fmt.Errorf("watching the Pods of %s: %w", c.Name(), err)
	}
	factory.Start(running.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		stop()
		return fmt.Errorf("watching the Pods of %s: %w", c.Name(), context.Cause(ctx))
	}
	return nil
}

// Allow returns a judge of answers: they must come from this cluster's Pods with that label app, and not from one that was told to end.
func (t *PodTracker) Allow(app string) func(traffic.Identity, time.Time) string {
	return t.AllowEnding(app, endsWithin)
}

// AllowEnding is Allow where a Pod that was told to end may answer for that long, because its node has no other and is not found out
// before: of a Service with externalTrafficPolicy Local.
func (t *PodTracker) AllowEnding(app string, within time.Duration) func(traffic.Identity, time.Time) string {
	return func(who traffic.Identity, begun time.Time) string {
		if who.Cluster != t.cluster {
			return fmt.Sprintf("Pod %s of tenant %s answered for %s", who.Pod, who.Cluster, t.cluster)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		p, known := t.pods[who.Namespace+"/"+who.Pod]
		switch {
		case !known:
			return fmt.Sprintf("Pod %s/%s answered, which %s does not have", who.Namespace, who.Pod, t.cluster)
		case p.labels["app"] != app:
			return fmt.Sprintf("Pod %s/%s answered for app %s", who.Namespace, who.Pod, app)
		case !p.ends.IsZero() && begun.After(p.ends.Add(within)):
			return fmt.Sprintf("Pod %s/%s answered %s after it was told to end", who.Namespace, who.Pod, begun.Sub(p.ends).Round(time.Millisecond))
		}
		return ""
	}
}

// Running returns the names of the Pods with that label app that run, in order.
func (t *PodTracker) Running(app string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := []string{}
	for key, p := range t.pods {
		if p.labels["app"] == app && p.ends.IsZero() {
			_, name, _ := strings.Cut(key, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
