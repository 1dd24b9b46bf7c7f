package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/contract"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stories by what they hold a provider to.
var stories = map[string]func(*play){
	"nothing is made before the endpoint is pushed down":      gated,
	"what the LoadBalancer says goes before the object's own": precedence,
	"the provider chooses where nobody says anything":         chosen,
	"members go through their states":                         members,
	"members stay while no TargetGroup is selected":           unselected,
	"a member added by hand is removed with an event":         byHand,
	"what is deleted is gone outside":                         deleted,
	"what is adopted by ID is kept":                           adopted,
	"a pause and a move hold everything":                      held,
	"what vanished outside is made again":                     vanished,
	"a result that is lost makes no second one":               lost,
	"an error is tried again, ever more slowly":               transient,
	"a refusal is not tried again at once":                    refused,
	"a panic harms one object, for a while":                   panics,
	"a silent provider harms one object, for a while":         silent,
	"what can't be changed holds up no member":                unchanged,
	"credentials are the object's own":                        credentials,
	"else those of an InfraCluster of the family":             family,
	"who may not read whose it is makes nothing":              unread,
	"what the technology can't do is refused":                 unsupported,
	"a Tenant's quota leaves out what comes after":            quota,
	"a class says how long open connections run on":           classDrains,
}

func gated(p *play) {
	e := p.Endpoint()
	o, l := p.object("gated", nil)
	p.create(o)
	p.waitFor(o, "Ready=False/NoLoadBalancer")
	l.Spec.Role, l.Spec.ClusterName = clusterv1.RoleControlPlane, "gated"
	l.Spec.TargetKind = &clusterv1.KindReference{Kind: "TargetGroup"}
	l.Spec.Ports = nil
	p.create(newCluster(p.namespace, "gated").with(map[string]any{
		"controlPlaneEndpoint": map[string]any{"host": e.Host, "port": int64(e.Port)},
	}), l)
	p.waitFor(o, "Ready=False/EndpointNotPushed")
	other := clusterv1.Endpoint{Host: e.Host, Port: e.Port + 1}
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = &other })
	p.waitFor(o, "Ready=False/EndpointConflict")
	if n := p.faults.count(string(o.GetUID()), "Ensure") + p.faults.count(string(o.GetUID()), "SetMembers"); n != 0 {
		p.t.Fatalf("the provider was asked for something outside %d times, before the endpoint was pushed down", n)
	}
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = &e })
	p.waitFor(o, "Ready=True", "LBExists=True", "LBMatchesConfig=True", "DNSResolvable=True")
	if got := contractOf(o).Endpoint; got == nil || *got != e {
		p.t.Errorf("spec.endpoint is %v, not what was pushed, %v", got, e)
	}
	p.faults.read(string(o.GetUID()), func(w *owner) {
		if w.first.Endpoint != e || len(w.first.Ports) != 1 || w.first.Ports[0].Port != e.Port || w.first.Ports[0].TargetPort != 6443 {
			p.t.Errorf("the provider was asked first for %+v, not for %v and a control plane's port", w.first, e)
		}
	})
}

func precedence(p *play) {
	mine, theirs, later := p.Endpoint(), p.Endpoint(), p.Endpoint()
	o, l := p.object("precedence", &theirs)
	contractOf(o).Endpoint = &mine
	p.create(l, o)
	p.waitFor(o, "Ready=True", "LBMatchesConfig=True")
	if got := *contractOf(o).Endpoint; got != theirs {
		p.t.Fatalf("spec.endpoint is %v, not the LoadBalancer's %v", got, theirs)
	}
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = &later })
	p.waitFor(o, "Ready=True", "LBMatchesConfig=False/EndpointDiffers", "Degraded=True/EndpointDiffers")
	if got := *contractOf(o).Endpoint; got != theirs {
		p.t.Errorf("spec.endpoint is %v, though %v exists", got, theirs)
	}
	p.create(p.group("precedence", p.Members[0]))
	p.state(o, "m0", contract.StateActive) // members are seen to all the same
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = &theirs })
	p.waitFor(o, "LBMatchesConfig=True", "Degraded=False")
}

func chosen(p *play) {
	o, l := p.object("chosen", nil)
	contractOf(o).Endpoint = &clusterv1.Endpoint{} // as the proposal prints it
	p.create(l, o)
	p.waitFor(o, "Ready=True", "LBExists=True", "Degraded=True/NoTargetGroups")
	spec, status := o.Contract()
	if spec.ID == "" || spec.Endpoint == nil || spec.Endpoint.Host == "" || status.Endpoint == nil {
		p.t.Errorf("spec.id is %q, spec.endpoint %v, status.endpoint %v", spec.ID, spec.Endpoint, status.Endpoint)
	}
	if status.TargetKind != "TargetGroup.fairlead.dev" || status.TargetSelector != "story=chosen" {
		p.t.Errorf("targets are of kind %q by %q", status.TargetKind, status.TargetSelector)
	}
}

