package capi_test

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is of what was lost, by story and world.
type table struct{ lines, endpoints chan string }

func newTable() *table { return &table{make(chan string, 100), make(chan string, 100)} }

func (t *table) add(w world, s story, l lost) {
	t.lines <- fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%s\n", s.name, w, l.sent, l.failed,
		l.worth().Round(100*time.Millisecond), l.longest.Round(time.Millisecond))
}

// endpoint adds how soon a world's endpoint was there.
func (t *table) endpoint(w world, c *cluster) {
	if w.members != written {
		t.endpoints <- fmt.Sprintf("%s\t%s\n", w, c.published.Round(time.Millisecond))
	}
}

// String is the table, once nobody adds to it any more.
func (t *table) String() string {
	b := &strings.Builder{}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	section := func(head string, lines chan string) {
		fmt.Fprintln(w, head)
		close(lines)
		all := []string{}
		for l := range lines {
			all = append(all, l)
		}
		slices.Sort(all)
		fmt.Fprint(w, strings.Join(all, ""))
		_ = w.Flush() // a Builder takes all
	}
	section("lost, while it is\tdata plane/hooks\trequests\tfailed\tworth\tlongest without an answer", t.lines)
	section("\ndata plane/hooks\tits endpoint was published, after its load balancer was served, within", t.endpoints)
	return b.String()
}
