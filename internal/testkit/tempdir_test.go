package testkit

import (
	"os"
	"testing"
)

func TestTempDirOfAKilledProcessIsSwept(t *testing.T) {
	root := t.TempDir()
	killed, err := makeTempDir(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	living, err := makeTempDir(root, "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed.path); err != nil {
		t.Fatalf("swept while in use: %v", err)
	}
	if err := killed.lock.Close(); err != nil { // what the kernel does for a killed process
		t.Fatal(err)
	}
	next, err := makeTempDir(root, "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed.path); !os.IsNotExist(err) {
		t.Errorf("not swept: %v", err)
	}
	for _, d := range []*tempDir{living, next} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
