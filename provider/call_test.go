package provider

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/provider/contract"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// named is an object that is known by its UID alone.
type named struct{ *unstructured.Unstructured }

func (named) Contract() (*contract.Spec, *contract.Status) { return nil, nil }

func object(uid string) Object {
	u := &unstructured.Unstructured{}
	u.SetUID(types.UID(uid))
	return named{u}
}

func newCalls() (*calls, *[]Object) {
	var back []Object
	return &calls{timeout: time.Minute, out: map[types.UID]string{}, back: func(o Object) { back = append(back, o) }}, &back
}

func TestCallsContainAPanic(t *testing.T) {
	c, _ := newCalls()
	for name, f := range map[string]func(context.Context) (int, error){
		"a panic":            func(context.Context) (int, error) { panic("a bug") },
		"a panic of nothing": func(context.Context) (int, error) { panic(nil) },
		"an exit":            func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(t.Context(), c, object("a"), "Ensure", f)
			var p *panicked
			if !errors.As(err, &p) || p.method != "Ensure" {
				t.Errorf("the error is %v", err)
			}
		})
	}
	if n, err := call(t.Context(), c, object("a"), "Ensure", func(context.Context) (int, error) { return 3, nil }); n != 3 || err != nil {
		t.Errorf("the next call returns %d, %v", n, err)
	}
}

func TestCallsGiveUpOnWhatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, back := newCalls()
		free := make(chan struct{})
		stuck := func(context.Context) (int, error) { <-free; return 1, nil }
		var s *silent
		start := time.Now()
		if _, err := call(t.Context(), c, object("a"), "Ensure", stuck); !errors.As(err, &s) || time.Since(start) != c.timeout+grace {
			t.Fatalf("after %s the error is %v", time.Since(start), err)
		}
		start = time.Now()
		if _, err := call(t.Context(), c, object("a"), "Describe", stuck); !errors.As(err, &s) || s.method != "Ensure" || time.Since(start) != 0 {
			t.Errorf("while it is out, the next call returns %v after %s", err, time.Since(start))
		}
		if n, err := call(t.Context(), c, object("b"), "Describe", func(context.Context) (int, error) { return 2, nil }); n != 2 || err != nil {
			t.Errorf("another object's call returns %d, %v", n, err)
		}
		close(free)
		synctest.Wait()
		if len(*back) != 1 || (*back)[0].GetUID() != "a" {
			t.Errorf("%d objects are told to be looked at", len(*back))
		}
		if n, err := call(t.Context(), c, object("a"), "Describe", stuck); n != 1 || err != nil {
			t.Errorf("once it is back, the next call returns %d, %v", n, err)
		}
	})
}

// One that heeds its context says itself what was the matter.
func TestCallsEndByTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, back := newCalls()
		_, err := call(t.Context(), c, object("a"), "Ensure", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || len(*back) != 0 || len(c.out) != 0 {
			t.Errorf("the error is %v, and %d are out", err, len(c.out))
		}
	})
}
