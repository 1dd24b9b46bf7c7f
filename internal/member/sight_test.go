package member

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

func TestLook(t *testing.T) {
	plain := func(change ...func(*proof.Proxy)) *proof.Proxy {
		p := &proof.Proxy{
			Name: "edge-1", Live: true, Renewed: true, Reported: true, Settled: true, Through: proof.Vector{TargetGroups: 7, Addresses: 7},
			Reports: map[string]*v1alpha1.ProxyReport{},
		}
		for _, f := range change {
			f(p)
		}
		return p
	}
	says := func(state v1alpha1.ReportedState, change ...func(*v1alpha1.ReportedMember)) func(*proof.Proxy) {
		return func(p *proof.Proxy) {
			e := v1alpha1.ReportedMember{GroupUID: "g", TargetUID: "m", Address: "10.0.0.1", Check: "HTTPS:6443/readyz", State: state, Message: "status 503."}
			for _, f := range change {
				f(&e)
			}
			p.Reports["ns"] = &v1alpha1.ProxyReport{Members: []v1alpha1.ReportedMember{e}}
		}
	}
	silent := func(p *proof.Proxy) { p.Live = false }
	asked := Asked{Removal: proof.Removal{Namespace: "ns", GroupUID: "g", TargetUID: "m", Address: "10.0.0.1", Version: 7}}
	nowhere := asked
	nowhere.Address = ""
	byHTTP := asked
	byHTTP.Counts = func(check string) bool { return check == "HTTP:80/" }
	for name, c := range map[string]struct {
		m                        Asked
		proxies                  []*proof.Proxy
		live, healthy, unhealthy int
	}{
		"none":                         {asked, nil, 0, 0, 0},
		"one":                          {asked, []*proof.Proxy{plain()}, 1, 1, 0},
		"finds it unhealthy":           {asked, []*proof.Proxy{plain(says(v1alpha1.ReportedUnhealthy)), plain()}, 2, 1, 1},
		"has not checked it":           {asked, []*proof.Proxy{plain(says(v1alpha1.ReportedUnchecked))}, 1, 0, 0},
		"speaks of another member":     {asked, []*proof.Proxy{plain(says(v1alpha1.ReportedUnhealthy, func(e *v1alpha1.ReportedMember) { e.TargetUID = "n" }))}, 1, 1, 0},
		"speaks of another group":      {asked, []*proof.Proxy{plain(says(v1alpha1.ReportedUnhealthy, func(e *v1alpha1.ReportedMember) { e.GroupUID = "h" }))}, 1, 1, 0},
		"speaks of another check":      {byHTTP, []*proof.Proxy{plain(says(v1alpha1.ReportedUnhealthy))}, 1, 1, 0},
		"has not applied it":           {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Through.TargetGroups = 6 })}, 1, 0, 0},
		"has reports on the way":       {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Settled = false })}, 1, 0, 0},
		"can't write its report":       {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Held = []string{"ns"} })}, 1, 0, 0},
		"has more than fits":           {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Reports["ns"] = &v1alpha1.ProxyReport{Truncated: true} })}, 1, 0, 0},
		"is silent":                    {asked, []*proof.Proxy{plain(silent)}, 0, 0, 0},
		"is fenced":                    {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Out = true })}, 0, 0, 0},
		"starts":                       {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.Reported = false })}, 0, 0, 0},
		"serves on what it had before": {asked, []*proof.Proxy{plain(func(p *proof.Proxy) { p.HubChanged, p.Through.Addresses = "HubRestored", 0 })}, 0, 0, 0},
		"a member without an address":  {nowhere, []*proof.Proxy{plain()}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := Look(c.m, c.proxies)
			if s.Live != c.live || s.Healthy != c.healthy || s.Unhealthy != c.unhealthy || s.Gone {
				t.Errorf("%+v", s)
			}
			if s.Unhealthy > 0 && s.Why != "edge-1: HTTPS:6443/readyz status 503" {
				t.Errorf("why: %q", s.Why)
			}
		})
	}
	out := asked
	out.Draining = true
	if s := Look(out, []*proof.Proxy{plain(says(v1alpha1.ReportedGone)), plain(silent)}); s.Gone || len(s.Against) != 1 {
		t.Errorf("a silent proxy counts for a removal: %+v", s)
	}
	if s := Look(out, []*proof.Proxy{plain(says(v1alpha1.ReportedGone))}); !s.Gone {
		t.Errorf("all have stopped: %+v", s)
	}
}
