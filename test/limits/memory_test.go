package limits_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
)

// memory is what a process has in memory that is its own, in MiB.
func memory(t *testing.T, p *testkit.Process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n >> 10
		}
	}
	t.Fatalf("no RssAnon of %s", p.Name())
	return 0
}
