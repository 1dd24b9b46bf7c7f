package nftables_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func TestARestartChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	p := programs()["whole"]
	w.apply(p)
	s := w.mustDial("10.1.0.2", vip)
	before := w.run(w.host, "nft", "-a", "list", "table", "inet", "fairlead")
	if d := w.restart(); d.Missing+d.Foreign > 0 {
		t.Errorf("drift = %+v, want none", d)
	}
	monitor := w.monitor()
	o := w.apply(p)
	if got := monitor(); got != "" {
		t.Errorf("the first Apply after a restart changes: %s", got)
	}
	if len(o.Refused) > 0 {
		t.Errorf("refused: %v", o.Refused)
	}
	if after := w.run(w.host, "nft", "-a", "list", "table", "inet", "fairlead"); unordered(after) != unordered(before) {
		t.Errorf("the table was\n%s\nand is\n%s", before, after)
	}
	if err := s.echo(); err != nil {
		t.Error(err)
	}
}

func TestARestartChangesOnlyWhatDiffers(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.dp.Close(w.ctx)
	w.start()
	next := newProgram().group("acme", "nodes", member(12, false)).pool("acme", "web", "nodes", 8080).
		frontend("acme", "web", lb.TCP, "198.18.0.2:80", "web").done()
	d, err := w.dp.Recover(w.ctx, next)
	if err != nil {
		t.Fatal(err)
	}
	if d.Missing != 1 || d.Foreign != 1 {
		t.Errorf("drift = %+v, want one missing and one foreign", d)
	}
	w.program = nil
	w.apply(next)
	if got := w.spread("", "198.18.0.2:80", 5); got["10.2.0.12"] != 5 {
		t.Errorf("spread = %v", got)
	}
	if _, err := w.dial(w.client, "", vip); err == nil {
		t.Error("what is no longer wanted is served")
	}
	// The former process's frontend is known by what the kernel remembers of it.
	w.eventually("its connection is counted", func() bool { return w.dp.Observe().Closing[webID()] == 1 })
	if err := s.echo(); err != nil {
		t.Error(err)
	}
}

func TestConnectionsThatNobodyKnowsOfAreBounded(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	p := func(m int) *lb.Program {
		p := simple(member(m, false))
		p.Tenants["acme"].Pools["web"].DrainTimeout = time.Second
		return p
	}
	w.apply(p(11))
	s := w.mustDial("", vip)
	w.apply(p(12))
	w.restart()
	w.apply(p(12))
	w.eventually("it is cut", func() bool { return s.echo() != nil })
}

// TestAnAddressThatAFormerProcessGaveUpIsNotFree while connections that it left are open.
func TestAnAddressThatAFormerProcessGaveUpIsNotFree(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.apply(newProgram().done())
	w.restart()
	w.apply(newProgram().done())
	open := func() (n int64) {
		for id, c := range w.dp.Observe().Closing {
			if id.Address == netip.MustParseAddrPort(vip).Addr() {
				n += c
			}
		}
		return n
	}
	if open() == 0 {
		t.Error("the address seems free before connections were counted")
	}
	if got := w.run(w.host, "nft", "list", "set", "inet", "fairlead", "vips4"); !strings.Contains(got, "198.18.0.1") {
		t.Errorf("the address leaves the table before connections were counted: %s", got)
	}
	w.eventually("it is counted", func() bool { return open() == 1 })
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	s.Close()
	w.eventually("it is free", func() bool { return open() == 0 })
}

// monitor collects what nft says that changes, until what it returns is called.
func (w *world) monitor() (stop func() string) {
	w.t.Helper()
	m := w.background(w.host, "nft", "monitor")
	probe := func(n string) {
		w.eventually("nft monitors", func() bool {
			w.run(w.host, "nft", "add table ip "+n+"; delete table ip "+n)
			return strings.Contains(m.String(), n)
		})
	}
	probe("begun")
	return func() string {
		probe("ended")
		all := m.String()
		between, _, _ := strings.Cut(all[strings.LastIndex(all, "delete table ip begun")+len("delete table ip begun"):], "add table ip ended")
		var kept []string
		for line := range strings.Lines(between) {
			if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
}

// TestAnotherLayoutIsReplacedWhole as by an upgrade: established connections stay, and marks with them.
func TestAnotherLayoutIsReplacedWhole(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	// A former version: it has the groups, and rules that nobody has now.
	listed := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	listed = layoutVersion.ReplaceAllString(listed, "layout 0123456789abcdef")
	listed = strings.Replace(listed, "chain probe {", "chain former {\n\t}\n\n\tchain probe {", 1)
	w.load("delete table inet fairlead\n" + listed)
	w.restart()
	w.apply(simple(member(11, false, draining(0)), member(12, false)))
	after := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	if strings.Contains(after, "former") {
		t.Error("the former layout is still there")
	}
	if got := w.spread("", vip, 5); got["10.2.0.12"] != 5 {
		t.Errorf("spread = %v", got)
	}
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	w.eventually("its connection is counted by the mark that it has", func() bool { return w.draining(11) == 1 })
}

func TestSomebodyElsesTableIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.run(w.host, "nft", "add", "table", "inet", "fairlead")
	w.run(w.host, "nft", "add", "table", "inet", "other")
	if _, err := w.dp.Recover(w.ctx, nil); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("recover: %v, want it to say that the table belongs to somebody else", err)
	}
	w.run(w.host, "nft", "delete", "table", "inet", "fairlead")
	w.apply(simple(member(11, false)))
	if err := w.dp.Purge(); err != nil {
		t.Fatal(err)
	}
	if got := w.run(w.host, "nft", "list", "tables"); got != "table inet other\n" {
		t.Errorf("after purge there are %s", got)
	}
}

