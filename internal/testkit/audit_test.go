package testkit

import (
	"strings"
	"testing"
)

func TestReadWritesLeavesHalfALineForLater(t *testing.T) {
	line := `{"verb":"patch","user":{"username":"jane"},"userAgent":"x","objectRef":{"apiGroup":"apps","resource":"deployments","subresource":"status","namespace":"a","name":"b"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-02T03:04:05.000000Z"}` + "\n"
	writes, offset, err := readWrites(strings.NewReader(line+line[:20]), 100)
	if err != nil || len(writes) != 1 || offset != 100+int64(len(line)) {
		t.Fatalf("%+v, %d, %v", writes, offset, err)
	}
	w := writes[0]
	if w.User != "jane" || w.Verb != "patch" || w.Group != "apps" || w.Resource != "deployments/status" || w.Namespace != "a" || w.Name != "b" || w.StatusCode != 200 || w.At.IsZero() {
		t.Errorf("%+v", w)
	}
}
