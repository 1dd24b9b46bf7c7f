package testkit

import (
	"errors"
	"net/netip"
	"testing"
)

func TestClaimSubnet(t *testing.T) {
	first, err := claimSubnet(netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimSubnet(first.prefix); !errors.Is(err, errTaken) {
		t.Errorf("taken twice: %v", err)
	}
	first.release()
	again, err := claimSubnet(first.prefix)
	if err != nil {
		t.Errorf("after its release: %v", err)
	} else {
		again.release()
	}
	for _, wrong := range []string{"127.0.0.0/16", "10.0.0.0/24", "::1/24"} {
		if _, err := claimSubnet(netip.MustParsePrefix(wrong)); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}
