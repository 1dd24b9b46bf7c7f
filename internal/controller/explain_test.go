package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// shownLines is how much of the managers' log a failure shows.
const shownLines = 250

// end is the end of the log.
func (l *logText) end(lines int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// explain shows how a scenario that failed left things: the end of its managers' log, and its objects. It is deferred, so that nothing
// has ended yet.
func (h *hub) explain() {
	if !h.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	objects, err := h.objects(ctx)
	if err != nil {
		h.t.Logf("not all objects can be shown: %v", err)
	}
	h.t.Logf("at %s the objects of %s are:\n%s", time.Now().Format(time.RFC3339Nano), h.name, objects)
	h.t.Logf("the managers' log ends:\n%s", h.log.end(shownLines))
}

// objects are those of the scenario that say what is granted, to whom, and what proxies say of it.
func (h *hub) objects(ctx context.Context) (string, error) {
	text := strings.Builder{}
	for _, list := range []client.ObjectList{
		&v1alpha1.AddressPoolList{}, &v1alpha1.TenantList{}, &clusterv1.LoadBalancerList{}, &v1alpha1.AddressList{},
		&v1alpha1.ProxyList{}, &v1alpha1.ProxyReportList{}, &coordinationv1.LeaseList{},
	} {
		if err := h.api.List(ctx, list); err != nil {
			return text.String(), err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok || !h.concerns(o) {
				return nil
			}
			o.SetManagedFields(nil)
			b, err := yaml.Marshal(o)
			fmt.Fprintf(&text, "--- # %T\n%s", o, b)
			return err
		})
		if err != nil {
			return text.String(), err
		}
	}
	return text.String(), nil
}

// concerns tells whether an object is of this scenario.
func (h *hub) concerns(o client.Object) bool {
	if a, ok := o.(*v1alpha1.Address); ok && (a.Spec.Pool == h.name || a.Spec.ProxyPool == h.name) {
		return true
	}
	return o.GetNamespace() == h.name || o.GetName() == h.name || strings.HasPrefix(o.GetName(), h.name+"-")
}

func TestTheEndOfALogIsShown(t *testing.T) {
	l := &logText{}
	if got := l.end(2); got != "" {
		t.Errorf("an empty one ends with %q", got)
	}
	for i := range 3 {
		if _, err := fmt.Fprintf(l, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.end(2); got != "line 1\nline 2" {
		t.Errorf("it ends with %q", got)
	}
	if got := l.end(9); got != "line 0\nline 1\nline 2" {
		t.Errorf("all of it is %q", got)
	}
}
