package differential_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestWrongHollowNodesAreFound: a suite that finds nothing proves nothing. Hollow nodes that are each told the other's address
// must not pass where the nodes of a Service differ.
func TestWrongHollowNodesAreFound(t *testing.T) {
	s := startSite(t, newNetwork(t), true)
	same := example{name: "a Service of which the nodes are alike", spec: corev1.ServiceSpec{Ports: one(30001)},
		steps: []step{{endpoints: allPods, ask: both(tcpAt, 30001, everyPod)}}}
	s.play(t, same)
	s.play(t, example{name: "one that only node-2 serves, which is at node-1's address", spec: local(30030, 30130),
		steps: []step{{endpoints: []string{"b1"}, ask: []question{tcpAt(1, 30030, "b1"), healthAt(1, 30130, "200 weight 1 ")}}}})
	for _, q := range []question{tcpAt(1, 30030, refused), tcpAt(2, 30030, "b1"), healthAt(1, 30130, "503 weight 0 "), healthAt(2, 30130, "200 weight 1 ")} {
		if err := s.judge(t.Context(), q, 500*time.Millisecond); err == nil {
			t.Errorf("nobody sees that node-%d's port %d is another node's", q.node, q.port)
		} else {
			t.Log(err)
		}
	}
}
