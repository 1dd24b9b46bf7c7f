package proof

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"pgregory.net/rapid"
)

// serving is a proxy that everything is plain about.
func serving(name string, change ...func(*Proxy)) *Proxy {
	p := &Proxy{
		Name: name, Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true,
		Through: Vector{10, 10, 10, 10, 10}, Reports: map[string]*v1alpha1.ProxyReport{},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func silent(p *Proxy)   { p.Live = false }
func out(p *Proxy)      { p.Out = true }
func starting(p *Proxy) { p.Reported = false }
func behind(p *Proxy)   { p.Through.LoadBalancers, p.Through.Addresses, p.Through.TargetGroups = 9, 9, 9 }
func late(p *Proxy)     { p.Settled = false }
func heldBack(p *Proxy) { p.Held = []string{"prod"} }

func unseen(p *Proxy) { p.Renewed = false }
func frozen(p *Proxy) { p.HubChanged, p.Through = v1alpha1.ReasonHubRestored, Vector{} }
func thawed(p *Proxy) { p.HubChanged = v1alpha1.ReasonHubRestored }

func report(r v1alpha1.ProxyReport) func(*Proxy) {
	return func(p *Proxy) { p.Reports["prod"] = &r }
}

func TestProgrammed(t *testing.T) {
	refused := report(v1alpha1.ProxyReport{Refused: []v1alpha1.RefusedFrontend{
		{LoadBalancer: "web", Port: 80, Problem: v1alpha1.Problem{Reason: "PortNotPermitted"}},
		{LoadBalancer: "other", Port: 81, Problem: v1alpha1.Problem{Reason: "PortInUse"}},
	}})
	for name, c := range map[string]struct {
		proxies  []*Proxy
		done     bool
		waiting  []string
		problems int
	}{
		"no proxy":                        {},
		"one":                             {proxies: []*Proxy{serving("a")}, done: true},
		"all live ones":                   {proxies: []*Proxy{serving("a"), serving("b")}, done: true},
		"one behind":                      {proxies: []*Proxy{serving("a"), serving("b", behind)}, waiting: []string{"b"}},
		"a silent one holds up nobody":    {proxies: []*Proxy{serving("a"), serving("b", behind, silent)}, done: true},
		"all silent":                      {proxies: []*Proxy{serving("a", silent)}},
		"a fenced one holds up nobody":    {proxies: []*Proxy{serving("a"), serving("b", behind, out)}, done: true},
		"a joining one holds up nobody":   {proxies: []*Proxy{serving("a"), serving("b", starting)}, done: true},
		"only a joining one":              {proxies: []*Proxy{serving("a", starting)}},
		"reports not here yet":            {proxies: []*Proxy{serving("a", late)}, waiting: []string{"a"}},
		"its report could not be written": {proxies: []*Proxy{serving("a", heldBack)}, waiting: []string{"a"}},
		"one was not heard of yet":        {proxies: []*Proxy{serving("a"), serving("b", unseen)}, waiting: []string{"b"}},
		"a frozen one":                    {proxies: []*Proxy{serving("a"), serving("b", frozen)}, waiting: []string{"b"}},
		"a frozen one that starts":        {proxies: []*Proxy{serving("a"), serving("b", frozen, starting)}, waiting: []string{"b"}},
		"one whose ledger has thawed":     {proxies: []*Proxy{serving("a", thawed)}, done: true},
		"a frozen silent one":             {proxies: []*Proxy{serving("a"), serving("b", frozen, silent)}, done: true},
		"its report is truncated":         {proxies: []*Proxy{serving("a", report(v1alpha1.ProxyReport{Truncated: true}))}, waiting: []string{"a"}},
		"refused":                         {proxies: []*Proxy{serving("a", refused), serving("b", refused)}, done: true, problems: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := JudgeProgrammed("prod", "web", Vector{10, 10, 10, 10, 10}, c.proxies)
			var waiting []string
			for _, w := range got.Waiting {
				waiting = append(waiting, w.Proxy)
			}
			if got.Done() != c.done || !slices.Equal(waiting, c.waiting) || len(got.Problems) != c.problems {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A proxy's word on what it refuses counts where that on what it serves would.
func TestRefuses(t *testing.T) {
	refused := report(v1alpha1.ProxyReport{Refused: []v1alpha1.RefusedFrontend{{LoadBalancer: "web", Port: 80}, {LoadBalancer: "other", Port: 81}}})
	truncated := report(v1alpha1.ProxyReport{Truncated: true})
	passing := func(p *Proxy) { p.Reported, p.Passing = false, true }
	for _, change := range []func(*Proxy){silent, out, starting, behind, late, heldBack, unseen, frozen, truncated, passing} {
		if got, known := serving("a", refused, change).Refuses("prod", "web", Vector{10, 10, 10, 10, 10}); known {
			t.Errorf("%+v", got)
		}
	}
	want := []Problem{{Protocol: "TCP", Port: 80}}
	if got, known := serving("a", refused, thawed).Refuses("prod", "web", Vector{10, 10, 10, 10, 10}); !known || !slices.Equal(got, want) {
		t.Errorf("%v %+v", known, got)
	}
}

// What was Programmed stays so, and so does what is said of its ports, whatever a new manager hasn't heard yet.
func TestWhatIsKeptKeepsItsProblems(t *testing.T) {
	refused := report(v1alpha1.ProxyReport{Refused: []v1alpha1.RefusedFrontend{{LoadBalancer: "web", Port: 80, Problem: v1alpha1.Problem{Reason: "PortInUse"}}}})
	for _, change := range []func(*Proxy){unseen, frozen, thawed} {
		if p := JudgeProgrammed("prod", "web", Vector{}, []*Proxy{serving("a", refused, change)}); len(p.Problems) != 1 {
			t.Errorf("%+v", p)
		}
	}
}

func TestTrouble(t *testing.T) {
	names := func(proxies []*Proxy) (out []string) {
		for _, p := range proxies {
			out = append(out, p.Name)
		}
		return out
	}
	got := JudgeTrouble([]*Proxy{
		serving("a"), serving("b", frozen), serving("c", frozen, silent), serving("d", frozen, out), serving("e", thawed),
		serving("f", unseen), serving("g", unseen, silent), serving("h", unseen, out), serving("i", unseen, starting),
	})
	if !slices.Equal(names(got.Frozen), []string{"b", "c"}) || !slices.Equal(names(got.Unseen), []string{"f", "i"}) || got.None() {
		t.Errorf("frozen %v, unseen %v", names(got.Frozen), names(got.Unseen))
	}
	if none := JudgeTrouble([]*Proxy{serving("a"), serving("b", silent)}); !none.None() {
		t.Errorf("%+v", none)
	}
	for name, c := range map[string]struct {
		proxies []*Proxy
		mute    bool
	}{
		"none":              {nil, true},
		"registered":        {[]*Proxy{{Name: "a"}}, true},
		"one has spoken":    {[]*Proxy{{Name: "a"}, {Name: "b", Boot: "b"}}, false},
		"none that can":     {[]*Proxy{{Name: "a", Out: true}}, false},
		"one that was left": {[]*Proxy{serving("a", out)}, false},
	} {
		if got := JudgeTrouble(c.proxies); got.Mute != c.mute || !got.None() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if text := FrozenText(got.Frozen); !strings.Contains(text, "what they had: b.") || !strings.Contains(text, "silent: c.") || !strings.Contains(text, "spec.fenced") {
		t.Error(text)
	}
}

func TestHeldNamespaceHoldsUpNobodyElse(t *testing.T) {
	p := JudgeProgrammed("test", "web", Vector{}, []*Proxy{serving("a", heldBack)})
	if !p.Done() {
		t.Errorf("%+v", p)
	}
}

func TestReleased(t *testing.T) {
	address := Release{Name: "192.0.2.1", UID: "u", Version: 10, Namespaces: []string{"prod"}}
	says := func(uid string, state v1alpha1.ReportedState, open int64) func(*Proxy) {
		return report(v1alpha1.ProxyReport{Truncated: true, Addresses: []v1alpha1.ReportedAddress{{Name: "192.0.2.1", UID: uid, State: state, OpenConnections: open}}})
	}
	gone := says("u", v1alpha1.ReportedGone, 0)
	for name, c := range map[string]struct {
		proxies []*Proxy
		change  func(*Release)
		waiting []string
	}{
		"no proxy":                        {},
		"gone":                            {proxies: []*Proxy{serving("a", gone)}},
		"silence proves nothing":          {proxies: []*Proxy{serving("a")}, waiting: []string{"a"}},
		"another life of the address":     {proxies: []*Proxy{serving("a", says("v", v1alpha1.ReportedGone, 0))}, waiting: []string{"a"}},
		"open connections":                {proxies: []*Proxy{serving("a", says("u", v1alpha1.ReportedDraining, 3))}, waiting: []string{"a"}},
		"gone in an earlier release":      {proxies: []*Proxy{serving("a", gone, behind)}, waiting: []string{"a"}},
		"a silent one counts":             {proxies: []*Proxy{serving("a", gone), serving("b", silent)}, waiting: []string{"b"}},
		"a silent one that had said so":   {proxies: []*Proxy{serving("a", gone, silent)}},
		"a silent one that is ignored":    {proxies: []*Proxy{serving("a", gone), serving("b", silent)}, change: func(r *Release) { r.IgnoreSilent = true }},
		"a fenced one doesn't count":      {proxies: []*Proxy{serving("a", gone), serving("b", silent, out)}},
		"a frozen one counts":             {proxies: []*Proxy{serving("a", gone, frozen)}, waiting: []string{"a"}},
		"one that never reported counts":  {proxies: []*Proxy{serving("a", gone), serving("b", starting)}, waiting: []string{"b"}},
		"reports not here yet":            {proxies: []*Proxy{serving("a", gone, late)}, waiting: []string{"a"}},
		"report could not be written":     {proxies: []*Proxy{serving("a", gone, heldBack)}, waiting: []string{"a"}},
		"no renewal seen yet":             {proxies: []*Proxy{serving("a", gone, func(p *Proxy) { p.Renewed = false })}, waiting: []string{"a"}},
		"the namespace is gone":           {proxies: []*Proxy{serving("a")}, change: func(r *Release) { r.Namespaces = nil }},
		"the namespace is gone, it lags":  {proxies: []*Proxy{serving("a", behind)}, change: func(r *Release) { r.Namespaces = nil }, waiting: []string{"a"}},
		"two namespaces, one word is due": {proxies: []*Proxy{serving("a", gone)}, change: func(r *Release) { r.Namespaces = []string{"prod", "test"} }, waiting: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := address
			if c.change != nil {
				c.change(&r)
			}
			var waiting []string
			for _, w := range JudgeReleased(r, c.proxies) {
				waiting = append(waiting, w.Proxy)
			}
			if !slices.Equal(waiting, c.waiting) {
				t.Errorf("waits for %v, want %v", waiting, c.waiting)
			}
		})
	}
}

func TestRemoved(t *testing.T) {
	m := Removal{Namespace: "prod", GroupUID: "g", TargetUID: "t", Address: "10.0.0.1", Version: 10}
	says := func(target string, state v1alpha1.ReportedState) func(*Proxy) {
		return report(v1alpha1.ProxyReport{Members: []v1alpha1.ReportedMember{{GroupUID: "g", TargetUID: target, Address: "10.0.0.1", State: state}}})
	}
	for name, c := range map[string]struct {
		proxies []*Proxy
		removed bool
	}{
		"no proxy":              {removed: true},
		"gone":                  {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone))}, removed: true},
		"draining":              {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedDraining))}},
		"a reborn target":       {proxies: []*Proxy{serving("a", says("u", v1alpha1.ReportedGone))}},
		"unhealthy isn't":       {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedUnhealthy))}},
		"a silent one counts":   {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone)), serving("b", silent)}},
		"one that left doesn't": {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone)), serving("b", silent, out)}, removed: true},
		"behind":                {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone), behind)}},
		"no renewal seen yet":   {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone), unseen)}},
		"silent, but said so":   {proxies: []*Proxy{serving("a", says("t", v1alpha1.ReportedGone), unseen, silent)}, removed: true},
	} {
		if got := len(JudgeRemoved(m, c.proxies)) == 0; got != c.removed {
			t.Errorf("%s: removed is %v", name, got)
		}
	}
}

