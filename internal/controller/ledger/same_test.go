package ledger

import (
	"context"
	"errors"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// idle is a store that gives a write that changes nothing no new version, as API servers do, and that may be away.
type idle struct {
	*store
	away bool
}

func (s *idle) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if s.away {
		return errors.New("no answer")
	}
	have := s.objects[obj.GetName()]
	if e, err := toEntry(obj.(*v1alpha1.Address)); err == nil && have != nil && have.ResourceVersion == obj.GetResourceVersion() {
		if h, err := toEntry(have); err == nil && h.Equal(e) {
			return nil
		}
	}
	return s.store.Update(ctx, obj, opts...)
}

func TestAGrantEndsWhereThereIsNothingToChange(t *testing.T) {
	s := &idle{store: newStore(1, 0)}
	k := newKeeper(t, s.store, ignore, "192.0.2.0/32")
	k.Client = s
	n := needsOf(1)
	if _, err := k.Grant(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	s.away = true
	if err := k.Release(t.Context(), n.Ref); err == nil {
		t.Fatal("released without a word of the API server")
	}
	s.away = false
	// It is wanted again, as it still stands there.
	g, err := k.Grant(t.Context(), n)
	if err != nil || len(g.Held) != 1 || g.Held[0].Phase != ipam.Granted {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestAnAddressThatCameBackIsNews(t *testing.T) {
	s := newStore(1, 0)
	k := newKeeper(t, s, ignore, "192.0.2.0/32")
	if _, err := k.Grant(t.Context(), needsOf(1)); err != nil {
		t.Fatal(err)
	}
	before, _ := k.Get("192.0.2.0")
	back := before.Object.DeepCopy()
	back.ResourceVersion = "9" // it was Releasing in between
	k.Observe(back)
	if after, _ := k.Get("192.0.2.0"); after.Version != 9 || before.Version == 9 {
		t.Errorf("version %d after %d", after.Version, before.Version)
	}
}
