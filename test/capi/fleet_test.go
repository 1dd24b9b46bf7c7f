package capi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fleet is how many Clusters are made at once.
	fleet = 100
	// fleetWithin is how soon all have their endpoint, and fleetMemory what the manager needs then, in megabytes.
	fleetWithin = time.Minute
	fleetMemory = 300
)

// BenchmarkClusters makes a hundred Clusters at once, without Machines, each with a load balancer of its control plane. It reports how long
// after a load balancer its Cluster's endpoint is there, when the last one is, and what the manager's memory is then.
func BenchmarkClusters(b *testing.B) {
	h := newHub(b)
	const namespace = "fleet"
	h.operators(namespace, "127.79.100.0/24", dataPlanes[0])
	s := h.watch(namespace)
	for b.Loop() {
		began := time.Now()
		for i := range fleet {
			h.create(fleetCluster(namespace, fmt.Sprintf("c-%03d", i))...)
		}
		kubetest.Eventually(b, 5*time.Minute, "the endpoints of all Clusters", func(context.Context) error { return s.has(fleet) })
		delays := s.delays()
		b.ReportMetric(0, "ns/op") // which says nothing: it is left out
		b.ReportMetric(delays[len(delays)/2].Seconds(), "s/p50")
		b.ReportMetric(delays[(len(delays)*99-1)/100].Seconds(), "s/p99")
		took, memory := s.last().Sub(began), resident(b, h.manager.PID())
		b.ReportMetric(took.Seconds(), "s/all")
		b.ReportMetric(memory, "MB-manager")
		if took > fleetWithin || memory > fleetMemory {
			b.Errorf("all endpoints were there after %s, and the manager has %.0f MB: at most %s and %d MB are wanted", took, memory, fleetWithin, fleetMemory)
		}
		h.provisioned(namespace)
	}
}

// fleetCluster is a Cluster with infrastructure in memory, and the load balancer of a control plane that it has not.
func fleetCluster(namespace, name string) []client.Object {
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"loadbalancer.cluster.x-k8s.io/name": name}}
	l := overHeldMembers(namespace)
	l.Name, l.Spec.ClusterName = name, name
	dev := infra("DevCluster", namespace, name)
	dev.SetAnnotations(map[string]string{"example.com/backend": "in-memory", capiv1.PausedAnnotation: ""}) // until its Cluster has an endpoint
	dev.Object["spec"] = map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}}
	return []client.Object{l, &capiv1.Cluster{ObjectMeta: metadata, Spec: capiv1.ClusterSpec{
		InfrastructureRef: capiv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevCluster", Name: name},
	}}, dev}
}

// provisioned lets the infrastructure of all Clusters go on, and waits until Cluster API has it, and still has our endpoints.
func (h *hub) provisioned(namespace string) {
	h.t.Helper()
	all := &capiv1.ClusterList{}
	if err := h.api.List(h.t.Context(), all, client.InNamespace(namespace)); err != nil {
		h.t.Fatal(err)
	}
	for _, c := range all.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+capiv1.PausedAnnotation+`":null}}}`))
		if err := h.api.Patch(h.t.Context(), infra("DevCluster", namespace, c.Name), patch); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, c := range all.Items {
		endpoint := c.Spec.ControlPlaneEndpoint
		wait(h.t, h.api, &c, soon, "infrastructure, and the endpoint as before", func(c *capiv1.Cluster) error {
			if c.Spec.ControlPlaneEndpoint != endpoint {
				return fmt.Errorf("its endpoint is %s", c.Spec.ControlPlaneEndpoint)
			}
			return isTrue(c.Status.Conditions, capiv1.ClusterInfrastructureReadyCondition)
		})
	}
}

// seen is when load balancers and Clusters were first seen to be ready for clients.
type seen struct {
	mu        sync.Mutex
	served    map[string]time.Time // load balancers, once they are
	published map[string]time.Time // Clusters, once they have an endpoint
}

// watch sees what becomes of the load balancers and Clusters of a namespace.
func (h *hub) watch(namespace string) *seen {
	h.t.Helper()
	s := &seen{served: map[string]time.Time{}, published: map[string]time.Time{}}
	objects, err := cache.New(h.RESTConfig(), cache.Options{Scheme: h.scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
	for _, o := range []client.Object{&clusterv1.LoadBalancer{}, &capiv1.Cluster{}} {
		informer, err := objects.GetInformer(ctx, o)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: s.see, UpdateFunc: func(_, o any) { s.see(o) }})
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return s
}

func (s *seen) see(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := func(of map[string]time.Time, name string) {
		if _, has := of[name]; !has {
			of[name] = time.Now()
		}
	}
	switch o := o.(type) {
	case *clusterv1.LoadBalancer:
		if meta.IsStatusConditionTrue(o.Status.Conditions, clusterv1.ConditionProgrammed) && len(o.Status.Addresses) > 0 {
			first(s.served, o.Name)
		}
	case *capiv1.Cluster:
		if o.Spec.ControlPlaneEndpoint.IsValid() {
			first(s.published, o.Name)
		}
	}
}

// has is an error unless that many Clusters have an endpoint, and are served.
func (s *seen) has(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.published) < n || len(s.served) < n {
		return fmt.Errorf("%d of them have one, and %d load balancers are served", len(s.published), len(s.served))
	}
	return nil
}

// delays are the times between a load balancer and its Cluster's endpoint, the shortest first. An endpoint may be there before.
func (s *seen) delays() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for name, at := range s.published {
		all = append(all, max(0, at.Sub(s.served[name])))
	}
	slices.Sort(all)
	return all
}

func (s *seen) last() (last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.published {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// resident is a process's memory, in megabytes.
func resident(t testing.TB, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if rest, found := bytes.CutPrefix(line, []byte("VmRSS:")); found {
			kB, err := strconv.ParseFloat(string(bytes.Fields(rest)[0]), 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB / 1000
		}
	}
	t.Fatalf("process %d says nothing of its memory", pid)
	return 0
}
