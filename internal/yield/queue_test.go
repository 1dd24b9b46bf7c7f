package yield_test

import (
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/yield"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

func TestWhatWasWokenComesLast(t *testing.T) {
	for name, c := range map[string]struct {
		queue workqueue.TypedRateLimitingInterface[string]
		want  []string
	}{
		"a controller's queue": {priorityqueue.New[string]("test"), []string{"new", "woken"}},
		"another":              {workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()), []string{"woken", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer c.queue.ShutDown()
			yield.Last(c.queue, "woken")
			c.queue.Add("new")
			var got []string
			for range 2 {
				k, _ := c.queue.Get()
				got = append(got, k)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}
