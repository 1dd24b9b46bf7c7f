package differential_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// judge is an error unless all worlds answer a question as they should, within that time.
func (s *site) judge(ctx context.Context, q question, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	to := at(address(node(q.node)), q.port)
	if q.six {
		to = at(address6(node(q.node)), q.port)
	}
	return testkit.Poll(ctx, 20*time.Millisecond, fmt.Sprintf("node-%d port %d", q.node, q.port), func(ctx context.Context) error {
		seen := make([]string, len(s.worlds))
		done := make(chan struct{})
		for i, w := range s.worlds {
			go func() {
				defer func() { done <- struct{}{} }()
				seen[i] = q.how(ctx, w, to)
			}()
		}
		for range s.worlds {
			<-done
		}
		var errs []error
		for i, w := range s.worlds {
			want := q.want
			if w.name == "hollow" && q.hollow != "" {
				want = q.hollow
			}
			if seen[i] != want && !(strings.HasSuffix(want, " ") && strings.HasPrefix(seen[i], want)) {
				errs = append(errs, fmt.Errorf("%s: %s, want %s", w.name, seen[i], want))
			}
			if q.hollow == "" && seen[i] != seen[0] {
				errs = append(errs, fmt.Errorf("%s and %s differ: %s", s.worlds[0].name, w.name, seen[i]))
			}
		}
		return errors.Join(errs...)
	})
}

func TestHollowNodesAreSeenAsKubeProxyIs(t *testing.T) {
	n := newNetwork(t)
	s := startSite(t, n, false)
	proxies := s.serveForReal(n)
	for _, e := range examples() {
		t.Run(e.name, func(t *testing.T) { s.play(t, e) })
	}
	t.Run("a node's health", func(t *testing.T) { s.playNode(t, proxies[1]) })
}

// playNode is what kube-proxy says of its node, as the node leaves. Nothing comes after it.
func (s *site) playNode(t *testing.T, proxy *testkit.Process) {
	const healthz = 10256
	ask := func(all ...question) {
		t.Helper()
		for _, q := range all {
			if err := s.judge(t.Context(), q, soon); err != nil {
				t.Error(err)
			}
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
	change := func(do func()) {
		t.Helper()
		err := s.api.Get(t.Context(), client.ObjectKeyFromObject(node), node)
		before := client.MergeFrom(node.DeepCopy())
		do()
		if err = errors.Join(err, s.api.Patch(t.Context(), node, before)); err != nil {
			t.Fatal(err)
		}
	}
	s.play(t, example{name: "leaving", spec: corev1.ServiceSpec{Ports: one(30200)}, steps: []step{{endpoints: []string{"a1", "b1"}, ask: both(tcpAt, 30200, "a1 b1")}}})
	ask(both(healthAt, healthz, "200 ")...)
	change(func() { node.Spec.Unschedulable = true })
	ask(both(healthAt, healthz, "200 ")...)
	leaves := corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}
	change(func() { node.Spec.Taints = append(node.Spec.Taints, leaves) })
	ask(healthAt(1, healthz, "200 "), healthAt(2, healthz, "503 "), tcpAt(2, 30200, "a1 b1"))
	change(func() { node.Spec.Taints, node.Spec.Unschedulable = nil, false })
	ask(healthAt(2, healthz, "200 "))
	change(func() { node.Finalizers = append(node.Finalizers, "example.com/keeps") })
	if err := s.api.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	ask(healthAt(2, healthz, "503 "), tcpAt(2, 30200, "a1 b1"))
	change(func() { node.Finalizers = nil })
	ask(healthAt(2, healthz, refused), tcpAt(2, 30200, "a1 b1").but(refused, rulesStay))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	select {
	case <-proxy.Done():
	case <-ctx.Done():
		t.Error("kube-proxy of a Node that is deleted runs on")
	}
}
