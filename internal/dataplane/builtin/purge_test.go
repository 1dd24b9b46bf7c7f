package builtin_test

import (
	"context"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/dataplane/hostaddr"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

// TestPurgeTakesWhatAKilledProcessLeft and nothing of others.
func TestPurgeTakesWhatAKilledProcessLeft(t *testing.T) {
	network := netns.New()
	defer network.Close()
	ns := network.Namespace("host")
	ns.Up("lo")
	if err := network.Err(); err != nil {
		t.Fatal(err)
	}
	left, theirs := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	if err := ns.Do(func() error {
		if err := hostaddr.OwnerOf(builtin.Name).Put(left); err != nil {
			return err
		}
		if err := hostaddr.OwnerOf("another").Put(theirs); err != nil {
			return err
		}
		dp := builtin.New(builtin.Options{})
		defer dp.Close(context.Background())
		return dp.Purge()
	}); err != nil {
		t.Fatal(err)
	}
	all, err := ns.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	found := map[netip.Addr]bool{}
	for _, a := range all {
		found[a] = true
	}
	if found[left] || !found[theirs] {
		t.Errorf("after purge there are %v", all)
	}
}