// TestOurTableIsMadeAgain when somebody took it away.
func TestOurTableIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.load("flush ruleset")
	w.eventually("it serves again", func() bool {
		s, err := w.dial(w.client, "", vip)
		if err == nil {
			s.Close()
		}
		return err == nil
	})
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	w.load("flush ruleset") // and before anybody notices:
	w.apply(simple(member(12, false)))
	if got := w.spread("", vip, 5); got["10.2.0.12"] != 5 {
		t.Errorf("spread = %v", got)
	}
}

// TestAChangedTableIsMended at the next Apply that stumbles over what somebody did to it.
func TestAChangedTableIsMended(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.serve(9090, 11)
	p := simple(member(11, false))
	w.apply(p)
	w.load("delete element inet fairlead ports4 { 198.18.0.1 . tcp . 80 }\nadd element inet fairlead vips4 { 198.18.0.7 }")
	next := simple(member(11, false))
	next.Tenants["acme"].Pools["web"].Port = 9090
	if o := w.apply(next); len(o.Refused) > 0 {
		t.Errorf("refused: %v", o.Refused)
	}
	w.mustDial("", vip)
	if got := w.run(w.host, "nft", "list", "set", "inet", "fairlead", "vips4"); strings.Contains(got, "198.18.0.7") {
		t.Error("what somebody put into our table is still there")
	}
}

// TestAQuietChangeIsMended by comparing: nobody stumbles over it.
func TestAQuietChangeIsMended(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	p := both(lb.TCP, byClient, 11, 12)
	for _, f := range p.Tenants["acme"].Frontends {
		f.Sources = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd01::/64")}
	}
	p.Tenants["acme"].Pools["four"].KeepClient = true
	w.apply(p)
	monitor := w.monitor()
	if err := w.dp.Compare(); err != nil {
		t.Fatal(err)
	}
	if got := monitor(); got != "" {
		t.Errorf("nothing was changed, yet it is mended: %s", got)
	}
	before := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	for _, harm := range []string{
		"delete element inet fairlead slots4 { 0x1b300001 . 7 }",
		"delete element inet fairlead sources6 { 2001:db8::1 . tcp . 80 . fd01::/64 }",
		"add element inet fairlead frontends4 { 198.18.0.1 . tcp . 80 : 0x1b300001 }",
		"delete element inet fairlead admitted6 { 2001:db8::1 . tcp . 80 }",
		"add element inet fairlead targets { tcp . 99 }",
		"add element inet fairlead ports4 { 198.18.0.9 . tcp . 80 : 1 }",
		"delete element inet fairlead members4 { 10.2.0.11 }",
	} {
		w.load(harm)
		if err := w.dp.Compare(); err != nil {
			t.Fatal(err)
		}
		if after := w.run(w.host, "nft", "list", "table", "inet", "fairlead"); unordered(after) != unordered(before) {
			t.Errorf("%s: the table is\n%s", harm, slotLists.ReplaceAllString(after, "$1"))
		}
	}
}

// TestTwoProcessesAgree for as long as one follows the other.
func TestTwoProcessesAgree(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	first, second := simple(member(11, false)), both(lb.TCP, byClient, 12)
	w.apply(first)
	former := w.dp
	w.start()
	if d, err := w.dp.Recover(w.ctx, first); err != nil || d.Missing+d.Foreign > 0 {
		t.Fatalf("drift %+v, %v", d, err)
	}
	w.program = nil
	w.apply(first)
	for _, next := range []*lb.Program{second, first, second} {
		changes := lb.Diff(w.program, next)
		w.apply(next)
		if o, err := former.Apply(w.ctx, next, changes); err != nil || len(o.Refused) > 0 {
			t.Fatalf("the former process: %+v, %v", o, err)
		}
		want := "10.2.0.11"
		if next == second {
			want = "10.2.0.12"
		}
		if got := w.spread("", vip, 5); got[want] != 5 {
			t.Errorf("spread = %v, want %s", got, want)
		}
	}
	former.Close(w.ctx)
	w.mustDial("", vip6)
}
