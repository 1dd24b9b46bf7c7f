package proxy

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// fenceWithin bounds how long a hub that takes connections may take to say whether this proxy is fenced before the last-good file is served.
const fenceWithin = 10 * time.Second

// askFence reads the own Proxy live, and returns a channel that is closed once the last-good file may be served: who was fenced while
// it didn't run must not serve what is another's by now. A hub that can't be reached within patience is not waited for.
func (l *loop) askFence(ctx context.Context) <-chan struct{} {
	answered, may := make(chan struct{}), make(chan struct{})
	var reached atomic.Bool
	ctx, cancel := context.WithTimeout(ctx, fenceWithin)
	go func() {
		for tries := 0; ctx.Err() == nil; tries++ {
			if l.readFence(ctx, &reached) {
				close(answered)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(backoff(askFrom, patience, tries)):
			}
		}
	}()
	go func() {
		defer close(may)
		defer cancel()
		select {
		case <-answered:
			return
		case <-ctx.Done():
			return
		case <-time.After(patience):
		}
		if !reached.Load() {
			return
		}
		l.log.Warn("hub takes connections, and has not said yet whether this proxy is fenced; the last-good file waits for that", "within", fenceWithin)
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}()
	return may
}

// readFence returns whether the hub has said whether this proxy is fenced, which Own knows then. It sets reached once there is a connection.
func (l *loop) readFence(ctx context.Context, reached *atomic.Bool) bool {
	era, _ := l.inbox.Era()
	px, err := l.o.Hub.GetProxy(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				reached.Store(true)
			}
		},
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}), l.o.Name)
	if lacks(err, l.o.Name) {
		return true
	}
	if err != nil {
		l.log.Debug("own Proxy can't be read", "err", err)
		return false
	}
	return l.own.heed(era, px)
}
