package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// What scripts may read is in docs/cli.md, field for field.
func TestTheOutputsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for l := range strings.Lines(string(b)) {
		if cells := strings.Split(l, "|"); len(cells) == 5 {
			rows[strings.TrimSpace(cells[2])] = cells[3]
		}
	}
	for _, v := range []any{Explanation{}, Rung{}, Evidence{}, Overview{}, Problem{}, TenantLine{}, Totals{}, EventLine{}, PoolLine{}, ProxyLine{}, Report{}, Check{}, Drain{}, DrainTarget{}, DrainLine{}} {
		kind := reflect.TypeOf(v)
		said, ok := rows[kind.Name()]
		if !ok {
			t.Errorf("docs/cli.md has no row for %s", kind.Name())
			continue
		}
		known := map[string]bool{}
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if name == "-" || !kind.Field(i).IsExported() {
				continue
			}
			if known[name] = true; name == "" || !strings.Contains(said, "`"+name+"`") {
				t.Errorf("docs/cli.md doesn't name %s of %s", name, kind.Name())
			}
		}
		for i, word := range strings.Split(said, "`") {
			if i%2 == 1 && !known[word] {
				t.Errorf("docs/cli.md names %s of %s, which there is not", word, kind.Name())
			}
		}
	}
}
