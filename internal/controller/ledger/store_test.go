package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is an API server for Addresses: versions, conflicts, preconditions, watches that lag, and answers that get lost.
type store struct {
	mu      sync.Mutex
	random  *rand.Rand
	faults  float64 // share of requests that fail, half of them after they took effect
	version int64
	objects map[string]*v1alpha1.Address
	watches []chan func(*Keeper)
	denied  int
}

var addresses = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "addresses"}

func newStore(seed uint64, faults float64) *store {
	return &store{random: rand.New(rand.NewPCG(seed, 0)), faults: faults, objects: map[string]*v1alpha1.Address{}}
}

// watch feeds a keeper in order, late, until the function returned is called, which delivers the rest.
func (s *store) watch(k *Keeper) (finish func()) {
	events := make(chan func(*Keeper), 1<<20)
	s.mu.Lock()
	s.watches = append(s.watches, events)
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			e(k)
		}
	}()
	return func() {
		s.mu.Lock()
		close(events)
		for i, w := range s.watches {
			if w == events {
				s.watches = append(s.watches[:i], s.watches[i+1:]...)
				break
			}
		}
		s.mu.Unlock()
		<-done
	}
}

func (s *store) tell(e func(*Keeper)) {
	for _, w := range s.watches {
		w <- e
	}
}

// request runs one, which may fail before or after.
func (s *store) request(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	draw := s.random.Float64()
	if draw < s.faults/2 {
		s.denied++
		return apierrors.NewServerTimeout(addresses, "write", 1)
	}
	err := f()
	if err == nil && draw < s.faults {
		s.denied++
		return fmt.Errorf("the answer got lost")
	}
	return err
}

func (s *store) stamp(a *v1alpha1.Address) {
	s.version++
	a.ResourceVersion = strconv.FormatInt(s.version, 10)
}

func (s *store) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return s.request(func() error {
		if s.objects[obj.GetName()] != nil {
			return apierrors.NewAlreadyExists(addresses, obj.GetName())
		}
		a := obj.(*v1alpha1.Address)
		s.stamp(a)
		a.UID = types.UID(a.ResourceVersion)
		a.CreationTimestamp = metav1.Unix(s.version, 0)
		stored := a.DeepCopy()
		s.objects[a.Name] = stored
		s.tell(func(k *Keeper) { k.Observe(stored.DeepCopy()) })
		return nil
	})
}

func (s *store) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return s.request(func() error {
		have := s.objects[obj.GetName()]
		switch {
		case have == nil:
			return apierrors.NewNotFound(addresses, obj.GetName())
		case have.ResourceVersion != obj.GetResourceVersion() || have.UID != obj.GetUID():
			return apierrors.NewConflict(addresses, obj.GetName(), nil)
		}
		a := obj.(*v1alpha1.Address)
		s.stamp(a)
		stored := a.DeepCopy()
		s.objects[a.Name] = stored
		s.tell(func(k *Keeper) { k.Observe(stored.DeepCopy()) })
		return nil
	})
}

func (s *store) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return s.request(func() error {
		var o client.DeleteOptions
		o.ApplyOptions(opts)
		have := s.objects[obj.GetName()]
		switch {
		case have == nil:
			return apierrors.NewNotFound(addresses, obj.GetName())
		case o.Preconditions != nil && (*o.Preconditions.UID != have.UID || *o.Preconditions.ResourceVersion != have.ResourceVersion):
			return apierrors.NewConflict(addresses, obj.GetName(), nil)
		}
		delete(s.objects, obj.GetName())
		gone := have.DeepCopy()
		s.stamp(gone)
		s.tell(func(k *Keeper) { k.Forget(gone.DeepCopy()) })
		return nil
	})
}

func (s *store) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return s.request(func() error {
		have := s.objects[key.Name]
		if have == nil {
			return apierrors.NewNotFound(addresses, key.Name)
		}
		have.DeepCopyInto(obj.(*v1alpha1.Address))
		return nil
	})
}
