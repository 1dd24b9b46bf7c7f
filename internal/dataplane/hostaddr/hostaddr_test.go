package hostaddr_test

import (
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane/hostaddr"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

func TestAddressesComeAndGo(t *testing.T) {
	network := netns.New()
	defer network.Close()
	ns := network.Namespace("host")
	ns.Up("lo")
	ns.Address("lo", "192.0.2.1/32")
	if err := network.Err(); err != nil {
		t.Fatal(err)
	}
	theirs, four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	owner, other := hostaddr.OwnerOf("one"), hostaddr.OwnerOf("another")
	expect := func(when string, want map[netip.Addr]bool) {
		t.Helper()
		got, err := owner.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{theirs, four, six} {
			ours, there := got[a]
			wantOurs, wantThere := want[a]
			if there != wantThere || ours != wantOurs {
				t.Errorf("%s: %s is there: %t, ours: %t; want %t, %t", when, a, there, ours, wantThere, wantOurs)
			}
		}
	}
	if err := ns.Do(func() error {
		for range 2 {
			for _, a := range []netip.Addr{theirs, four, six} {
				if err := owner.Put(a); err != nil {
					t.Error(err)
				}
			}
		}
		expect("put", map[netip.Addr]bool{theirs: false, four: true, six: true})
		if got, err := other.List(); err != nil || got[four] || got[six] {
			t.Errorf("another takes them for its own: %v, %v", got, err)
		}
		for range 2 {
			for _, a := range []netip.Addr{four, six} {
				if err := owner.Take(a); err != nil {
					t.Error(err)
				}
			}
		}
		expect("taken", map[netip.Addr]bool{theirs: false})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
