package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// askFrom and askUpTo bound the pause before a hub that doesn't answer is asked again.
	askFrom = 50 * time.Millisecond
	askUpTo = 2 * time.Second
)

// confirm asks the hub, whenever that is in doubt, who it is.
func (p *Proxy) confirm(ctx context.Context) {
	failures := 0
	for {
		q, doubted := p.inbox.Question()
		if !doubted {
			failures = 0
			select {
			case <-ctx.Done():
				return
			case <-p.inbox.doubted:
				continue
			}
		}
		a, err := ask(ctx, p.o.Hub, p.o.Name)
		if err == nil {
			settled := p.inbox.Answer(q, a)
			era, _ := p.inbox.Era() // No other goroutine begins one.
			p.own.heed(era, a.Proxy)
			if _, still := p.inbox.Question(); !still {
				continue
			}
			if settled {
				failures = 0 // What is in doubt now came up meanwhile.
			}
		} else if failures == 0 && ctx.Err() == nil {
			p.o.Logger.Warn("hub can't be confirmed; nothing that it says is taken meanwhile", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff(askFrom, askUpTo, failures)):
		}
		failures++
	}
}

// answerOf is what reads of a hub's UID and of the own Proxy say, the latter with its error: there is one, or there is none.
func answerOf(uid string, px *v1alpha1.Proxy, err error) Answer {
	if err != nil {
		px = nil
	}
	return Answer{HubUID: uid, Proxy: px}
}

// ask reads live who a hub is.
func ask(ctx context.Context, hub Hub, name string) (a Answer, err error) {
	if a.HubUID, err = hub.UID(ctx); err != nil {
		return a, fmt.Errorf("reading the hub's UID: %w", err)
	}
	a.Proxy, err = hub.GetProxy(ctx, name)
	if lacks(err, name) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("reading Proxy %s: %w", name, err)
	}
	return a, nil
}

// lacks says that an error is a hub's word that it has no Proxy of that name. Where the resource is not served, or what stands before
// the hub doesn't find it, that is not found either.
func lacks(err error, name string) bool {
	var s apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &s) {
		return false
	}
	d := s.Status().Details
	return d != nil && d.Kind == "proxies" && d.Name == name && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
