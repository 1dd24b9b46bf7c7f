package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// Whatever is on the disk: what is taken from it is as a lookup would have it.
func FuzzNamesFile(f *testing.F) {
	for _, text := range []string{
		`{"a.example":["192.0.2.1","2001:db8::1"]}`, `{"a.example":["::ffff:192.0.2.1","192.0.2.1","fe80::1%eth0",""]}`, `{"a.example":null,"":["192.0.2.1"]}`,
		`{"a.example":["192.0.2.1"],"a.example":["192.0.2.2"]}`, `{"a.example":["192.0.2"]}`, `[]`, `null`, ``, `{"a.example":[`,
	} {
		f.Add([]byte(text))
	}
	many := map[string][]netip.Addr{}
	for a := netip.MustParseAddr("10.0.0.1"); len(many["a.example"]) <= maxAddresses; a = a.Next() {
		many["a.example"] = append(many["a.example"], a)
	}
	text, err := json.Marshal(many)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "edge-1.names")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := New(Options{
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry(), File: path,
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no name server answers") },
		})
		defer r.Close()
		read, err := readFile(path)
		if err != nil && len(read) > 0 {
			t.Fatalf("%v, and %v", err, read)
		}
		names := []string{}
		for name := range read {
			names = append(names, name)
		}
		r.SetNames(map[lb.TenantID][]string{"shop": names})
		for name, all := range r.Addresses() {
			if len(all) == 0 || len(all) > maxAddresses || !slices.IsSortedFunc(all, netip.Addr.Compare) || len(slices.Compact(slices.Clone(all))) < len(all) {
				t.Errorf("%q stands for %v", name, all)
			}
			for _, a := range all {
				if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
					t.Errorf("%q stands for %v", name, a)
				}
			}
		}
	})
}
