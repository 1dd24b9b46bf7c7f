package main

import (
	"cmp"
	"math"
	"slices"
)

// interval is a median with the 95 % interval that the order statistics give by the binomial
// distribution: exact, with nothing assumed of the distribution and no chance in it.
type interval struct {
	Median, Low, High float64
	// Covers is the interval's true confidence, at least 95 %, if there are six values or more.
	Covers float64
}

func medianOf[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

func intervalOf(values []float64) interval {
	n := len(values)
	if n == 0 {
		return interval{}
	}
	s := slices.Sorted(slices.Values(values))
	median := (s[(n-1)/2] + s[n/2]) / 2
	// The k smallest and the k largest are left out, as many as P(k or fewer of n are on one side) allows.
	k, left := 0, binomial(n, 0)
	for {
		tail := binomial(n, k+1)
		if 2*(left+tail) > 0.05 {
			return interval{median, s[k], s[n-1-k], max(0, 1-2*left)}
		}
		left += tail
		k++
	}
}

// binomial is the chance that exactly k of n are on one side of the median. (0.5 to the power of n is 0 to a float64 where n is
// above a thousand.)
func binomial(n, k int) float64 {
	lgamma := func(i int) float64 { v, _ := math.Lgamma(float64(i) + 1); return v }
	return math.Exp(lgamma(n) - lgamma(k) - lgamma(n-k) - float64(n)*math.Ln2)
}

// ratios divides pairs.
func ratios(of, by []float64) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		if by[i] > 0 {
			out[i] = of[i] / by[i]
		}
	}
	return out
}