// Who waits for a proxy that nobody ever ran is told what to do about it: by itself it goes on for ever.
func TestAProxyThatNeverRanIsToldApart(t *testing.T) {
	starting := serving("b", starting)
	for want, p := range map[string]*Proxy{"has not reported yet": starting, "has never run in this hub (start it, set spec.fenced on it, or delete its Proxy)": {Name: "b", Pool: "edge"}} {
		released, removed := JudgeReleased(Release{Name: "x", UID: "u"}, []*Proxy{p}), JudgeRemoved(Removal{Namespace: "prod"}, []*Proxy{p})
		if len(released) != 1 || released[0].Why != want || len(removed) != 1 || removed[0].Why != want {
			t.Errorf("want %q: %+v, %+v", want, released, removed)
		}
	}
	fenced := &Proxy{Name: "b", Pool: "edge", Out: true}
	if len(JudgeReleased(Release{Name: "x", UID: "u"}, []*Proxy{fenced})) > 0 || len(JudgeRemoved(Removal{Namespace: "prod"}, []*Proxy{fenced})) > 0 {
		t.Error("fenced, and waited for")
	}
}

func TestLiveness(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(0, 0).Add(time.Duration(s) * time.Second) }
	l := NewLiveness()
	l.List("a", "1", at(0))
	if !l.Live("a", at(29)) || l.Live("a", at(30)) || l.Renewed("a") || l.Live("b", at(0)) {
		t.Error("a lease of the first list is live for 30 s, and was not renewed")
	}
	if l.See("a", "1", at(20)) {
		t.Error("the same lease again is no renewal")
	}
	if !l.See("a", "2", at(25)) || !l.Live("a", at(54)) || !l.Renewed("a") {
		t.Error("a renewal counts from when it was seen")
	}
	l.See("b", "1", at(40))
	if next, ok := l.NextSilence(at(41)); !ok || next != at(55) || !l.Renewed("b") {
		t.Errorf("next silence at %v", next)
	}
	l.Forget("a")
	if l.Live("a", at(41)) {
		t.Error("a deleted lease is live")
	}
	if _, ok := l.NextSilence(at(90)); ok {
		t.Error("nobody is live any more")
	}
}

