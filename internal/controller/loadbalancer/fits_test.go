package loadbalancer

import (
	"fmt"
	"strings"
	"testing"
)

// However much a tenant selects, and however it says so, the API server takes the status.
func TestAStatusFitsWhateverIsSelected(t *testing.T) {
	s := describe(plain(func(f *facts) {
		f.selector, f.groups = strings.Repeat("example.com/a=b,", 20000), nil
		for i := range 1500 {
			f.groups = append(f.groups, fmt.Sprintf("group-%04d", i))
		}
	}))
	if len(s.TargetSelector) > 4096 || !strings.HasPrefix(s.TargetSelector, "example.com/a=b,") || !strings.HasSuffix(s.TargetSelector, "…") {
		t.Errorf("a selector of %d characters", len(s.TargetSelector))
	}
	if len(s.Targets) != 1000 || s.Targets[0].Name != "group-0000" {
		t.Errorf("%d targets", len(s.Targets))
	}
}
