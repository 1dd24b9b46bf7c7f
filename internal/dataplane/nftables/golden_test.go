package nftables_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

var update = flag.Bool("update", false, "rewrite testdata")

// slotLists are the 256 slots of each spread, cut short in golden files.
var slotLists = regexp.MustCompile(`(?s)(map slots[46] \{\n\t\ttypeof [^\n]*\n)\t\telements = \{.*?\}\n`)

// elementLists are in the order of a hash table, which differs each time.
var elementLists = regexp.MustCompile(`(?s)\t\telements = \{ .*?\}\n`)

func sortElements(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "\t\telements = { "), " }\n")
	elements := strings.Split(strings.Join(strings.Fields(s), " "), ", ")
	slices.Sort(elements)
	return "\t\telements = { " + strings.Join(elements, ",\n\t\t\t     ") + " }\n"
}

// layoutVersion changes with each change of the rules.
var layoutVersion = regexp.MustCompile(`layout [0-9a-f]{16}`)

func programs() map[string]*lb.Program {
	client := func(p *lb.Pool) { p.Hash = lb.HashClientIP }
	keep := func(p *lb.Pool) { p.KeepClient = true }
	limited := func(f *lb.Frontend) {
		f.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")}
	}
	return map[string]*lb.Program{
		"nothing": newProgram().done(),
		"one":     simple(member(11, false), member(12, false)),
		"whole": newProgram().
			group("acme", "nodes", member(11, false), member(12, false)).
			group("acme", "nodes6", member(11, true)).
			group("globex", "nodes", member(13, false)).
			pool("acme", "web", "nodes", 8080).
			pool("acme", "dns", "nodes", 5353, client).
			pool("acme", "web6", "nodes6", 8080, keep).
			pool("globex", "m3ua", "nodes", 2905).
			frontend("acme", "dns", lb.UDP, "198.18.0.1:53", "dns").
			frontend("acme", "web", lb.TCP, "198.18.0.1:80", "web", limited).
			frontend("acme", "web", lb.TCP, "[2001:db8::1]:80", "web6", limited).
			frontend("globex", "m3ua", lb.SCTP, "198.18.0.1:2905", "m3ua").
			done(),
	}
}

// TestTableAsNftListsIt compares what the kernel has with testdata, as nft prints it; nft must also take back what it
// printed.
func TestTableAsNftListsIt(t *testing.T) {
	for name, p := range programs() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(p)
			listed := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
			w.reload(listed)

			got := slotLists.ReplaceAllString(listed, "$1\t\telements = { … }\n")
			got = elementLists.ReplaceAllStringFunc(got, sortElements)
			got = layoutVersion.ReplaceAllString(got, "layout …")
			path := filepath.Join("testdata", name+".nft")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the table differs from %s (-update rewrites it):\n%s", path, got)
			}
		})
	}
}

// reload has nft check a listing, and load it into a namespace of its own, which then lists the same.
func (w *world) reload(listed string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "listed.nft")
	if err := os.WriteFile(file, []byte(listed), 0o644); err != nil {
		w.t.Fatal(err)
	}
	n := netns.New()
	w.t.Cleanup(n.Close)
	fresh := n.Namespace("fresh")
	if err := n.Err(); err != nil {
		w.t.Fatal(err)
	}
	w.run(fresh, "nft", "-c", "-f", file)
	w.run(fresh, "nft", "-f", file)
	if again := w.run(fresh, "nft", "list", "table", "inet", "fairlead"); unordered(again) != unordered(listed) {
		w.t.Errorf("nft loads its own listing as something else:\n%s\nwas\n%s", again, listed)
	}
}

// unordered forgets the order of elements, which is that of a hash table.
func unordered(s string) string {
	counts := map[string]int{}
	for _, word := range regexp.MustCompile(`[^\s,{}=]+( [.:] [^\s,{}]+)*`).FindAllString(s, -1) {
		counts[word]++
	}
	return fmt.Sprint(counts)
}
