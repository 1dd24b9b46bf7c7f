package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machineFinalizer is Cluster API's: a test takes it off in Cluster API's place, once no hook holds the Machine.
const machineFinalizer = "machine.cluster.x-k8s.io"

// fleetOf is a namespace of no Tenant with a Cluster, a LoadBalancer of its control plane and one proxy.
type fleetOf struct {
	*hub
	proxy *standin
	lb    *clusterv1.LoadBalancer
	// next address of a Machine.
	next int
}

// TestMembers has Machines of Cluster API's own kind come and go behind LoadBalancers, with the rights that the roles give.
func TestMembers(t *testing.T) {
	whole := newHub(t)
	if err := rbac.InstallClusterAPI(t.Context(), whole.control.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	whole.create(clusterCRD(t), clusterAPICRD(t, "machines"))
	whole.eventually("Machines to be served", func(ctx ctx) error {
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		l.SetKind("MachineList")
		return whole.api.List(ctx, l)
	})
	whole.name = "rollout"
	// Stories that have the manager restart come first: another one serves the others.
	restart := whole.restarting(whole.manager(app.LeaderElection{}))
	rollout(whole.fleet("192.0.2.0/30"), restart)
	t.Run("byservice", func(t *testing.T) {
		machinesByService(&hub{t: t, control: whole.control, api: whole.api, name: "byservice"}, restart)
	})
	t.Run("byothers", func(t *testing.T) {
		machinesOfOthers(&hub{t: t, control: whole.control, api: whole.api, name: "byothers"}, restart)
	})
	t.Run("before", func(t *testing.T) { machinesBefore(&hub{t: t, control: whole.control, api: whole.api, name: "before"}) })
	for i, story := range []struct {
		name string
		tell func(*fleetOf)
	}{
		{"disabled", disabledMachine}, {"drained", drainedMachine}, {"paused", pausedCluster}, {"deleted", deletedLoadBalancer}, {"stripped", strippedHook},
		{"selectors", machineSelectors}, {"maxwait", maxWait}, {"leaving", leavingCluster}, {"taken", takenName}, {"unnamed", unnamedCluster}, {"unclear", unclearProxies}, {"exchanged", exchanged}, {"unfollowed", unfollowed}, {"otherwise", servedOtherwise},
		{"blocked", blockedMachine}, {"givenup", givenUpMachine}, {"hooktypes", hookTypes}, {"leavingplane", leavingControlPlane}, {"workers", workers}, {"addresses", machineAddresses}, {"last", lastMachine}, {"moving", movingMachine},
	} {
		t.Run(story.name, func(t *testing.T) {
			h := &hub{t: t, control: whole.control, api: whole.api, name: story.name}
			story.tell(h.fleet(fmt.Sprintf("192.0.2.%d/30", 4*(i+1))))
		})
	}
	for i, story := range []struct {
		name string
		tell func(*fleetOf)
	}{{"nodes", nodesBehind}, {"nodesdoomed", doomedNodes}, {"nodeslost", lostNodes}, {"nodeswrong", wrongNodes}, {"turned", turnedToNodes}} {
		t.Run(story.name, func(t *testing.T) {
			h, addresses := &hub{t: t, control: whole.control, api: whole.api, name: story.name}, fmt.Sprintf("192.0.2.%d/30", 200+4*i)
			if story.name == "turned" {
				story.tell(h.fleet(addresses))
			} else {
				story.tell(h.nodesOf(addresses))
			}
		})
	}
	t.Run("nodesbyservice", func(t *testing.T) {
		nodesByService(&hub{t: t, control: whole.control, api: whole.api, name: "nodesbyservice"})
	})
	if !t.Failed() {
		whole.calm(map[string]int{"paused": 130, "selectors": 300, "taken": 150, "stripped": 110})
		whole.rightsAreUsed("fairlead-members")
		whole.rightsAreUsed("fairlead-nodes")
	}
	// The last, for what the manager does for the others is refused meanwhile.
	t.Run("rights", func(t *testing.T) {
		h := &hub{t: t, control: whole.control, api: whole.api, name: "rights"}
		rightsTaken(h.fleet("192.0.2.128/30"))
	})
	t.Run("noderights", func(t *testing.T) {
		h := &hub{t: t, control: whole.control, api: whole.api, name: "noderights"}
		nodeRightsTaken(h.nodesOf("192.0.2.132/30"))
	})
}

// fleet sets the scene: the Cluster names the LoadBalancer, which has a Cluster's name and no selector.
func (h *hub) fleet(addresses string, change ...func(*clusterv1.LoadBalancer)) *fleetOf {
	h.t.Helper()
	pool := h.newPool(addresses)
	pool.Spec.Use = &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": h.name}}}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, pool, h.newClass())
	c := h.newCluster("prod", nil)
	c.SetAnnotations(map[string]string{member.NameAnnotation: "api"})
	f := &fleetOf{hub: h, proxy: h.proxy("edge"), lb: &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "api"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: h.name, ClusterName: "prod", Ports: []clusterv1.Port{{Port: 6443, TargetPort: 6443, Protocol: clusterv1.ProtocolTCP}},
		},
	}}
	f.proxy.beat()
	for _, x := range change {
		x(f.lb)
	}
	h.create(c, f.lb)
	return f
}

