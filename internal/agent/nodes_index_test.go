package agent

import (
	"maps"
	"slices"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Anybody who may write in the namespace may name a group so.
func TestAGroupOfAnAbsurdIndexCostsNothing(t *testing.T) {
	have := map[int][]v1alpha1.Target{0: nil, 2_000_000_000: nil}
	got := slices.Sorted(maps.Keys(indices(have, 6)))
	if !slices.Equal(got, []int{0, 1, 2, 3, 2_000_000_000}) {
		t.Errorf("looks at groups %v", got)
	}
}
