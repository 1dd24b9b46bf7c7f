package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
)

const (
	eventQueue   = 10_000
	eventWriters = 8
	eventTries   = 5
	eventWait    = time.Second
	reporter     = "fairlead.dev/agent"
	eventAction  = "LoadBalancing"
)

// recorder writes events in the background. When it can't keep up or the API server is away
// for long, events are dropped and counted: the condition says the same.
type recorder struct {
	tenant   client.Client
	instance string
	log      *slog.Logger
	metrics  *metrics
	queue    chan *eventsv1.Event
}

func newRecorder(tenant client.Client, instance string, log *slog.Logger, m *metrics) *recorder {
	return &recorder{tenant: tenant, instance: instance, log: log, metrics: m, queue: make(chan *eventsv1.Event, eventQueue)}
}

// happening is what an event tells.
type happening struct {
	about v1.ObjectReference
	// name of the event: what happens under one name is told once, by whatever agent.
	name    string
	warning bool
	reason  string
	note    string
}

// say queues the event that tells a verdict.
func (r *recorder) say(s *v1.Service, v service.Verdict) {
	h := happening{
		about:   v1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		name:    fmt.Sprintf("%s.%x", s.Name, time.Now().UnixNano()),
		warning: !v.Good(), reason: v.Reason, note: v.Message,
	}
	if v.Reason == clusterv1.ReasonProgrammed && v.Message == "" {
		h.note = "Served"
	}
	r.tell(h)
}

// tell queues an event.
func (r *recorder) tell(h happening) {
	e := newEvent(r.instance, h)
	select {
	case r.queue <- e:
	default:
		r.metrics.eventsDropped.Inc()
	}
}

// newEvent is the object that tells a happening.
func newEvent(instance string, h happening) *eventsv1.Event {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: h.about.Namespace, Name: h.name},
		EventTime:           metav1.NowMicro(),
		ReportingController: reporter,
		ReportingInstance:   instance,
		Action:              eventAction,
		Reason:              h.reason,
		Type:                v1.EventTypeNormal,
		Note:                service.Cut(h.note),
		Regarding:           h.about,
	}
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	if h.warning {
		e.Type = v1.EventTypeWarning
	}
	return e
}

// Start writes until ctx ends.
func (r *recorder) Start(ctx context.Context) error {
	done := make(chan struct{})
	for range eventWriters {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case e := <-r.queue:
					r.write(ctx, e)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for range eventWriters {
		<-done
	}
	return nil
}

func (r *recorder) write(ctx context.Context, e *eventsv1.Event) {
	var err error
	for range eventTries {
		err = r.tenant.Create(ctx, e)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			return
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err): // its namespace is gone or going, or we may not
			r.drop(e, err)
			return
		}
		t := time.NewTimer(eventWait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
	r.drop(e, err)
}

func (r *recorder) drop(e *eventsv1.Event, err error) {
	r.metrics.eventsDropped.Inc()
	r.log.Warn("event not written", "namespace", e.Namespace, "about", e.Regarding.Kind+" "+e.Regarding.Name, "reason", e.Reason, "err", err)
}