// until has the proxy apply and report again and again until f returns nil.
func (f *fleetOf) until(what string, check func(ctx) error) {
	f.t.Helper()
	kubetest.Eventually(f.t, 4*soon, what, func(ctx ctx) error {
		if f.proxy != nil {
			if err := f.proxy.apply(ctx); err != nil {
				return err
			}
		}
		return check(ctx)
	})
}

func (f *fleetOf) newMachine(name, cluster string) *unstructured.Unstructured {
	m := object("cluster.x-k8s.io/v1beta2", "Machine", f.name, name, map[string]any{"spec": map[string]any{
		"clusterName": cluster, "bootstrap": map[string]any{"dataSecretName": "none"},
		"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name},
	}})
	m.SetLabels(map[string]string{member.ClusterNameLabel: cluster, member.ControlPlaneLabel: ""})
	m.SetFinalizers([]string{machineFinalizer})
	return m
}

// machine makes one of a Cluster, with an address.
func (f *fleetOf) machine(name, cluster string) *unstructured.Unstructured {
	f.t.Helper()
	m := f.newMachine(name, cluster)
	f.create(m)
	f.addressed(m)
	return m
}

// addressed gives a Machine its address, as its provider does after a while.
func (f *fleetOf) addressed(m *unstructured.Unstructured) {
	f.t.Helper()
	f.next++
	address := fmt.Sprintf("10.0.0.%d", f.next)
	f.eventually("Machine "+m.GetName()+" to have an address", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		m.Object["status"] = map[string]any{"addresses": []any{
			map[string]any{"type": "Hostname", "address": m.GetName()}, map[string]any{"type": "InternalIP", "address": address + "/24"},
		}}
		return f.api.Status().Update(ctx, m)
	})
}

// states waits until the LoadBalancer's targets are in these states, name=state each, and none else is there.
func (f *fleetOf) states(want ...string) {
	f.t.Helper()
	f.until("targets "+strings.Join(want, " "), func(ctx ctx) error { return f.has(ctx, want...) })
}

func (f *fleetOf) has(ctx ctx, want ...string) error {
	if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
		return err
	}
	var got, active []string
	for _, t := range f.lb.Status.Targets {
		got = append(got, t.Name+"="+t.State)
		if t.State == string(member.Active) {
			active = append(active, t.Name)
		}
	}
	if !slices.Equal(got, want) || !slices.Equal(active, f.lb.Status.ActiveTargets) || f.lb.Status.Members != fmt.Sprintf("%d/%d", len(active), len(want)) {
		return fmt.Errorf("%v, active %v, members %s: %+v", got, f.lb.Status.ActiveTargets, f.lb.Status.Members, f.lb.Status)
	}
	return nil
}

// placed are the targets of the TargetGroup, by name.
func (f *fleetOf) placed(ctx ctx) (map[string]v1alpha1.Target, error) {
	g := &v1alpha1.TargetGroup{}
	if err := f.api.Get(ctx, client.ObjectKey{Namespace: f.name, Name: f.lb.Name + "-members-0"}, g); err != nil {
		return nil, err
	}
	out := map[string]v1alpha1.Target{}
	for _, t := range g.Spec.Targets {
		out[t.Name] = t
	}
	return out, nil
}

