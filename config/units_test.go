package config_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A unit starts its proxy again for as long as that takes. Another section doesn't know the setting.
func TestUnitsNeverGiveUp(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("%q %v", units, err)
	}
	for _, unit := range units {
		_, rest, _ := strings.Cut(string(read(t, unit)), "[Unit]\n")
		section, _, _ := strings.Cut(rest, "\n[")
		if !slices.Contains(strings.Split(section, "\n"), "StartLimitIntervalSec=0") {
			t.Errorf("%s: after five starts within ten seconds systemd gives up", unit)
		}
	}
}
