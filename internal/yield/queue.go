package yield

import (
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Last adds what was woken to a controller's queue, behind all else there is.
func Last[K comparable](q workqueue.TypedRateLimitingInterface[K], k K) {
	if p, ok := q.(priorityqueue.PriorityQueue[K]); ok {
		p.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, k)
		return
	}
	q.Add(k)
}