// places waits until the TargetGroup has just these targets, name=state each.
func (f *fleetOf) places(want ...string) {
	f.t.Helper()
	f.until("placed "+strings.Join(want, " "), func(ctx ctx) error {
		have, err := f.placed(ctx)
		if err != nil {
			return err
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(have)) {
			got = append(got, name+"="+string(have[name].State))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

func (f *fleetOf) hooked(ctx ctx, m *unstructured.Unstructured) (bool, error) {
	err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m)
	return member.Hooked(m.GetAnnotations(), f.lb.Name), err
}

// unhooks waits until a Machine is held no longer.
func (f *fleetOf) unhooks(m *unstructured.Unstructured) {
	f.t.Helper()
	f.until("the hook of "+m.GetName()+" to be lifted", func(ctx ctx) error {
		if still, err := f.hooked(ctx, m); err != nil || still {
			return errors.Join(err, fmt.Errorf("hooked: %v", m.GetAnnotations()))
		}
		return nil
	})
}

// collect lets a Machine go as Cluster API does.
func (f *fleetOf) collect(m *unstructured.Unstructured) {
	f.t.Helper()
	f.change(m, func(o client.Object) { o.SetFinalizers(nil) })
	f.gone(m)
}

// held waits until the manager has heard that the proxy has connections to a Machine that is to leave, and finds it held.
func (f *fleetOf) held(m *unstructured.Unstructured) {
	f.t.Helper()
	f.until("Machine "+m.GetName()+" to wait for the proxy", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Name == m.GetName() && t.Reason == member.ReasonDraining && strings.Contains(t.Message, "open connections") {
				return nil
			}
		}
		return fmt.Errorf("%+v", f.lb.Status.Targets)
	})
	if still, err := f.hooked(f.t.Context(), m); err != nil || !still || m.GetAnnotations()[member.StatusAnnotation] != string(member.Removing) {
		f.t.Errorf("Machine %s isn't held: %v, %v", m.GetName(), m.GetAnnotations(), err)
	}
}

// says waits for conditions of the LoadBalancer's present generation.
func (f *fleetOf) says(wants ...string) {
	f.t.Helper()
	f.until(strings.Join(wants, ", "), func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, want := range wants {
			if err := condition(f.lb.Status.Conditions, want); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(f.lb.Status.Conditions, strings.Split(want, "=")[0]); c.ObservedGeneration != f.lb.Generation {
				return fmt.Errorf("%s speaks of generation %d, not %d", c.Type, c.ObservedGeneration, f.lb.Generation)
			}
		}
		return nil
	})
}

// followed waits for the condition TargetsFollowed.
func (f *fleetOf) followed(want string) {
	f.t.Helper()
	f.says(clusterv1.ConditionTargetsFollowed + "=" + want)
}

// rollout: a control plane of three is replaced Machine by Machine. Each is held until the proxy has said that its connections
// ended; one of them across a restart of the manager.
func rollout(f *fleetOf, restart func(meanwhile func())) {
	one := f.newMachine("a1", "prod")
	f.create(one)
	f.states("a1=waiting")
	f.addressed(one)
	old := []*unstructured.Unstructured{one, f.machine("a2", "prod"), f.machine("a3", "prod")}
	f.states("a1=active", "a2=active", "a3=active")
	f.says("Programmed=True", "Degraded=False")
	if f.lb.Status.TargetKind != "Machine.cluster.x-k8s.io" || !strings.Contains(f.lb.Status.TargetSelector, member.NameLabel+"=api") {
		f.t.Errorf("targets are %s by %s", f.lb.Status.TargetKind, f.lb.Status.TargetSelector)
	}
	for i, m := range old {
		if still, err := f.hooked(f.t.Context(), m); err != nil || !still || m.GetLabels()[member.NameLabel] != "api" {
			f.t.Errorf("Machine %s: %v, %v, %v", m.GetName(), m.GetLabels(), m.GetAnnotations(), err)
		}
		name := fmt.Sprintf("b%d", i+1)
		f.machine(name, "prod")
		f.until(name+" to be active", func(ctx ctx) error {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
				return err
			}
			if !slices.Contains(f.lb.Status.ActiveTargets, name) {
				return fmt.Errorf("active: %v", f.lb.Status.ActiveTargets)
			}
			return nil
		})
		f.proxy.busy = map[string]int64{m.GetName(): 2}
		f.delete(m)
		f.held(m)
		if i == 1 {
			restart(func() {
				f.proxy.busy = nil
				f.proxy.catchUp()
			})
		}
		f.proxy.busy = nil
		f.unhooks(m)
		have, err := f.placed(f.t.Context())
		if err != nil || have[m.GetName()].State != v1alpha1.TargetDraining || m.GetAnnotations()[member.StatusAnnotation] != string(member.Removed) {
			f.t.Errorf("Machine %s goes as %+v, %v: %v", m.GetName(), have[m.GetName()], m.GetAnnotations(), err)
		}
		f.collect(m)
	}
	f.states("b1=active", "b2=active", "b3=active")
	f.places("b1=Serving", "b2=Serving", "b3=Serving")

	// "A Machine of the same name again" is another one.
	again := &unstructured.Unstructured{}
	again.SetGroupVersionKind(one.GroupVersionKind())
	again.SetNamespace(f.name)
	again.SetName("b3")
	f.delete(again)
	f.unhooks(again)
	f.collect(again)
	again = f.machine("b3", "prod")
	f.states("b1=active", "b2=active", "b3=active")
	if have, err := f.placed(f.t.Context()); err != nil || have["b3"].UID != string(again.GetUID()) {
		f.t.Errorf("%+v, %v", have["b3"], err)
	}
}

