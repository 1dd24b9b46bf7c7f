package demo

import (
	"strings"
	"testing"
)

func TestOnlySoManyPortsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	v := &view{served: map[servedPort]*live{}}
	for port := range uint16(liveMost) {
		v.served[servedPort{port: port}] = &live{}
	}
	// A generator would have been used for one more: there is none.
	if row := v.traffic(servedPort{port: 999}, nil); !strings.Contains(row, "not tried") || len(v.served) != liveMost {
		t.Errorf("%q, %d are tried", row, len(v.served))
	}
	if row := v.traffic(servedPort{port: 1}, nil); strings.Contains(row, "not tried") {
		t.Errorf("one that is tried: %q", row)
	}
}
