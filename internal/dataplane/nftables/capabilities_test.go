package nftables_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"golang.org/x/sys/unix"
)

// capabilities by their names in manifests; those of units begin with CAP_.
var capabilities = map[string]uintptr{"NET_ADMIN": unix.CAP_NET_ADMIN, "NET_RAW": unix.CAP_NET_RAW, "SYS_ADMIN": unix.CAP_SYS_ADMIN}

// granted are those that a file of config/ gives a proxy with this data plane.
func granted(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../config", file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	names := strings.Fields(strings.NewReplacer(",", " ", "CAP_", "").Replace(string(found[1])))
	slices.Sort(names)
	return names
}

// With what the DaemonSet and the unit give, and nothing more, all goes that a proxy does: rules, addresses on the host, segments into
// connections that are cut, counters, another network namespace. Without NET_RAW connections aren't cut.
func TestTheManifestsCapabilitiesSuffice(t *testing.T) {
	given := granted(t, "proxy/proxy.yaml", `capabilities: \{drop: \[ALL\], add: \[([^\]]*)\]\}`)
	if unit := granted(t, "systemd/fairlead-proxy.service", `(?m)^CapabilityBoundingSet=(.*)$`); !slices.Equal(given, unit) {
		t.Errorf("the DaemonSet gives %q, the unit %q", given, unit)
	}
	const cut = "TestDrainingMembersConnectionsAreCutInTime"
	work := []string{"TestConnectionsSpreadOverMembers", "TestUDP", "TestIPv6", "TestAddressesArePutOnTheHostAndTakenAway", "TestAnotherNamespaceIsServedByItsPath",
		"TestMetricsAreReadFromTheKernel", "TestARestartChangesNothing", "TestAnotherProxysConnectionsAreResetAtOnce", cut}
	if said, err := underCapabilities(t, given, work); err != nil {
		t.Errorf("with %q: %v\n%s", given, err, said)
	} else if passed := strings.Count(said, "--- PASS: Test"); passed < len(work) {
		t.Errorf("with %q %d of %d tests ran:\n%s", given, passed, len(work), said)
	}
	without := slices.DeleteFunc(slices.Clone(given), func(n string) bool { return n == "NET_RAW" })
	if said, err := underCapabilities(t, without, []string{cut}); err == nil {
		t.Errorf("NET_RAW is not needed:\n%s", said)
	}
}

// underCapabilities runs tests of this program in a process that has no other capabilities, though it is root.
func underCapabilities(t *testing.T, names, tests []string) (said string, err error) {
	t.Helper()
	var drop []uintptr
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !slices.ContainsFunc(names, func(n string) bool { at, known := capabilities[n]; return known && at == c }) {
			drop = append(drop, c)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	p, err := testkit.StartProcess(testkit.Command{Path: self, Args: []string{"-test.v", "-test.run=^(" + strings.Join(tests, "|") + ")$"}, DropCapabilities: drop, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	err = p.Wait(t.Context())
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(text), err
}