// disabledMachine: the annotation disabled takes a Machine out for as long as it is there, whatever its value.
func disabledMachine(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.annotated(m, clusterv1.DisabledAnnotation, "")
	f.states("a1=disabled", "a2=active")
	f.places("a1=Draining", "a2=Serving")
	f.annotated(m, clusterv1.DisabledAnnotation, "-")
	f.states("a1=active", "a2=active")

	// One that is updated in place is drained while another serves; where all are, all serve.
	updating := func(name, status string) { f.condition(f.newMachine(name, "prod"), "Updating", status) }
	updating("a1", "True")
	f.states("a1=updating", "a2=active")
	f.places("a1=Draining", "a2=Serving")
	updating("a2", "True")
	f.until("both to be left in", func(ctx ctx) error {
		if err := f.has(ctx, "a1=active", "a2=active"); err != nil {
			return err
		}
		if f.lb.Status.Targets[0].Reason != member.ReasonLastActive || f.lb.Status.Targets[1].Reason != member.ReasonLastActive {
			return fmt.Errorf("%+v", f.lb.Status.Targets)
		}
		return nil
	})
	updating("a1", "False")
	f.states("a1=active", "a2=updating")
}

// pausedCluster: nothing moves while the Cluster is paused, though a Machine be deleted, even for good.
func pausedCluster(f *fleetOf) {
	m, lost := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	c := f.newCluster("prod", nil)
	pause := func(on bool) {
		f.change(c, func(o client.Object) {
			if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, on, "spec", "paused"); err != nil {
				f.t.Error(err)
			}
		})
	}
	pause(true)
	f.followed("False/StandsStill")
	f.says("Degraded=True/StandsStill")
	f.delete(m)
	f.delete(lost)
	f.collect(lost)
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.IdleTimeout = &metav1.Duration{Duration: 1 << 36}
	})
	f.followed("False/StandsStill")
	f.places("a1=Serving", "a2=Serving")
	if still, err := f.hooked(f.t.Context(), m); err != nil || !still {
		f.t.Errorf("%v, %v", m.GetAnnotations(), err)
	}
	pause(false)
	f.followed("True/AsExpected")
	f.unhooks(m)
	f.collect(m)
	f.places()
	f.says("Degraded=True/NoTargets")
}

// deletedLoadBalancer: one that is being deleted holds no Machine, whoever is connected; nor does one whose finalizer is taken off.
func deletedLoadBalancer(f *fleetOf) {
	m, other := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	f.delete(f.lb)
	f.unhooks(m)
	f.until("the LoadBalancer to be gone, and what was made for it", func(ctx ctx) error {
		for _, o := range []client.Object{f.lb, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "api-members-0"}}} {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(err, fmt.Errorf("%T is there", o))
			}
		}
		return nil
	})
	f.unhooks(other)
	if a := other.GetAnnotations(); a[member.StatusAnnotation] != "" || a[member.NameAnnotation] != "" {
		f.t.Errorf("it keeps %v", a)
	}
}

