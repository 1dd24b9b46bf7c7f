package limits_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// to is a LoadBalancer with a TargetGroup of its own, whose one target has those addresses.
func (s *siege) to(namespace, name string, addresses ...string) (*clusterv1.LoadBalancer, *v1alpha1.TargetGroup) {
	l, g := loadBalancer(namespace, name, s.beta), targets(namespace, s.beta)
	label := map[string]string{v1alpha1.LabelTargets: name}
	g.Name, g.Labels, l.Spec.Selector = name, label, &metav1.LabelSelector{MatchLabels: label}
	g.Spec.Targets[0].Addresses = addresses
	return l, g
}

// No connection goes where a Tenant's targets may not lie, however the address is written, and the refusal says which target it is.
func testHostileTargets(t *testing.T, s *siege) {
	const notAllowed, invalid = clusterv1.ReasonTargetNotAllowed, clusterv1.ReasonInvalid
	own, special, noHost, neither := "the hub's operator adds its range to spec.targetCIDRs", "adds it to spec.targetCIDRs by itself", "is no host's address: write the host's", "is neither an IP address nor a DNS name"
	type refusal struct{ namespace, address, reason, says string }
	cases := []refusal{
		{"mallory", s.address(1).String(), notAllowed, own}, // the hub's
		{"mallory", s.webAt.Addr().String(), notAllowed, own},
		{"mallory", "10.0.0.1", notAllowed, own},
		{"mallory", "::ffff:10.0.0.1", notAllowed, own},
		{"mallory", "0:0:0:0:0:FFFF:10.0.0.1", notAllowed, own},
		{"mallory", "169.254.169.254", notAllowed, own},
		{"mallory", "::ffff:169.254.169.254", notAllowed, own},
		{"mallory", "::1", notAllowed, own},
		{"mallory", "2001:db8::1", notAllowed, own},
		{"mallory", "0.0.0.0", invalid, noHost},
		{"mallory", "::", invalid, noHost},
		{"mallory", "::ffff:0.0.0.0", invalid, noHost},
		{"mallory", "224.0.0.1", invalid, noHost},
		{"mallory", "ff02::1", invalid, noHost},
		{"mallory", "255.255.255.255", invalid, noHost},
		{"mallory", "fe80::1", invalid, noHost},
		{"mallory", "fe80::1%lo", invalid, "has a zone identifier"},
		{"mallory", "127.0.0.1%lo", invalid, neither},
		{"mallory", "127.1", invalid, neither},
		{"mallory", "0x7f000001", notResolved, ""},
		{"mallory", "2130706433", invalid, neither},
		{"mallory", "0177.0.0.1", invalid, neither},
		{"mallory", "127.0.0.1:80", invalid, neither},
		{"mallory", "[::1]", invalid, neither},
		{"mallory", "127.0.0.1/32", invalid, neither},
		{"mallory", "127.0.0.１", invalid, neither}, // a digit that is none of ASCII's
		{"mallory", "http://metadata.internal/", invalid, neither},
		{"mallory", "-option", invalid, neither},
		{"mallory", "\u202e1.0.0.721", invalid, neither},
		{"wide", "127.0.0.1", notAllowed, special},
		{"wide", "::1", notAllowed, special},
		{"wide", "::ffff:127.0.0.1", notAllowed, special},
		{"wide", "169.254.169.254", notAllowed, special},
		{"wide", "fd00:ec2::254", notAllowed, special},
		{"wide", "64:ff9b::7f00:1", notAllowed, special},
		{"wide", "64:ff9b::a9fe:a9fe", notAllowed, special},
		{"wide", "2002:7f00:1::1", notAllowed, special},
		{"wide", "::127.0.0.1", notAllowed, special},
		{"wide", "localhost", notResolved, ""},
	}
	made := make([]*clusterv1.LoadBalancer, len(cases))
	for i, c := range cases {
		l, g := s.to(c.namespace, fmt.Sprintf("target-%d", i), c.address)
		made[i] = l
		s.create(g, l)
	}
	for i, c := range cases {
		if c.reason == notResolved {
			s.silent(made[i])
			continue
		}
		// The LoadBalancer says what its group says, and names group, field and fix.
		s.refused(made[i], clusterv1.ConditionDegraded, c.reason, "TargetGroup target-"+fmt.Sprint(i), "spec.targets[0].addresses", c.says)
		s.silent(made[i])
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: made[i].Name}}
		s.eventually("the TargetGroup to say so", func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
				return err
			}
			for _, x := range g.Status.Conditions {
				if x.Type == v1alpha1.ConditionAccepted && x.Status == metav1.ConditionFalse && x.Reason == c.reason && strings.Contains(x.Message, c.says) {
					return nil
				}
			}
			return fmt.Errorf("%s: %+v", c.address, g.Status.Conditions)
		})
	}
	// What is allowed is served, however it is written, beside what is not.
	mapped, g := s.to("mallory", "mapped", "10.0.0.1", "::FFFF:127.0.0.1")
	s.create(g, mapped)
	s.refused(mapped, clusterv1.ConditionDegraded, notAllowed, own) // the first of each family counts
	if err := s.mallory.Patch(t.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"targets":[{"name":"node-1","uid":"uid-1","addresses":["::FFFF:127.0.0.1"]},{"name":"node-2","uid":"uid-2","addresses":["10.0.0.1"]}]}}`))); err != nil {
		t.Fatal(err)
	}
	s.served(mapped)
	for _, l := range append(made, mapped) {
		s.drop(l)
	}
}

// notResolved stands for names: no condition may tell what a name stands for.
const notResolved = ""

// drop deletes a LoadBalancer and waits until it is gone.
func (s *siege) drop(l *clusterv1.LoadBalancer) {
	s.t.Helper()
	if err := s.api.Delete(s.t.Context(), l); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	s.eventually(l.Name+" to go", func(ctx context.Context) error {
		err := s.api.Get(ctx, client.ObjectKeyFromObject(l), l)
		if err == nil {
			return fmt.Errorf("it is there, with finalizers %q", l.Finalizers)
		}
		return client.IgnoreNotFound(err)
	})
}

// A TargetGroup that changes all the time costs a few writes a change; what it said last is served.
func testRestlessTargets(t *testing.T, s *siege) {
	const changes, interval = 60, 100 * time.Millisecond
	l := loadBalancer("mallory", "restless", s.alpha)
	label := map[string]string{v1alpha1.LabelTargets: "restless"}
	l.Spec.Selector = &metav1.LabelSelector{MatchLabels: label}
	g := targets("mallory", s.alpha)
	g.Name, g.Labels = "restless", label
	s.create(g, l)
	served := s.served(l)
	_, offset, err := s.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, pace := 0, time.NewTicker(interval); i < changes; i++ {
		<-pace.C
		at := s.alpha
		if i%2 == 1 {
			at = s.beta
		}
		g.Spec.Targets = nil
		for n := range 1 + i%5 {
			g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("node-%d", n), UID: fmt.Sprintf("uid-%d-%d", i, n), Addresses: []string{at.Addr().String()}})
		}
		if err := s.mallory.Patch(t.Context(), g.DeepCopy(), client.RawPatch(types.MergePatchType, merge(t, map[string]any{"spec": g.Spec}))); err != nil {
			t.Fatal(err)
		}
		if err := answers(t.Context(), served); err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	s.eventually("the last change to be served", func(ctx context.Context) error {
		if heard, err := word(ctx, served); err != nil || heard != "beta." {
			return fmt.Errorf("it is answered %q, %w", heard, err)
		}
		if c, err := s.conditionOf(ctx, l, clusterv1.ConditionReady); err != nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v %w", c, err)
		}
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if n := len(g.Spec.Targets); g.Status.Members != fmt.Sprintf("%d/%d", n, n) {
			return fmt.Errorf("members are %s of %d: %+v", g.Status.Members, n, g.Status)
		}
		return nil
	})
	for range 100 {
		if heard, err := word(t.Context(), served); err != nil || heard != "beta." {
			t.Fatalf("once the last change is in effect a client hears %q, %v", heard, err)
		}
	}
	writes, _, err := s.Writes(offset)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, w := range writes {
		if !strings.HasSuffix(w.User, ":mallory:fairlead-agent") && w.Resource != "leases" {
			by[w.User+" "+w.Resource]++
		}
	}
	all := 0
	for _, n := range by {
		all += n
	}
	t.Logf("%d changes, and %d writes for them: %v", changes, all, by)
	if all > 2*changes {
		t.Errorf("%d changes cost %d writes: %v", changes, all, by)
	}
	s.drop(l)
}

func merge(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
