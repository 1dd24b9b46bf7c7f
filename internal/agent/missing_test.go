package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// force takes a Service away past its finalizer.
func (w *world) force(name string) {
	w.Helper()
	w.patch(name, `{"metadata":{"finalizers":null}}`)
	w.delete(name)
}

// held waits until a LoadBalancer is held for about a day.
func (w *world) held(name string) *clusterv1.LoadBalancer {
	w.Helper()
	return w.loadBalancerThat(name, "is held", func(l *clusterv1.LoadBalancer) error {
		until, err := time.Parse(time.RFC3339, l.Annotations[v1alpha1.AnnotationHeldUntil])
		if err != nil {
			return err
		}
		if lasts := time.Until(until); l.DeletionTimestamp != nil || lasts < 23*time.Hour || lasts > 25*time.Hour {
			return fmt.Errorf("for %s, deleted %v", lasts, l.DeletionTimestamp)
		}
		return nil
	})
}

// heldUntil is a person's word.
func (w *world) heldUntil(o client.Object, at time.Time) {
	w.Helper()
	p := `{"metadata":{"annotations":{"fairlead.dev/held-until":"` + at.UTC().Format(time.RFC3339) + `"}}}`
	w.must(w.hub.api.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(p))))
}

func TestWhatNobodyWasSeenToDeleteIsHeldForADay(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"seen", "back", "lost"} {
		w.create(name)
	}
	for _, name := range []string{"seen", "back", "lost"} {
		w.says(name, clusterv1.ReasonProgrammed)
	}
	// Forced, but seen: that is a deletion.
	w.force("seen")
	w.gone("seen")
	w.stop()
	w.force("back")
	w.force("lost")
	w.start()
	back := w.held("back")
	lost := w.held("lost")
	if note := w.told(service.ReasonServicesMissing); !strings.Contains(note, "nobody was seen to delete") {
		t.Errorf("the event says %q", note)
	}
	w.create("back")
	w.published("back")
	l := w.loadBalancerThat("back", "is held no more", func(l *clusterv1.LoadBalancer) error {
		if l.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
			return errors.New("it is")
		}
		return nil
	})
	if l.UID != back.UID {
		t.Error("it was made anew")
	}
	w.heldUntil(lost, time.Now())
	w.lbGone("lost")
}

// A cluster that is restored while the agent runs lists less than it had.
func TestWhatARestoredClusterLacksIsHeld(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", "10.0.0.1")
	w.create("before")
	w.says("before", clusterv1.ReasonProgrammed)
	saved, err := w.tenant.SaveCopy()
	w.must(err)
	w.create("since")
	address := w.published("since").Status.LoadBalancer.Ingress[0].IP
	w.must(w.tenant.Restore(t.Context(), saved, 1000))
	w.held("since")
	w.create("since")
	if s := w.published("since"); s.Status.LoadBalancer.Ingress[0].IP != address {
		t.Errorf("it had %s, and has %+v", address, s.Status.LoadBalancer)
	}
}

func TestNodesThatNobodyWasSeenToDeleteStayTargets(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.addNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("10.0.0.%d", i+1))
	}
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving", "n3/10.0.0.3/Serving")
	w.stop()
	for i := range 3 {
		w.must(w.tenant.api.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1)}}))
	}
	w.start()
	w.told(service.ReasonNodesMissing)
	w.addNode("n1", "10.0.0.11") // another under the old name
	w.group("nodes-0", "n1/10.0.0.11/Serving", "n2/10.0.0.2/Serving", "n3/10.0.0.3/Serving")
	// Seen to be deleted: gone at once.
	w.must(w.tenant.api.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	w.group("nodes-0", "n2/10.0.0.2/Serving", "n3/10.0.0.3/Serving")
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: "nodes-0"}}
	w.heldUntil(g, time.Now())
	w.group("nodes-0")
	// The time goes with the hold, so that the next one is as long.
	lasts := func(what string, least, most time.Duration) {
		t.Helper()
		w.eventually(what, func(ctx context.Context) error {
			if err := w.hub.api.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
				return err
			}
			left := time.Duration(0)
			if until, err := time.Parse(time.RFC3339, g.Annotations[v1alpha1.AnnotationHeldUntil]); err == nil {
				left = time.Until(until)
			}
			if left < least || left > most {
				return fmt.Errorf("held until %q", g.Annotations[v1alpha1.AnnotationHeldUntil])
			}
			return nil
		})
	}
	lasts("no time on the TargetGroup", 0, 0)
	w.addNode("n4", "10.0.0.4")
	w.group("nodes-0", "n4/10.0.0.4/Serving")
	w.stop()
	w.must(w.tenant.api.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}))
	w.start()
	lasts("a hold of a day", 23*time.Hour, 25*time.Hour)
	w.group("nodes-0", "n4/10.0.0.4/Serving")
}