func members(p *play) {
	o, _, g := p.made("members", p.Members[0], p.Members[1])
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].State = v1alpha1.TargetDraining })
	p.state(o, "m1", contract.StateRemoved)
	p.outside(o, p.Members[0]+":Active")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets = g.Spec.Targets[:1] })
	p.state(o, "m1", "")
	change(p, g, func(g *v1alpha1.TargetGroup) {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: "m2", UID: "uid-2"})
	})
	p.state(o, "m2", contract.StateWaiting)
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets[1].Addresses = []string{p.Members[2]} })
	p.state(o, "m2", contract.StateActive)
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Spec.Targets = g.Spec.Targets[1:] }) // without a word of draining
	p.state(o, "m0", "")
	p.outside(o, p.Members[2]+":Active")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Annotations = map[string]string{clusterv1.DisabledAnnotation: ""} })
	p.state(o, "m2", contract.StateDisabled)
	p.waitFor(o, "Ready=True", "Degraded=True/NoActiveTargets")
	change(p, g, func(g *v1alpha1.TargetGroup) { g.Annotations = nil })
	p.state(o, "m2", contract.StateActive)
}

func unselected(p *play) {
	o, _, g := p.made("unselected", p.Members[0])
	p.delete(g)
	p.waitFor(o, "Degraded=True/NoTargetGroups")
	p.outside(o, p.Members[0]+":Active")
	p.create(p.group("unselected"))
	p.outside(o) // an empty one is a word
}

func byHand(p *play) {
	o, _, _ := p.made("by-hand", p.Members[0])
	stranger := provider.Member{Name: "stranger", Address: p.Members[1], Weight: 1}
	if err := p.faults.Provider.SetMembers(p.t.Context(), ref(o), []provider.Member{{Name: "m0", Address: p.Members[0], Weight: 1}, stranger}); err != nil {
		p.t.Fatal(err)
	}
	p.event(o, contract.ReasonNotATarget)
	p.outside(o, p.Members[0]+":Active")
	p.state(o, stranger.Address, "")
	p.state(o, "m0", contract.StateActive)
}

func deleted(p *play) {
	o, _, _ := p.made("deleted", p.Members[0])
	p.delete(o)
	p.absent(o)
	never, _ := p.object("never", nil)
	p.create(never)
	p.waitFor(never, "Ready=False/NoLoadBalancer")
	p.delete(never)
	p.absent(never)
}

func adopted(p *play) {
	e := p.Endpoint()
	o, l := p.object("adopted", &e)
	another := provider.Ref{Owner: "somebody-" + p.namespace, Object: o}
	there, err := p.faults.Provider.Ensure(p.t.Context(), provider.Wanted{Ref: another, Name: "another", Endpoint: e, Ports: l.Spec.Ports})
	if err != nil {
		p.t.Fatal(err)
	}
	contractOf(o).ID = "nobody-has-this"
	p.create(p.group("adopted", p.Members[0]), l, o)
	p.waitFor(o, "LBExists=False/NotFound", "Ready=False/NotFound")
	change(p, o, func(o provider.Object) { contractOf(o).ID = there.ID })
	p.state(o, "m0", contract.StateActive)
	p.waitFor(o, "Ready=True")
	twin, l2 := p.object("twin", &e)
	contractOf(twin).ID = there.ID
	p.create(l2, twin)
	p.waitFor(twin, "Ready=False/IDInUse")
	p.delete(twin)
	p.delete(o)
	eventually(p.t, p.Patience, "both to be gone", func(ctx context.Context) error {
		return errors.Join(isGone(ctx, p.api, o), isGone(ctx, p.api, twin))
	})
	another.ID = there.ID
	if _, err := p.faults.Provider.Describe(p.t.Context(), another); err != nil {
		p.t.Errorf("what was adopted isn't there any more: %v", err)
	}
	eventually(p.t, p.Patience, "the end of what was adopted", func(ctx context.Context) error {
		if err := p.faults.Provider.Delete(ctx, another); !errors.Is(err, provider.ErrNotFound) {
			return fmt.Errorf("it returns %v, and not ErrNotFound", err)
		}
		return nil
	})
}

