package provider

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// panicked is the error of a provider that did.
type panicked struct {
	method string
	value  any
	stack  []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("the provider's %s panicked: %v", p.method, p.value)
}

// silent is the error of a provider that doesn't return, though its context has ended.
type silent struct {
	method  string
	timeout time.Duration
}

func (s *silent) Error() string {
	return fmt.Sprintf("the provider's %s hasn't returned, though its %s are over", s.method, s.timeout)
}

// grace is how long a call may go on after its context has ended.
const grace = time.Second

// calls contains a provider: one call an object at a time, each of bounded time, none that takes the process along.
type calls struct {
	timeout time.Duration
	mu      sync.Mutex
	// out is the method that hasn't returned, though its time is over.
	out map[types.UID]string
	// back hears of objects whose call has returned late.
	back func(Object)
}

// call runs one method for an object.
func call[T any](ctx context.Context, c *calls, o Object, method string, f func(context.Context) (T, error)) (T, error) {
	var none T
	c.mu.Lock()
	late, isLate := c.out[o.GetUID()]
	c.mu.Unlock()
	if isLate {
		return none, &silent{late, c.timeout}
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer cancel()
		r := result{err: &panicked{method: method, value: "the call ended its goroutine"}}
		defer func() {
			if v := recover(); v != nil {
				r = result{err: &panicked{method, v, debug.Stack()}}
			}
			done <- r
			c.returned(o)
		}()
		r.value, r.err = f(bounded)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-bounded.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	c.mu.Lock()
	c.out[o.GetUID()] = method
	c.mu.Unlock()
	select {
	case r := <-done: // it came just now, and may not have seen that it is late
		c.mu.Lock()
		delete(c.out, o.GetUID())
		c.mu.Unlock()
		return r.value, r.err
	default:
	}
	return none, &silent{method, c.timeout}
}

// returned forgets that an object's call is out, and has the object looked at.
func (c *calls) returned(o Object) {
	c.mu.Lock()
	_, wasLate := c.out[o.GetUID()]
	delete(c.out, o.GetUID())
	c.mu.Unlock()
	if wasLate && c.back != nil {
		c.back(o)
	}
}
