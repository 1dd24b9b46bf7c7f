package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// What a unit starts is a subcommand of the program, with options that it has; and systemd, where it is here, finds nothing wrong in it.
func TestUnitsStartWhatThereIs(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("%q %v", units, err)
	}
	flags := string(read(t, "../cmd/fairlead/proxy.go")) + string(read(t, "../cmd/fairlead/flags.go"))
	for _, unit := range units {
		text := string(read(t, unit))
		start := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.+)$`).FindStringSubmatch(text)
		if start == nil {
			t.Fatalf("%s starts nothing", unit)
		}
		words := strings.Fields(start[2])
		if words[0] != "proxy" {
			t.Errorf("%s starts %q", unit, words[0])
		}
		for _, w := range words[1:] {
			name, _, valued := strings.Cut(strings.TrimPrefix(w, "--"), "=")
			if !valued || !strings.Contains(flags, `"`+name+`"`) {
				t.Errorf("%s: fairlead proxy has no option %s", unit, w)
			}
		}
		if !slices.Contains(words, "--address=${ADDRESS}") {
			t.Errorf("%s: its proxy serves no pool of proxyHosts, whatever its host's addresses are", unit)
		}
		verify(t, unit, start[1], text)
	}
}

// verify has systemd judge a unit whose program is one that is there.
func verify(t *testing.T, unit, program, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("%s: no systemd-analyze here, its options alone were looked at", unit)
		return
	}
	name := strings.ReplaceAll(filepath.Base(unit), "@.", "@1.0.")
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, []byte(strings.ReplaceAll(text, program, "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", at).CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, name) {
			t.Errorf("systemd says of %s: %s", unit, line)
		}
	}
	if err != nil {
		t.Errorf("systemd-analyze verify %s: %v\n%s", unit, err, said)
	}
}
