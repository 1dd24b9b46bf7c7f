package main

import "testing"

func TestClockThatMayJump(t *testing.T) {
	for code, want := range map[string]int{
		"_ = time.Now().UnixNano()":                                     1,
		"_ = time.Now().Add(x).UnixNano()":                              0, // it is hard to see, and rare
		"_ = started.Unix()":                                            0,
		"_ = time.Since(l.Spec.RenewTime.Time) > x":                     1,
		"_ = now.Sub(l.Spec.RenewTime.Time) > x":                        1,
		"_ = l.Spec.RenewTime.Add(x).Before(now)":                       1,
		"_ = time.Until(o.DeletionTimestamp.Time)":                      1,
		"_ = c.LastTransitionTime.After(now)":                           1,
		"_ = a.CreationTimestamp.Compare(b.CreationTimestamp.Time)":     0, // both by the API server's
		"_ = a.CreationTimestamp.Before(&b.DeletionTimestamp)":          1,
		"_ = l.Spec.RenewTime.UTC().Format(time.RFC3339Nano) != before": 0,
		"_ = time.Since(seen) > x":                                      0,
	} {
		found, err := clockBreaches("x.go", "package x\nfunc f() {\n"+code+"\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != want {
			t.Errorf("%s: %+v, want %d", code, found, want)
		}
	}
}

func TestTheTreeKeepsToItsClocks(t *testing.T) {
	if err := checkClock(t.Output(), "../.."); err != nil {
		t.Error(err)
	}
}
