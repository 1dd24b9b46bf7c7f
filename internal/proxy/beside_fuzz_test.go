package proxy

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// Whatever stands beside the last-good file: it is read or refused, and what is read is written and read again the same.
func FuzzBesideTheLastGoodFile(f *testing.F) {
	dir := f.TempDir()
	written := newFile(dir, FileHeader{Proxy: "edge-1"})
	p := lb.Probe{Address: netip.MustParseAddr("192.0.2.1")}
	if err := errors.Join(written.makeMark(), written.overwriteMark([]byte(`{"hubUID":"x"}`)), written.keepFindings(findings([]lb.Probe{p}))); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{markPath(dir, "edge-1"), findingsPath(dir, "edge-1")} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{``, ` `, `null`, `[]`, `{}`, `[{}]`, `[{},{}]`, `[null]`, `[{"Address":"fe80::1%x"}]`, `{"stale":true`, `{"Stale":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		file := newFile(dir, FileHeader{Proxy: "edge-1"})
		for _, path := range []string{markPath(dir, "edge-1"), findingsPath(dir, "edge-1"), filepath.Join(dir, "edge-1.last-good")} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		mark, err := readMark(dir, "edge-1")
		if err != nil && mark != nil {
			t.Fatalf("%v, and %+v", err, mark)
		}
		if mark != nil {
			if err := file.makeMark(); err != nil {
				t.Fatal(err)
			}
			file.memory = *mark
			if err := file.mark(); err == nil { // else it is larger than a mark is
				again, err := readMark(dir, "edge-1")
				if err != nil || again == nil && *mark != (Memory{}) || again != nil && *again != *mark {
					t.Fatalf("read %+v, then %+v, %v", mark, again, err)
				}
			}
		}
		found, err := readFindings(dir, "edge-1")
		if err != nil && found != nil {
			t.Fatalf("%v, and %+v", err, found)
		}
		if err != nil {
			return
		}
		known := findings(found)
		if err := file.keepFindings(known); err != nil {
			t.Fatal(err)
		}
		again, err := readFindings(dir, "edge-1")
		slices.SortFunc(found, compareProbes)
		if err != nil || !slices.Equal(slices.Compact(found), again) {
			t.Fatalf("read %+v, then %+v, %v", found, again, err)
		}
	})
}