func held(p *play) {
	const paused, moving = clusterv1.PausedAnnotation, clusterv1.MoveAnnotation
	o, l, _ := p.made("held", p.Members[0])
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Annotations = map[string]string{moving: ""} })
	p.waitFor(o, "Paused=True")
	p.delete(o)
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Annotations = map[string]string{paused: ""} })
	c := newCluster(p.namespace, "held").with(map[string]any{"paused": true})
	p.create(c)
	change(p, o, func(o provider.Object) { o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "held"}) })
	p.wait(o, "to be held by its Cluster", func() error {
		_, status := o.Contract()
		c := meta.FindStatusCondition(status.Conditions, contract.ConditionPaused)
		if c == nil || !strings.Contains(c.Message, "Cluster held is paused") {
			return fmt.Errorf("condition Paused is %v", c)
		}
		return nil
	})
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Annotations = nil })
	p.outside(o, p.Members[0]+":Active")
	if n := p.faults.count(string(o.GetUID()), "Delete"); n != 0 {
		p.t.Fatalf("the provider was asked %d times to delete what is held", n)
	}
	change(p, c, func(c *unstructured.Unstructured) { c.Object["spec"] = map[string]any{"paused": false} })
	p.absent(o)
}

func vanished(p *play) {
	o, _, _ := p.made("vanished", p.Members[0])
	was := *contractOf(o).Endpoint
	eventually(p.t, p.Patience, "somebody to delete it outside", func(ctx context.Context) error {
		err := p.faults.Provider.Delete(ctx, ref(o))
		if err != nil && !errors.Is(err, provider.ErrNotFound) {
			return err
		}
		return nil
	})
	p.event(o, contract.ReasonMadeAgain)
	p.outside(o, p.Members[0]+":Active")
	p.waitFor(o, "Ready=True")
	if got := *contractOf(o).Endpoint; got != was {
		p.t.Errorf("it is at %v, and was at %v", got, was)
	}
}

func lost(p *play) {
	e := p.Endpoint()
	o, l := p.object("lost", &e)
	p.create(o)
	p.waitFor(o, "Ready=False/NoLoadBalancer")
	p.faults.read(string(o.GetUID()), func(w *owner) { w.lose = true })
	p.create(l)
	p.waitFor(o, "Ready=True")
	p.faults.read(string(o.GetUID()), func(w *owner) {
		if w.lost == "" || w.lost != contractOf(o).ID {
			p.t.Errorf("%q was made first, and %q is used", w.lost, contractOf(o).ID)
		}
	})
}

func credentials(p *play) {
	e := p.Endpoint()
	o, l := p.object("credentials", &e)
	contractOf(o).CredentialRef = &contract.CredentialReference{Kind: "Secret", Name: "key"}
	p.create(l, o)
	p.waitFor(o, "Ready=False/CredentialsNotFound")
	p.create(&corev1.Secret{ObjectMeta: objectMeta(p.namespace, "key"), Data: map[string][]byte{"token": []byte("hidden")}})
	p.waitFor(o, "Ready=True")
	p.faults.read(string(o.GetUID()), func(w *owner) {
		c := w.first.Credentials
		if c.Ref == nil || c.Ref.Name != "key" || string(c.Secret["token"]) != "hidden" {
			p.t.Errorf("the provider got the credentials %+v", c)
		}
		if got := fmt.Sprintf("%v %+v %s %#v", c, c, c.Secret, c.Secret); len(c.Secret) == 0 || strings.Contains(got, "hidden") || strings.Contains(got, "104 105") {
			p.t.Errorf("credentials print as %s", got)
		}
	})
}

func unsupported(p *play) {
	if p.Options.Supports.SCTP {
		p.t.Skip("the technology does all that a LoadBalancer may ask")
	}
	e := p.Endpoint()
	o, l := p.object("unsupported", &e)
	l.Spec.Ports = []clusterv1.Port{{Port: e.Port, TargetPort: p.TargetPort, Protocol: clusterv1.ProtocolSCTP}}
	p.create(l, o)
	p.waitFor(o, "Ready=False/NotSupported")
	if n := p.faults.count(string(o.GetUID()), "Ensure"); n != 0 {
		p.t.Errorf("the provider was asked %d times for what it can't do", n)
	}
	change(p, l, func(l *clusterv1.LoadBalancer) { l.Spec.Ports[0].Protocol = clusterv1.ProtocolTCP })
	p.waitFor(o, "Ready=True")
}

// restarted: with all that the stories left behind, and one that is well.
func restarted(p *play, g *stage) {
	o, _, _ := p.made("restarted", p.Members[0], p.Members[1])
	was := o.GetResourceVersion()
	if err := g.stop(); err != nil {
		p.t.Fatalf("the controller: %v", err)
	}
	g.start(p.t)
	before := p.faults.count(string(o.GetUID()), "Describe")
	eventually(p.t, p.Patience, "some looks at it", func(context.Context) error {
		if n := p.faults.count(string(o.GetUID()), "Describe") - before; n < 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	p.waitFor(o, "Ready=True")
	if o.GetResourceVersion() != was {
		p.t.Errorf("it was written, though nothing changed: version %s, was %s", o.GetResourceVersion(), was)
	}
	p.outside(o, p.Members[0]+":Active", p.Members[1]+":Active")
}
