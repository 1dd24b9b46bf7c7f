package survival

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tenantRestored: a tenant's cluster goes back to an older copy, in which a Service is missing. Nobody deleted it, so its
// LoadBalancer and its address are held, and it has them back when it is made again.
func tenantRestored(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	saved, err := tenant.SaveCopy()
	must(t, err)
	makeService(t, tenant, "young", "")
	a := awaitAddress(t, tenant, "young")
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, tenant.Restore(t.Context(), saved, 1000))
		eventually(t, soon, "the LoadBalancer of young to be held", func(ctx context.Context) error {
			list := &clusterv1.LoadBalancerList{}
			if err := w.Hub.API.List(ctx, list, client.InNamespace(tenant.Name())); err != nil {
				return err
			}
			for _, l := range list.Items {
				if l.Annotations[v1alpha1.AnnotationOrigin] == "Service/default/young" && l.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
					return nil
				}
			}
			return fmt.Errorf("none of %d is", len(list.Items))
		})
		throughout(t, 3*time.Second, "its address stays its own", func(ctx context.Context) error {
			o, err := w.Ledger(ctx, a)
			if err == nil && o.Spec.Phase != v1alpha1.AddressGranted {
				err = fmt.Errorf("it is %s", o.Spec.Phase)
			}
			return err
		})
		makeService(t, tenant, "young", "")
		if got := awaitAddress(t, tenant, "young"); got != a {
			t.Errorf("it had %s, and has %s", a, got)
		}
		awaitAnswers(t, tenant, a, w.all()...)
	})
	deleteService(t, tenant, "young")
	awaitRefusal(t, a, w.all()...)
}

// secondCluster: the agent of another cluster comes with a tenant's identity. It changes nothing, and the Tenant says so.
func secondCluster(t *testing.T, w *world) {
	tenant, other := w.Tenants[0], w.Tenants[1]
	hub, err := w.Hub.ServiceAccountKubeconfig(t.Context(), tenant.Name(), v1alpha1.AgentServiceAccount)
	must(t, err)
	own, err := other.ServiceAccountKubeconfig(t.Context(), v1alpha1.SystemNamespace, "fairlead-agent")
	must(t, err)
	w.window(t, w.all(), [2]int{held, held}, func() {
		before := w.written(t, tenant.Name())
		p, err := testkit.StartProcess(testkit.Command{
			Name: "agent of another cluster", Path: w.self, Log: filepath.Join(w.Dir, "agent-other.log"),
			Args: []string{"agent", "--tenant=" + tenant.Name(), "--hub-kubeconfig=" + hub, "--kubeconfig=" + own},
		})
		must(t, err)
		eventually(t, soon, "the Tenant to say that another cluster came", func(ctx context.Context) error {
			return w.says(ctx, tenant, v1alpha1.ConditionAgentConnected, v1alpha1.ReasonOtherCluster)
		})
		pause(t, 3*time.Second)
		if now := w.written(t, tenant.Name()); now != before {
			t.Errorf("what the tenant had in the hub was %s, and is %s", before, now)
		}
		must(t, p.Kill())
	})
}

// written tells the specs of what an agent writes to its namespace.
func (w *world) written(t *testing.T, namespace string) string {
	t.Helper()
	balancers, groups, text := &clusterv1.LoadBalancerList{}, &v1alpha1.TargetGroupList{}, ""
	must(t, w.Hub.API.List(t.Context(), balancers, client.InNamespace(namespace)))
	must(t, w.Hub.API.List(t.Context(), groups, client.InNamespace(namespace)))
	for _, o := range balancers.Items {
		text += fmt.Sprintf("%s %s %d; ", o.Name, o.UID, o.Generation)
	}
	for _, o := range groups.Items {
		text += fmt.Sprintf("%s %s %d; ", o.Name, o.UID, o.Generation)
	}
	return text
}