// TestMoreIsNeededNeverLess: whatever proxies say, one that doesn't speak never makes an answer truer,
// and raising what is needed never turns no into yes.
func TestMoreIsNeededNeverLess(t *testing.T) {
	proxy := rapid.Custom(func(t *rapid.T) *Proxy {
		p := serving(rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name"))
		p.Live, p.Renewed, p.Reported = rapid.Bool().Draw(t, "live"), rapid.Bool().Draw(t, "renewed"), rapid.Bool().Draw(t, "reported")
		p.Settled, p.Out = rapid.Bool().Draw(t, "settled"), rapid.Bool().Draw(t, "out")
		p.Through.Addresses = Version(rapid.Uint64Range(0, 4).Draw(t, "addresses"))
		p.Through.LoadBalancers = Version(rapid.Uint64Range(0, 4).Draw(t, "loadbalancers"))
		if rapid.Bool().Draw(t, "gone") {
			report(v1alpha1.ProxyReport{Addresses: []v1alpha1.ReportedAddress{{Name: "x", UID: "u", State: v1alpha1.ReportedGone}}})(p)
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		proxies := rapid.SliceOfN(proxy, 0, 4).Draw(t, "proxies")
		need := Vector{Addresses: Version(rapid.Uint64Range(0, 4).Draw(t, "need")), LoadBalancers: 2}
		more := need
		more.Addresses++
		release := Release{Name: "x", UID: "u", Version: need.Addresses, Namespaces: []string{"prod"}}
		judged := JudgeProgrammed("prod", "web", need, proxies)
		if higher := JudgeProgrammed("prod", "web", more, proxies); higher.Done() && !judged.Done() {
			t.Fatal("a higher need is met, a lower one isn't")
		}
		mute := &Proxy{Name: "mute", Live: true, Renewed: true}
		if len(JudgeReleased(release, append(slices.Clone(proxies), mute))) == 0 {
			t.Fatal("released with a proxy that said nothing")
		}
		if len(JudgeReleased(release, proxies)) == 0 {
			for _, p := range proxies {
				if !p.Out && (p.Reports["prod"] == nil || p.Through.Addresses < release.Version) {
					t.Fatalf("released, though %s said nothing of it", p.Name)
				}
			}
		}
		if judged.Done() {
			for _, p := range proxies {
				if p.Live && !p.Out && p.Reported && (!p.Renewed || !p.Through.Reaches(need)) {
					t.Fatalf("programmed, though %s is behind", p.Name)
				}
			}
		}
		permuted := slices.Clone(proxies)
		slices.Reverse(permuted)
		if back := JudgeProgrammed("prod", "web", need, permuted); back.Done() != judged.Done() {
			t.Fatal("the order of proxies matters")
		}
	})
}

func TestVersions(t *testing.T) {
	v := ParseThrough(v1alpha1.Through{LoadBalancers: "12", TargetGroups: "x"})
	if v != (Vector{LoadBalancers: 12}) {
		t.Errorf("%+v", v)
	}
	if _, err := ParseVersion("-1"); err == nil {
		t.Error("-1 is taken for a version")
	}
	if got := (Vector{1, 5, 0, 0, 0}).Max(Vector{2, 4, 0, 0, 1}); got != (Vector{2, 5, 0, 0, 1}) {
		t.Errorf("%+v", got)
	}
	if got := Names([]Waiting{{Proxy: "a", Why: "x"}, {Proxy: "b", Why: "x"}, {Proxy: "c", Why: "x"}, {Proxy: "d", Why: "x"}}); got != "a x; b x; c x; 1 more" {
		t.Error(got)
	}
}
