package lb

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// No client of a member moves for the sake of another member: not when one comes, goes or changes its weight.
func TestAClientMovesOnlyWithItsMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 12)
		if len(members) == 0 {
			return
		}
		for i := range members {
			members[i].Weight = max(members[i].Weight, 1)
		}
		size := rapid.IntRange(1, 300).Draw(t, "size")
		i := rapid.IntRange(0, len(members)-1).Draw(t, "changes")
		next := slices.Clone(members)
		if weight := rapid.SampledFrom([]int{0, 1, 2, 3, 256}).Draw(t, "to weigh"); weight > 0 {
			next[i].Weight = weight
		} else {
			next = slices.Delete(next, i, i+1)
		}
		a, b := HashClientIP.NewTable(members, size), HashClientIP.NewTable(next, size)
		for h := range uint64(size) {
			x, y := a.Lookup(h), b.Lookup(h)
			if y < 0 {
				continue // the last one left
			}
			if was, now := members[x].Key(), next[y].Key(); was != now && was != members[i].Key() && now != members[i].Key() {
				t.Fatalf("slot %d went from %v to %v, though %v changed", h, was, now, members[i].Key())
			}
		}
	})
}

func TestAClientThatIsRetriedGoesWhereItWillStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 8)
		for i := range members {
			members[i].Weight = max(members[i].Weight, 1)
		}
		table := HashClientIP.NewTable(members, 101)
		h := rapid.Uint64().Draw(t, "hash")
		left := slices.Clone(members)
		for i := range table.Order(h) {
			now := HashClientIP.NewTable(left, 101).Lookup(h)
			if left[now].Key() != members[i].Key() {
				t.Fatalf("Order says %v, a table without those before %v", members[i].Key(), left[now].Key())
			}
			left = slices.Delete(left, now, now+1)
		}
		if len(left) > 0 {
			t.Fatalf("left out: %v", left)
		}
	})
}

func TestClientsOfPermutedMembersGoAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 12)
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		a, b := HashClientIP.NewTable(members, 97), HashClientIP.NewTable(shuffled, 97)
		if !slices.Equal(keys(a, members), keys(b, shuffled)) {
			t.Fatal("the tables differ")
		}
		h := rapid.Uint64().Draw(t, "hash")
		first := a.Lookup(h)
		for i := range a.Order(h) {
			if i != first {
				t.Fatalf("Lookup says %d, Order %d", first, i)
			}
			break
		}
	})
}

// Shares are as the weights, within what chance leaves: four standard deviations.
func TestClientsAreSharedByWeight(t *testing.T) {
	for name, weight := range map[string]func(int) int{
		"alike":            alike,
		"weighted":         func(i int) int { return 1 + i%4 },
		"one weighs a lot": func(i int) int { return 1 + 99*max(0, 1-i) },
		"one weighs none":  func(i int) int { return min(i, 1) },
		"none weighs":      func(int) int { return 0 },
	} {
		const size = 65537
		members := tableMembers(20, weight)
		total := 0.0
		for _, m := range members {
			total += float64(m.Weight)
		}
		got := make([]int, len(members))
		table := HashClientIP.NewTable(members, size)
		for h := range uint64(size) {
			got[table.Lookup(h)]++
		}
		for i, m := range members {
			share := float64(m.Weight) / total
			if total == 0 {
				share = 1.0 / float64(len(members))
			}
			want := size * share
			if off := math.Abs(float64(got[i]) - want); off > 4*math.Sqrt(want*(1-share))+1e-9 {
				t.Errorf("%s: member %d of weight %d has %d slots, want %.0f", name, i, m.Weight, got[i], want)
			}
		}
	}
}

func TestCostIsTheLogarithm(t *testing.T) {
	for _, x := range []uint64{1, 2, 3, 1 << 20, 1<<63 - 1, 1 << 63, 0xdeadbeefdeadbeef, 1<<64 - 1} {
		want := 64 - math.Log2(float64(x))
		if got := float64(cost(x)) / (1 << 32); math.Abs(got-want) > 1e-8 {
			t.Errorf("%d: got %v, want %v", x, got, want)
		}
	}
}

func BenchmarkClientTable(b *testing.B) {
	for _, n := range []int{3, 50, 100} {
		for name, weight := range map[string]func(int) int{"alike": alike, "weighted": func(i int) int { return 1 + i%4 }} {
			members := tableMembers(n, weight)
			b.Run(fmt.Sprintf("%d members %s", n, name), func(b *testing.B) {
				for b.Loop() {
					HashClientIP.NewTable(members, 65537)
				}
			})
		}
	}
}
