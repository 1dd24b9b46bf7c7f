package node_test

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHeld(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later, day := now.Add(time.Hour), now.Add(node.HeldFor)
	target := func(n int) v1alpha1.Target {
		return v1alpha1.Target{Name: fmt.Sprint("n", n), UID: fmt.Sprint("u", n), Addresses: []string{fmt.Sprint("10.0.0.", n)}}
	}
	there := func(name, uid, address string) v1.Node {
		return v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Address: address}}}}
	}
	one := there("n1", "u1", "10.0.0.1")
	four := []v1alpha1.Target{target(1), target(2), target(3), target(4)}
	for _, c := range []struct {
		name    string
		have    []v1alpha1.Target
		nodes   []v1.Node
		deleted string
		until   time.Time
		want    string
		lasts   time.Time
	}{
		{"all are there", four[:1], []v1.Node{one}, "", time.Time{}, "", time.Time{}},
		{"nothing is there yet", nil, nil, "", time.Time{}, "", time.Time{}},
		{"all are missing", four, nil, "", time.Time{}, "n1 n2 n3 n4 ", day},
		{"most are missing", four, []v1.Node{one}, "", time.Time{}, "n2 n3 n4 ", day},
		{"half are missing", four[:2], []v1.Node{one}, "", time.Time{}, "", time.Time{}},
		{"half are missing, and more were", four[:2], []v1.Node{one}, "", later, "n2 ", later},
		{"long enough", four, nil, "", now, "", time.Time{}},
		{"the last was deleted", four[:1], nil, "u1", time.Time{}, "", time.Time{}},
		{"one was deleted, the others are missing", four, nil, "u1", time.Time{}, "n2 n3 n4 ", day},
		{"one is another Node now", four[:1], []v1.Node{there("n1", "x", "10.0.0.9")}, "", time.Time{}, "", time.Time{}},
		{"another has its address", four[:1], []v1.Node{there("x", "x", "10.0.0.1")}, "", time.Time{}, "", time.Time{}},
		{"all are back", four[:1], []v1.Node{one}, "", later, "", time.Time{}},
	} {
		held, until := node.Held(node.Missing{Have: c.have, Nodes: c.nodes, Deleted: func(uid string) bool { return uid == c.deleted }, Until: c.until, Now: now})
		got := ""
		for _, h := range held {
			got += h.Name + " "
		}
		if got != c.want || !until.Equal(c.lasts) {
			t.Errorf("%s: %q until %s, wanted %q until %s", c.name, got, until, c.want, c.lasts)
		}
	}
}