// strippedHook: a hook that somebody takes off comes back, but not to a Machine that is being deleted, which is drained all the same.
func strippedHook(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	key := member.HookKey(clusterv1.HookPreDrain, "api")
	strip := func() { f.annotated(m, key, "-") }
	strip()
	f.until("the hook to be back", func(ctx ctx) error {
		if has, err := f.hooked(ctx, m); err != nil || !has {
			return errors.Join(err, errors.New("it is not"))
		}
		return nil
	})
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	strip()
	f.places("a1=Draining", "a2=Serving")
	f.proxy.busy = nil
	f.states("a1=removed", "a2=active")
	if has, err := f.hooked(f.t.Context(), m); err != nil || has {
		f.t.Errorf("%v, %v", m.GetAnnotations(), err)
	}
	f.collect(m)
	f.places("a2=Serving")
}

// machineSelectors: a selector that matches nothing, everything, or another Cluster's Machines has its condition, and none gets traffic by mistake;
// so has a kind of targets that there is not.
func machineSelectors(f *fleetOf) {
	f.create(f.newCluster("other", nil))
	first := f.machine("a1", "prod")
	second, third := f.machine("a2", "prod"), f.machine("a3", "prod")
	foreign := f.machine("x1", "other")
	f.states("a1=active", "a2=active", "a3=active")
	leaves := func(m *unstructured.Unstructured) {
		f.delete(m)
		f.unhooks(m)
		f.collect(m)
	}
	selects := func(s *metav1.LabelSelector, cluster string) {
		f.change(f.lb, func(o client.Object) {
			spec := &o.(*clusterv1.LoadBalancer).Spec
			spec.Selector, spec.ClusterName = s, cluster
			spec.TargetKind = &clusterv1.KindReference{APIGroup: "cluster.x-k8s.io", Kind: "Machine"}
		})
	}
	everything := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: member.ClusterNameLabel, Operator: metav1.LabelSelectorOpExists}}}
	selects(everything, "prod")
	f.followed("False/ForeignMachines")
	f.states("a1=active", "a2=active", "a3=active")
	selects(everything, "")
	f.followed("False/ForeignMachines")
	f.places("a1=Serving", "a2=Serving", "a3=Serving")
	leaves(second)
	f.places("a1=Serving", "a3=Serving")
	selects(&metav1.LabelSelector{}, "")
	f.followed("False/Invalid")
	f.places("a1=Serving", "a3=Serving")
	leaves(third)
	f.places("a1=Serving")
	selects(&metav1.LabelSelector{MatchLabels: map[string]string{member.ClusterNameLabel: "nobody"}}, "")
	f.followed("False/ClusterNotFound")
	f.places("a1=Serving")
	selects(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "nothing"}}, "prod")
	f.followed("True/AsExpected")
	f.places()
	f.says("Degraded=True/NoTargets")
	selects(nil, "prod")
	f.states("a1=active")
	if has, err := f.hooked(f.t.Context(), foreign); err != nil || has {
		f.t.Errorf("another Cluster's Machine has %v, %v", foreign.GetAnnotations(), err)
	}

	// A kind that there is not.
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.TargetKind = &clusterv1.KindReference{APIGroup: "cluster.x-k8s.io", Kind: "Moose"}
	})
	f.followed("False/Invalid")
	f.machine("a4", "prod")
	f.states("a1=active")
	f.places("a1=Serving")
	if has, err := f.hooked(f.t.Context(), first); err != nil || !has {
		f.t.Errorf("Machine a1 isn't held: %v, %v", first.GetAnnotations(), err)
	}
	selects(nil, "prod")
	f.followed("True/AsExpected")
	f.states("a1=active", "a4=active")
}

// maxWait: a Machine isn't held for longer than maxWait, where the policy is Release.
func maxWait(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	f.waits(0, clusterv1.OnMaxWaitRelease)
	f.unhooks(m)
	f.places("a1=Draining", "a2=Serving")
}

// leavingCluster: a Cluster that is being deleted waits for nobody.
func leavingCluster(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.states("a1=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	c := f.newCluster("prod", nil)
	f.change(c, func(o client.Object) { o.SetFinalizers([]string{"cluster.cluster.x-k8s.io"}) })
	f.delete(m)
	f.held(m)
	f.delete(c)
	f.unhooks(m)
	f.collect(m)
	f.places()
	f.change(c, func(o client.Object) { o.SetFinalizers(nil) })
	f.gone(c)
	f.delete(f.lb)
	f.gone(f.lb)
}
