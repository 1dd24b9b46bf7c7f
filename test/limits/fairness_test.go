package limits_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// changes are as many as one measure takes.
	changes = 7
	// better is how much faster it must be than in the control.
	better = 2
	// growth is how many MiB more a process may need in a flood.
	growth = 192
)

// shop is a hub with a manager, a proxy, a tenant that asks for all that it can get, and one that wants little.
type shop struct {
	*hub
	manager, proxy *testkit.Process
	loud           string // kubeconfig of the loud tenant's agent
	quiet          client.Client
	web            *clusterv1.LoadBalancer // the quiet tenant's
}

// What one tenant does costs others little.
func TestTenants(t *testing.T) {
	// As many seats as two processors can do something with.
	h := startHub(t, testkit.Options{Name: "hub", PriorityAndFairness: true, Quota: true,
		APIServerFlags:  []string{"--max-requests-inflight=60", "--max-mutating-requests-inflight=30"},
		ControllerFlags: []string{"--gc-discovery-period=1s"}})
	h.counts()
	h.basics(tenant("loud", &v1alpha1.TenantQuota{LoadBalancers: ptr.To[int32](20), Targets: ptr.To[int32](20)}), tenant("quiet", nil))
	s := &shop{hub: h, manager: h.manager(h.managerAccount()), proxy: kubetest.StartProcess(t, h.proxyCommand("edge-1", h.proxyAccount("edge-1"), t.TempDir()))}
	s.loud = h.account("loud", v1alpha1.AgentServiceAccount)
	s.quiet = h.client(config(t, h.account("quiet", v1alpha1.AgentServiceAccount)))
	target := startTarget(t)
	s.web = loadBalancer("quiet", "web", target)
	h.create(targets("quiet", target), targets("loud", target), s.web)
	h.served(s.web)

	s.tooMany()
	s.tooLarge()
	s.measure() // warm
	_, alone := s.measure()
	s.beside("many writes", alone, 200, 150, s.smallWrite)
	s.control()
	if err := rbac.InstallHub(t.Context(), h.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	s.beside("huge objects", alone, 500, 30, s.hugeWrite) // each costs the API server much of a second
}

// beside measures beside a flood: a change of another tenant takes at most so many times what it takes alone.
func (s *shop) beside(name string, alone time.Duration, worse time.Duration, clients int, patch func(n int) (client.Object, string)) {
	s.t.Helper()
	before := [2]int64{memory(s.t, s.manager), memory(s.t, s.proxy)}
	stop := s.flood(clients, patch)
	write, effect := s.measure()
	n := stop()
	after := [2]int64{memory(s.t, s.manager), memory(s.t, s.proxy)}
	s.t.Logf("%s, %d of them: a change of another is answered after %s, in effect after %s (alone %s); manager and proxy have %v MiB, before %v", name, n, write, effect, alone, after, before)
	if effect > worse*alone {
		s.t.Errorf("%s: a change of another tenant takes %s, alone it takes %s", name, effect, alone)
	}
	for i, who := range []string{"manager", "proxy"} {
		if after[i]-before[i] > growth {
			s.t.Errorf("%s: the %s grew from %d to %d MiB", name, who, before[i], after[i])
		}
	}
}

// control: where tenants share one queue, one that writes as fast as it can costs others a lot. Without any flows of ours
// it doesn't: by default ServiceAccounts have queues of their own as well, but manager and proxies wait among them.
func (s *shop) control() {
	s.t.Helper()
	stop := s.flood(150, s.smallWrite)
	fair, _ := s.measure()
	s.shareOneQueue()
	shared, _ := s.measure()
	n := stop()
	s.t.Logf("beside %d writes one of another is answered after %s in queues of its own, %s in one queue for all", n, fair, shared)
	if shared < better*fair {
		s.t.Errorf("in one queue for all a write is answered after %s, in queues of its own after %s: what was measured is not the queues' work", shared, fair)
	}
}

// measure has the quiet tenant change what it wants, again and again: how long a write takes to be answered, and to be in effect.
func (s *shop) measure() (write, effect time.Duration) {
	s.t.Helper()
	var writes, effects []time.Duration
	for range changes {
		began := time.Now()
		patch := fmt.Sprintf(`{"spec":{"ports":[{"name":"http","port":%d,"protocol":"TCP","targetPort":%d}]}}`, 20000+s.web.Generation, s.web.Spec.Ports[0].TargetPort)
		if err := s.quiet.Patch(s.t.Context(), s.web, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			s.t.Fatal(err)
		}
		writes = append(writes, time.Since(began))
		s.served(s.web)
		effects = append(effects, time.Since(began))
	}
	slices.Sort(writes)
	slices.Sort(effects)
	return writes[changes/2], effects[changes/2]
}

// flood has clients of the loud tenant write as fast as they are answered, until the function that it returns is called. That
// returns how many writes were taken.
func (s *shop) flood(clients int, patch func(n int) (client.Object, string)) (stop func() int64) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	var taken atomic.Int64
	for i := range clients {
		c := s.client(config(s.t, s.loud)) // with a connection of its own
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += clients {
				o, text := patch(n)
				if c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(text))) == nil {
					taken.Add(1)
				}
			}
		})
	}
	return func() int64 {
		cancel()
		all.Wait()
		if taken.Load() == 0 {
			s.t.Error("nothing of the flood was taken")
		}
		return taken.Load()
	}
}

// smallWrite changes what is wanted: another port.
func (s *shop) smallWrite(n int) (client.Object, string) {
	l := &clusterv1.LoadBalancer{}
	l.Namespace, l.Name = "loud", "noise-"+strconv.Itoa(n%20)
	return l, fmt.Sprintf(`{"spec":{"ports":[{"port":%d,"protocol":"TCP","targetPort":80}]}}`, 10000+n%1000)
}

// shareOneQueue takes away what tells tenants apart.
func (s *shop) shareOneQueue() {
	s.t.Helper()
	level, schema := &flowcontrolv1.PriorityLevelConfiguration{}, &flowcontrolv1.FlowSchema{}
	level.Name, schema.Name = "fairlead-tenants", "fairlead-tenants"
	before := map[client.Object]client.Patch{}
	for _, o := range []client.Object{level, schema} {
		if err := s.api.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			s.t.Fatal(err)
		}
		before[o] = client.MergeFrom(o.DeepCopyObject().(client.Object))
	}
	queuing := level.Spec.Limited.LimitResponse.Queuing
	queuing.Queues, queuing.HandSize, queuing.QueueLengthLimit = 1, 1, 1000
	schema.Spec.DistinguisherMethod = nil
	for _, o := range []client.Object{level, schema} {
		if err := s.api.Patch(s.t.Context(), o, before[o]); err != nil {
			s.t.Fatal(err)
		}
	}
}
