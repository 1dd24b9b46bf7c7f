package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// held is a LoadBalancer over Machines as an agent with --management holds it.
func held(name string, change func(*clusterv1.LoadBalancer)) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "clusters", Name: name, Finalizers: []string{"example.com/x", clusterv1.MirrorFinalizer, clusterv1.MembersFinalizer}, Annotations: map[string]string{clusterv1.HubAnnotation: "hub"},
		},
		Spec: clusterv1.LoadBalancerSpec{ClusterName: "prod"},
	}
	if change != nil {
		change(l)
	}
	return l
}

// What an agent wrote to Machines goes first, then what holds their LoadBalancers: each may be deleted then.
func TestAnAgentLeaves(t *testing.T) {
	machine := ofClusterAPI("Machine", "m1", hookedBy(nil))
	paused := ofClusterAPI("Machine", "m2", hookedBy(map[string]string{clusterv1.PausedAnnotation: ""}))
	agent := leadership("a", time.Second)
	agent.Name = v1alpha1.AgentLease
	for name, c := range map[string]struct {
		objects []client.Object
		options LeaveOptions
		state   LeaveState
		says    string
		frees   bool
	}{
		"all of it":           {[]client.Object{machine}, LeaveOptions{}, LeaveDone, "1 Machine carry nothing of an agent's any more, and 1 LoadBalancer no finalizer of its", true},
		"nothing to take off": {nil, LeaveOptions{}, LeaveDone, "1 LoadBalancer", true},
		"an agent leads":      {[]client.Object{machine, agent}, LeaveOptions{}, LeaveRefused, "agent a leads", false},
		"a manager leads":     {[]client.Object{machine, leadership("b", time.Second)}, LeaveOptions{}, LeaveRefused, "manager b leads", false},
		"though one does":     {[]client.Object{machine, agent}, LeaveOptions{Force: true}, LeaveDone, "1 Machine", true},
		"a Machine is paused": {[]client.Object{machine, paused}, LeaveOptions{}, LeaveLeft, "clusters/m2: it is paused", false},
		"a dry run":           {[]client.Object{machine}, LeaveOptions{DryRun: true}, LeavePlanned, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			other := held("nodes", func(l *clusterv1.LoadBalancer) {
				l.Spec.ClusterName, l.Spec.TargetKind = "", &clusterv1.KindReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "TargetGroup"}
			})
			h := leaveHub(t, append([]client.Object{held("api", nil), other}, c.objects...)...)
			c.options.Agent = true
			l, err := h.Leave(t.Context(), c.options, func(LeaveLine) {})
			if err != nil || l.State != c.state || !strings.Contains(l.Message, c.says) {
				t.Errorf("%s: %s, %v", l.State, l.Message, err)
			}
			for name, want := range map[string]bool{"api": c.frees, "nodes": false} {
				is := &clusterv1.LoadBalancer{}
				if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: "clusters", Name: name}, is); err != nil {
					t.Fatal(err)
				}
				if freed := slices.Equal(is.Finalizers, []string{"example.com/x"}); freed != want || heldHere(is) == want {
					t.Errorf("%s: finalizers %v, annotations %v", name, is.Finalizers, is.Annotations)
				}
			}
		})
	}
}

// What an agent with --management lacks is said of the management cluster.
func TestAManagementClusterIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		management ManagementFacts
		want       string
	}{
		"all is well":     {ManagementFacts{HubUID: "hub", Rights: []Rights{{Area: areaManagement, Identity: "x", Needs: 3}}}, ""},
		"the hub itself":  {ManagementFacts{HubUID: "here"}, "broken cluster: it is the hub itself"},
		"a manager there": {ManagementFacts{HubUID: "hub", Manager: "manager m leads"}, "broken manager: manager m leads"},
		"no Cluster API":  {ManagementFacts{HubUID: "hub", Unserved: []string{"Machine"}}, "warning Machine: "},
		"a kind missing":  {ManagementFacts{HubUID: "hub", Installed: []Installed{{Area: areaManagement, Kind: "CustomResourceDefinition", Name: "y", State: InstalledMissing}}}, "broken CustomResourceDefinition y: it is missing"},
		"a right missing": {ManagementFacts{HubUID: "hub", Rights: []Rights{{Area: areaManagement, Identity: "x", Needs: 3, Lacks: []string{"patch machines"}, Fix: installedFix(areaManagement)}}}, "broken x: may not patch machines"},
	} {
		r := Report{}
		r.management(&ClusterFacts{UID: "here", Management: &c.management})
		var bad []string
		for _, x := range r.Checks {
			if x.Area != areaManagement {
				t.Errorf("%s: area %s", name, x.Area)
			}
			if x.State != OK {
				bad = append(bad, string(x.State)+" "+x.Object+": "+x.Message)
				if x.Fix == "" {
					t.Errorf("%s: %s says no fix", name, x.Message)
				}
			}
		}
		if len(bad) > 1 || (len(bad) == 1) != (c.want != "") || c.want != "" && !strings.HasPrefix(bad[0], c.want) {
			t.Errorf("%s: %q, want %q", name, bad, c.want)
		}
	}
}
