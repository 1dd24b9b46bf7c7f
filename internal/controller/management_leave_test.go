package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"fairlead.dev/fairlead/internal/member"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// commands is an API server as the commands for people ask it.
func (h *hub) commands() *cli.Hub {
	h.t.Helper()
	scheme, err := app.Scheme()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cli.NewHub(h.control.RESTConfig(), scheme)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// explains what fairlead explain loadbalancer prints: its rungs up to the Machines', each as name=state, and all of its text. The hub is
// asked as well where that is there.
func (m *managed) explains(withHub bool) (served bool, rungs, text string) {
	m.t.Helper()
	now, key, here := m.t.Context(), management.Key(m.lb), m.commands()
	objects, err := here.Namespace(now, m.name)
	if err == nil {
		err = here.ReadEvents(now, key, objects)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	var hub *cli.Elsewhere
	if withHub {
		hub = &cli.Elsewhere{Namespace: m.elsewhere.name}
		if hub.Objects, err = m.elsewhere.commands().Namespace(now, m.elsewhere.name); err != nil {
			m.t.Fatal(err)
		}
	}
	e, out := cli.ExplainLoadBalancer(objects, key, hub), &strings.Builder{}
	if err := e.WriteText(out); err != nil {
		m.t.Fatal(err)
	}
	var all []string
	for _, r := range e.Rungs {
		all = append(all, r.Name+"="+string(r.State))
	}
	return e.Served, strings.Join(all, " "), out.String()
}

// explained: a LoadBalancer that is served is explained by what the agent wrote, and by what the hub has of it.
func (m *managed) explained() {
	m.t.Helper()
	for withHub, want := range map[bool]string{
		true:  "mirrored=ok tenant=ok accepted=ok class=ok address=ok programmed=ok members=ok machines=ok endpoint=ok",
		false: "mirrored=ok accepted=ok address=ok programmed=ok machines=ok endpoint=ok",
	} {
		served, rungs, text := m.explains(withHub)
		if !served || rungs != want || !strings.Contains(text, addressOf(m.lb)) || strings.Contains(text, "--hub-kubeconfig") == withHub {
			m.t.Errorf("served %v, %s, not %s:\n%s", served, rungs, want, text)
		}
	}
}

// leaves: once the agent is gone for good its word is taken off Machines and LoadBalancers, and not before. An agent that comes takes them up
// again.
func (m *managed) leaves(stop func()) {
	m.t.Helper()
	now, here := m.t.Context(), m.commands()
	a3 := m.newMachine("a3", "prod")
	leave := func(o cli.LeaveOptions) (cli.Leave, []cli.LeaveLine) {
		m.t.Helper()
		o.Agent = true
		var lines []cli.LeaveLine
		out, err := here.Leave(now, o, func(l cli.LeaveLine) { lines = append(lines, l) })
		if err != nil {
			m.t.Fatal(err)
		}
		return out, lines
	}
	if out, lines := leave(cli.LeaveOptions{}); out.State != cli.LeaveRefused || !strings.HasPrefix(out.Message, "agent ") || len(lines) > 0 {
		m.t.Errorf("while an agent leads: %+v, %+v", out, lines)
	}
	stop()
	carries := []string{member.StatusAnnotation, member.NameAnnotation}
	out, lines := leave(cli.LeaveOptions{DryRun: true})
	if out.State != cli.LeavePlanned || len(lines) != 1 || lines[0].Name != "a3" || slices.ContainsFunc(carries, func(k string) bool { return !slices.Contains(lines[0].Takes, k) }) {
		m.t.Errorf("a dry run: %+v, %+v", out, lines)
	}
	if has, err := m.hooked(now, a3); err != nil || !has {
		m.t.Errorf("a dry run took the hook off: %v, %v", a3.GetAnnotations(), err)
	}
	out, lines = leave(cli.LeaveOptions{})
	const done = "1 Machine carry nothing of an agent's any more, and 1 LoadBalancer no finalizer of its"
	if out.State != cli.LeaveDone || out.Message != done || len(lines) != 1 || lines[0].State != cli.LeaveDone {
		m.t.Errorf("%+v, %+v", out, lines)
	}
	if has, err := m.hooked(now, a3); err != nil || has || a3.GetAnnotations()[member.StatusAnnotation] != "" || a3.GetLabels()[member.NameAnnotation] != "" {
		m.t.Errorf("it keeps %v, %v: %v", a3.GetAnnotations(), a3.GetLabels(), err)
	}
	if err := m.api.Get(now, client.ObjectKeyFromObject(m.lb), m.lb); err != nil || len(m.lb.Finalizers) > 0 || m.lb.Annotations[clusterv1.HubAnnotation] != "" {
		m.t.Errorf("it keeps %v, %v: %v", m.lb.Finalizers, m.lb.Annotations, err)
	}
	if balancers, groups, err := m.inHub(now); err != nil || len(balancers) != 1 || len(groups) != 1 || balancers[0].DeletionTimestamp != nil {
		m.t.Errorf("the hub is asked nothing, and has %+v, %+v: %v", balancers, groups, err)
	}
	m.agent()
	m.until("the Machine to be held again", func(ctx ctx) error {
		if has, err := m.hooked(ctx, a3); err != nil || !has {
			return errors.Join(err, fmt.Errorf("hooked: %v", a3.GetAnnotations()))
		}
		return nil
	})
	m.says("Programmed=True", "Mirrored=True")
}
