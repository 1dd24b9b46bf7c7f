package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestIntervalIsThatOfTheOrderStatistics(t *testing.T) {
	// The textbook's ranks: of 15 values the 4th and the 12th, of 20 the 6th and the 15th.
	for _, c := range []struct {
		n         int
		low, high float64
		covers    float64
	}{
		{15, 4, 12, 0.9648},
		{20, 6, 15, 0.9586},
		{2500, 1201, 1300, 0.9523},
		{6, 1, 6, 0.9688},
		{3, 1, 3, 0.75}, // too few for 95 %, and it says so
		{1, 1, 1, 0},
	} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(c.n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		x := intervalOf(values)
		if x.Low != c.low || x.High != c.high || x.Median != float64(c.n+1)/2 || math.Abs(x.Covers-c.covers) > 1e-4 {
			t.Errorf("of %d values: %+v, want %v to %v, covering %v", c.n, x, c.low, c.high, c.covers)
		}
	}
}
