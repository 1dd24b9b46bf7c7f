package main

import (
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/hack/kube/hollow"
)

func TestParseNode(t *testing.T) {
	got, err := parseNode("node-1=127.20.1.1,zone=eu-1a")
	want := hollow.NodeSpec{Name: "node-1", Address: netip.MustParseAddr("127.20.1.1"), Zone: "eu-1a"}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = parseNode("node-1=10.0.0.1,fd00::1,zone=a")
	want = hollow.NodeSpec{Name: "node-1", Address: netip.MustParseAddr("10.0.0.1"), Address6: netip.MustParseAddr("fd00::1"), Zone: "a"}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"", "node-1", "=127.0.0.1", "node-1=", "node-1=::1", "node-1=127.0.0.1,eu-1a", "node-1=127.0.0.1,127.0.0.2", "node-1=127.0.0.1,::1,::2"} {
		if got, err := parseNode(wrong); err == nil {
			t.Errorf("%q: %+v", wrong, got)
		}
	}
}
