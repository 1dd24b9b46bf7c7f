package fleet

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNetworksDoNotMeet(t *testing.T) {
	t.Parallel()
	for n := range networks {
		for m := range n {
			a, b := &Network{number: n}, &Network{number: m}
			for _, pair := range [][2]netip.Prefix{
				{a.Served(), b.Served()},
				{a.Wide(), b.Wide()},
				{netip.PrefixFrom(a.node(1, 1), 16), netip.PrefixFrom(b.node(1, 1), 16)},
			} {
				if pair[0].Overlaps(pair[1]) {
					t.Errorf("networks %d and %d: %s overlaps %s", n, m, pair[0], pair[1])
				}
			}
		}
	}
}

func TestTwoDemosClaimTwoNetworks(t *testing.T) {
	t.Parallel()
	a, err := claimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer a.release()
	b, err := claimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	if a.number == b.number {
		t.Errorf("both have network %d", a.number)
	}
}

func TestExampleIsMovedIntoItsNetwork(t *testing.T) {
	t.Parallel()
	w := &Network{number: 3}
	objects, err := w.Example("hub.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, o := range objects {
		b, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	for _, want := range []string{"127.80.3.0/25", "127.80.3.200/32", "127.23.1.0/24", "127.23.2.0/24"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if a := w.node(2, 1); !netip.MustParsePrefix("127.23.2.0/24").Contains(a) {
		t.Errorf("node %s is not among the targets of its tenant", a)
	}
}

func TestEveryExampleCanBeRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hub.yaml", "web.yaml", "scarce.yaml", "refused.yaml"} {
		objects, err := (&Network{}).Example(name)
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
	}
}
