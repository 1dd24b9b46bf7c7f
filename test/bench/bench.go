package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// many clients create objects at the same time, where it is not one.
	many      = 16
	namespace = "default"
	port      = 8080
	// benchClass is ours; otherClass is nobody's here.
	benchClass = "fairlead.dev/bench"
	otherClass = "example.com/other"
	// patience bounds what must come to an end at all.
	patience = 3 * time.Minute
)

// bench is one run.
type bench struct {
	*fleet.Fleet
	options options
	tenant  *fleet.Tenant
	events  *events
	figures []figure
	// answered are the Services of the burst and the fill, by name.
	inPlace int
}

func newBench(ctx context.Context, f *fleet.Fleet, o options) (*bench, error) {
	b := &bench{Fleet: f, options: o, tenant: f.Tenants[0]}
	pool := &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec:       v1alpha1.AddressPoolSpec{Ranges: []string{f.Network.Wide().String()}, Share: v1alpha1.ShareNone},
	}
	if o.scale { // Hollow tenants have the other half.
		first, _ := halves(f.Network.Wide())
		pool.Spec.Ranges = []string{first.String()}
	}
	class := &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: fleet.ProxyPool}, AddressPools: []string{"bench"}},
	}
	for _, o := range []client.Object{pool, class} {
		if err := f.Hub.API.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("creating the pool and class of the benchmark: %w", err)
		}
	}
	objects, err := f.Network.Example("web.yaml")
	if err != nil {
		return nil, err
	}
	if err := b.tenant.Apply(ctx, objects...); err != nil {
		return nil, err
	}
	err = testkit.Poll(ctx, 50*time.Millisecond, "the Pods", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := b.tenant.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Errorf("%d of %d are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.events, err = watchEvents(ctx, f)
	return b, err
}

func (b *bench) close() { b.events.stop() }

// service is a Service of type LoadBalancer over the example's Pods.
func service(name, class string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.ServiceSpec{
			Type:              v1.ServiceTypeLoadBalancer,
			LoadBalancerClass: ptr.To(class),
			Selector:          map[string]string{"app": "web"},
			Ports:             []v1.ServicePort{{Name: "http", Port: port}},
		},
	}
}

// forEach calls do for each name, so many at a time.
func forEach(names []string, clients int, do func(string) error) error {
	work := make(chan string)
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for name := range work {
				if err := do(name); err != nil && errs[i] == nil {
					errs[i] = err
				}
			}
		})
	}
	for _, n := range names {
		work <- n
	}
	close(work)
	all.Wait()
	return errors.Join(errs...)
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return out
}

// createAll creates Services, by so many clients, and returns how long that took.
func (b *bench) createAll(ctx context.Context, names []string, class string, clients int) (time.Duration, error) {
	began := time.Now()
	err := forEach(names, clients, func(name string) error {
		if err := b.tenant.API.Create(ctx, service(name, class)); err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		return nil
	})
	return time.Since(began), err
}

// deleteAll deletes Services and waits until they are gone.
func (b *bench) deleteAll(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return forEach(names, many, func(name string) error {
		s := service(name, otherClass)
		if err := b.tenant.API.Delete(ctx, s); err != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
		return testkit.Poll(ctx, 20*time.Millisecond, name+" to be gone", func(ctx context.Context) error {
			if err := b.tenant.API.Get(ctx, client.ObjectKeyFromObject(s), &v1.Service{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there (%w)", err)
			}
			return nil
		})
	})
}
