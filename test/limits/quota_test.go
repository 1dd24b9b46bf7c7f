package limits_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counts waits until the controller of ResourceQuotas knows our kinds: it looks for new kinds now and then, and at quotas that
// name one which it didn't know every five minutes only.
func (h *hub) counts() {
	h.t.Helper()
	tries := 0
	h.eventually("a new ResourceQuota to count our kinds", func(ctx context.Context) error {
		tries++
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "try-" + strconv.Itoa(tries)}}
		q.Spec.Hard = corev1.ResourceList{"count/targetgroups.fairlead.dev": resource.MustParse("1"), "count/loadbalancers.cluster.x-k8s.io": resource.MustParse("1")}
		if err := h.api.Create(ctx, q); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return testkit.Poll(within, 20*time.Millisecond, "its counts", func(ctx context.Context) error {
			if err := h.api.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			if len(q.Status.Used) < 2 {
				return fmt.Errorf("it counts %v", q.Status.Used)
			}
			return nil
		})
	})
}

// tooMany: of thousands of objects the API server takes as many as the namespace's ResourceQuota says.
func (s *shop) tooMany() {
	s.t.Helper()
	quota := &corev1.ResourceQuota{}
	s.eventually("the ResourceQuota to count", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: "loud", Name: "fairlead"}, quota); err != nil {
			return err
		}
		if n := len(quota.Status.Used); n != 3 {
			return fmt.Errorf("it counts %d things", n)
		}
		return nil
	})
	target := startTarget(s.t)
	c := s.client(config(s.t, s.loud))
	for _, what := range []struct {
		tried, most int64
		make        func(i int) client.Object
	}{
		{200, 2*20 + 10, func(i int) client.Object { return loadBalancer("loud", "noise-"+strconv.Itoa(i), target) }},
		{200, 20 + 10 - 1, func(i int) client.Object { // one is there
			g := targets("loud", target)
			g.Name = "noise-" + strconv.Itoa(i)
			return g
		}},
	} {
		var taken, refused atomic.Int64
		all, ctx := errgroup.WithContext(s.t.Context())
		all.SetLimit(16)
		for i := range int(what.tried) {
			all.Go(func() error {
				switch err := c.Create(ctx, what.make(i)); {
				case err == nil:
					taken.Add(1)
				case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
					refused.Add(1)
				default:
					return err
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			s.t.Fatal(err)
		}
		if taken.Load() != what.most || taken.Load()+refused.Load() != what.tried {
			s.t.Errorf("of %d %T %d were taken and %d refused, want %d taken", what.tried, what.make(0), taken.Load(), refused.Load(), what.most)
		}
	}
}

// hugeGroup is a TargetGroup as large as the schema lets it be, but for names that would have to be looked up; with more it is larger.
func hugeGroup(n, more int) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{}
	g.Namespace, g.Name = "loud", "noise-"+strconv.Itoa(n%20)
	g.Annotations = map[string]string{"noise": strings.Repeat("x", 240<<10)}
	for i := range 100 + more {
		t := v1alpha1.Target{Name: fmt.Sprintf("%0253d", i), UID: fmt.Sprintf("%032d%032d", i, n), Zone: strings.Repeat("z", 63)}
		for a := range 8 {
			t.Addresses = append(t.Addresses, fmt.Sprintf("fd00:1111:2222:3333:4444:5555:%04x:%04x", n%65536, 8*i+a))
		}
		g.Spec.Targets = append(g.Spec.Targets, t)
	}
	return g
}

// tooLarge: what is larger than the schema and the API server admit is refused.
func (s *shop) tooLarge() {
	s.t.Helper()
	c := s.client(config(s.t, s.loud))
	notes, body := hugeGroup(0, 0), hugeGroup(0, 0)
	notes.Annotations["more"] = strings.Repeat("x", 20<<10)
	body.Labels = map[string]string{"x": strings.Repeat("x", 4<<20)}
	for name, g := range map[string]*v1alpha1.TargetGroup{"a target more": hugeGroup(0, 1), "more annotations": notes, "4 MiB": body} {
		g.Name = "large"
		err := c.Create(s.t.Context(), g)
		if !apierrors.IsInvalid(err) && !apierrors.IsRequestEntityTooLargeError(err) {
			s.t.Errorf("%s: got %v, want it to be refused for its size", name, err)
		}
	}
}

// hugeWrite replaces all targets of a TargetGroup that is as large as it may be.
func (s *shop) hugeWrite(n int) (client.Object, string) {
	g := hugeGroup(n, 0)
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": g.Annotations}, "spec": g.Spec})
	if err != nil {
		panic(err) // plain values
	}
	g.Spec, g.Annotations = v1alpha1.TargetGroupSpec{}, nil
	return g, string(b)
}
