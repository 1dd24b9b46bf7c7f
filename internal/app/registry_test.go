package app

import (
	"strings"
	"testing"
)

// TestNftablesRefusesWhatIsForSocketsOnly and says what to do.
func TestNftablesRefusesWhatIsForSocketsOnly(t *testing.T) {
	for flag, o := range map[string]DataplaneOptions{
		"--bind-as":          {BindAs: []string{"192.0.2.0/24=127.0.0.0/24"}},
		"--connect-attempts": {ConnectAttempts: 3},
	} {
		_, err := newDataplane("nftables", o)
		if err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), "--dataplane builtin") {
			t.Errorf("%s: %v, want it refused and the remedy", flag, err)
		}
	}
}
