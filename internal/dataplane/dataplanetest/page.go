package dataplanetest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Page is the document of what each data plane can do.
type Page struct {
	Path string
	// Rewrite it instead of failing when it isn't what passed.
	Rewrite bool
}

func (p Page) check(t *testing.T, factories []Factory, all []flow, results map[string]map[string]result) {
	t.Helper()
	want := render(factories, all, results)
	if p.Rewrite {
		if err := os.WriteFile(p.Path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what passed; rewrite it with: go test ./internal/dataplane/dataplanetest -update\nwant:\n%s", p.Path, want)
	}
}

func render(factories []Factory, all []flow, results map[string]map[string]result) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("| what a user can count on |")
	for _, f := range factories {
		fmt.Fprintf(&b, " %s |", f.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(factories)) + "\n")
	var notes []string
	for _, fl := range all {
		fmt.Fprintf(&b, "| %s |", fl.says)
		for _, f := range factories {
			r := results[f.Name][fl.name]
			if r.reason == "" {
				b.WriteString(" yes |")
				continue
			}
			note := fmt.Sprintf("`%s`: %s", f.Name, r.reason)
			if f.Limits[fl.name] != "" {
				note += unasked
			}
			i := indexOf(notes, note)
			if i < 0 {
				i, notes = len(notes), append(notes, note)
			}
			fmt.Fprintf(&b, " no (%d) |", i+1)
		}
		b.WriteString("\n")
	}
	if len(notes) > 0 {
		b.WriteString("\nWhy not:\n\n")
		for i, n := range notes {
			fmt.Fprintf(&b, "%d. %s\n", i+1, n)
		}
	}
	b.WriteString(tail)
	return b.String()
}

func indexOf(all []string, s string) int {
	for i, other := range all {
		if other == s {
			return i
		}
	}
	return -1
}

// unasked marks a limit that no data plane can report.
const unasked = " (no field asks for this: nothing reports it)"

const head = `# Data planes

What carries the traffic is exchangeable: ` + "`fairlead proxy --dataplane NAME`" + `. Each line here is a flow of
` + "`internal/dataplane/dataplanetest`" + `, run with real sockets through network namespaces; "yes" means that it passed. "no" has its reason below. What a field asks
for and a data plane can't do, the data plane itself says: the port is refused, or served without that field, with reason NotSupported
and at nobody else's cost; the suite checks that too. What no field asks for nobody reports: choose a data plane by that. The page is written by the suite; don't edit it.

`

const tail = `
## Adding another

1. Make a folder in ` + "`internal/dataplane/`" + ` with a type that is a ` + "`dataplane.Dataplane`" + `; the interface's comments are the contract. It may
   import the model (` + "`internal/lb`" + `), never Kubernetes. Let ` + "`Check`" + ` name what a field asks for and it can't do.
2. Add it to the table in ` + "`internal/dataplane/dataplanetest/dataplanes_test.go`" + `, with the limits that no field asks about, and run, as root,
   ` + "`go test ./internal/dataplane/dataplanetest -run Dataplanes/NAME`" + ` until it passes; ` + "`-run Dataplanes/NAME/FLOW`" + ` runs one flow.
3. Add its line to ` + "`internal/app/registry.go`" + `.
4. Rewrite this page: ` + "`go test ./internal/dataplane/dataplanetest -update`" + `.
`
