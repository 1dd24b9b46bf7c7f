package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/agent/service"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxEvents that an explanation shows.
	maxEvents = 5
	// mostEvents of one object that are read.
	mostEvents = 500
)

// about selects the events of one object.
func about(kind string, key types.NamespacedName) []client.ListOption {
	return []client.ListOption{client.InNamespace(key.Namespace), client.Limit(mostEvents), client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermEqualSelector("regarding.kind", kind), fields.OneTermEqualSelector("regarding.name", key.Name))}}
}

// ReadEvents adds the events of a LoadBalancer of the hub to o. Who may not read them is told so, and none.
func (h *Hub) ReadEvents(ctx context.Context, key types.NamespacedName, o *Objects) error {
	return readEvents(ctx, h.client, kindLoadBalancer, key, o)
}

// LoadBalancerOf is the name of the LoadBalancer that an agent makes from a Service, in its Tenant's namespace.
func LoadBalancerOf(namespace string, key types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: service.Name(key)}
}

func readEvents(ctx context.Context, c client.Client, kind string, key types.NamespacedName, o *Objects) error {
	list := &eventsv1.EventList{}
	switch err := c.List(ctx, list, about(kind, key)...); {
	case apierrors.IsForbidden(err):
		o.EventsHidden = append(o.EventsHidden, kind)
		return nil
	case err != nil:
		return fmt.Errorf("listing the events of %s %s: %w", kind, key, err)
	}
	for i := range list.Items {
		o.Events = append(o.Events, &list.Items[i])
	}
	return nil
}

// eventsOf are the last events of one object, as it is now: those of an earlier one of its name are not among them.
func eventsOf(o *Objects, kind string, object metav1.Object) []EventLine {
	var out []EventLine
	for _, e := range o.Events {
		r := e.Regarding
		if r.Kind != kind || r.Namespace != object.GetNamespace() || r.Name != object.GetName() || r.UID != object.GetUID() {
			continue
		}
		line := EventLine{Kind: kind, Name: r.Namespace + "/" + r.Name, State: OK, Reason: e.Reason, Message: e.Note, Count: max(e.DeprecatedCount, 1)}
		line.Last = metav1.NewTime(cmp.Or(e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time))
		if e.Series != nil {
			line.Count, line.Last = e.Series.Count, metav1.NewTime(e.Series.LastObservedTime.Time)
		}
		if e.Type == corev1.EventTypeWarning {
			line.State = Warning
		}
		out = append(out, line)
	}
	return out
}

// happened adds the last events of all, the oldest first.
func (e *Explanation) happened(events []EventLine) {
	events = append(e.Events, events...)
	slices.SortStableFunc(events, func(a, b EventLine) int { return a.Last.Compare(b.Last.Time) })
	e.Events = events[max(0, len(events)-maxEvents):]
}

// writeEvents prints them.
func (e *Explanation) writeEvents(p *printer) {
	for _, of := range e.EventsHidden {
		namespace, _, _ := strings.Cut(of[strings.LastIndex(of, " ")+1:], "/")
		p.line("The events of %s may not be read: who asks needs the right to list events.events.k8s.io in namespace %s.", of, namespace)
	}
	if len(e.Events) == 0 {
		return
	}
	p.line("Events:")
	for _, ev := range e.Events {
		times := ""
		if ev.Count > 1 {
			times = fmt.Sprintf(", %d times", ev.Count)
		}
		p.line("%s %s ago%s  %s %s  %s: %s", ev.State.Sign(), short(max(e.Now.Sub(ev.Last.Time), time.Duration(0))), times, ev.Kind, ev.Name, ev.Reason, ev.Message)
	}
}
