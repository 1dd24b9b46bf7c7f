package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestABurst: a thousand Services at once cost four writes each, and a Node's change
// among them costs one in all.
func TestABurst(t *testing.T) {
	const services, creators = 1000, 16
	w := newWorld(t)
	w.addNode("n1", "10.0.0.1")
	w.addNode("n2", "10.0.0.2") // The last that serves would be spared.
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	count := w.count()
	began := time.Now()
	numbers := make(chan int)
	var all sync.WaitGroup
	for range creators {
		all.Go(func() {
			for i := range numbers {
				if err := w.tenant.api.Create(t.Context(), w.service(fmt.Sprintf("web-%04d", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range services {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	created := time.Since(began)
	w.eventually("all to be published", func(ctx context.Context) error {
		list := &v1.ServiceList{}
		if err := w.tenant.api.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		waiting := services
		for i := range list.Items {
			s := &list.Items[i]
			if len(s.Status.LoadBalancer.Ingress) > 0 && meta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionProgrammed) && service.Holds(s, service.InStatus) {
				waiting--
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d of %d wait", waiting, services)
		}
		return nil
	})
	t.Logf("%d Services created in %s, published after %s", services, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	events, rest := 0, map[string]int{}
	w.eventually("all events", func(context.Context) error {
		for _, x := range count.writes() {
			if x.Resource == "events" {
				events++
				continue
			}
			rest[x.Verb+" "+x.Resource]++
		}
		if events < services {
			return errors.New("some are still to come")
		}
		return nil
	})
	sum := events
	for what, n := range rest {
		sum += n
		t.Logf("%d × %s", n, what)
	}
	if sum > 4*services {
		t.Errorf("%d writes for %d Services", sum, services)
	}
	w.patchNode("n1", "", `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	w.group("nodes-0", "n1/10.0.0.1/Draining", "n2/10.0.0.2/Serving")
	w.create("last")
	w.published("last")
	for _, x := range count.writes() {
		if x.Name != "nodes-0" && x.Name != "last" && x.Name != w.lbKey("last").Name && x.Resource != "events" {
			t.Errorf("a Node's change cost %s %s %s", x.Verb, x.Resource, x.Name)
		}
	}
}
