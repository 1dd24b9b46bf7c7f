package member

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

const (
	serving  = v1alpha1.TargetServing
	draining = v1alpha1.TargetDraining
)

var (
	// hooked is a LoadBalancer over Machines as most are.
	hooked = LoadBalancer{Hooked: true, MaxWait: 10 * time.Minute, Release: true}
	well   = Sight{Live: 2, Healthy: 2}
	gone   = Sight{Gone: true}
	open   = Sight{Against: []proof.Waiting{{Proxy: "edge-1", Why: "has open connections"}}}
)

// a member that is plainly active, but for what is changed.
func a(change ...func(*Member)) Member {
	m := Member{Name: "a", Selected: true, Addressed: true, Hook: true, Placed: serving, Sight: well, Was: Active}
	for _, f := range change {
		f(&m)
	}
	return m
}

func fresh(m *Member)       { m.Hook, m.Placed, m.Sight, m.Was = false, Absent, Sight{}, "" }
func unnamed(m *Member)     { m.Placed, m.Sight = Absent, Sight{} }
func addressless(m *Member) { m.Addressed = false }
func unhooked(m *Member)    { m.Hook = false }
func deleting(m *Member)    { m.Deleting = true }
func dead(m *Member)        { m.Dead = true }
func unselected(m *Member)  { m.Selected = false }
func disabled(m *Member)    { m.Disabled = true }
func updating(m *Member)    { m.Cause = InPlaceUpdate }
func tainted(m *Member)     { m.Cause = ScaleDown }
func draining2(s Sight) func(*Member) {
	return func(m *Member) { m.Placed, m.Sight = draining, s }
}
func seen(s Sight) func(*Member)           { return func(m *Member) { m.Sight = s } }
func was(s State) func(*Member)            { return func(m *Member) { m.Was = s } }
func waited(d time.Duration) func(*Member) { return func(m *Member) { m.Waited = d } }

// other is a second member, plainly active, but for what is changed.
func other(change ...func(*Member)) []Member { return []Member{a(change...)} }

func TestDecide(t *testing.T) {
	block := LoadBalancer{Hooked: true, MaxWait: 10 * time.Minute}
	brief := LoadBalancer{Hooked: true, MaxWait: 2 * time.Second}
	hookless := LoadBalancer{MaxWait: 10 * time.Minute}
	with := func(f func(*LoadBalancer)) LoadBalancer {
		l := hooked
		f(&l)
		return l
	}
	for name, c := range map[string]struct {
		l      LoadBalancer
		m      Member
		others []Member
		state  State
		reason string
		want   v1alpha1.TargetState
		hook   bool
	}{
		// The proposal's table: the resource isn't deleting, and not disabled.
		"waiting: no address yet":                      {hooked, a(fresh, addressless), nil, Waiting, ReasonNoAddress, Absent, false},
		"adding: the hook first":                       {hooked, a(fresh), nil, Adding, ReasonHookFirst, Absent, true},
		"adding: then the target":                      {hooked, a(unnamed, was(Adding)), nil, Adding, ReasonNotChecked, serving, true},
		"adding: at once where there is no hook":       {hookless, a(fresh), nil, Adding, ReasonNotChecked, serving, false},
		"adding: not checked yet":                      {hooked, a(was(Adding), seen(Sight{Live: 2})), nil, Adding, ReasonNotChecked, serving, true},
		"adding: fails its check, never passed":        {hooked, a(was(Adding), seen(Sight{Live: 2, Unhealthy: 2})), nil, Adding, ReasonFailsCheck, serving, true},
		"adding: no proxy lives":                       {hooked, a(was(Adding), seen(Sight{})), nil, Adding, ReasonNoProxies, serving, true},
		"active":                                       {hooked, a(was(Adding)), nil, Active, "", serving, true},
		"active: one sick proxy wedges nobody":         {hooked, a(seen(Sight{Live: 3, Healthy: 2, Unhealthy: 1})), nil, Active, ReasonPartlySeen, serving, true},
		"active: proxies restart":                      {hooked, a(seen(Sight{Live: 2})), nil, Active, ReasonNotChecked, serving, true},
		"active: no proxy lives":                       {hooked, a(seen(Sight{})), nil, Active, ReasonNoProxies, serving, true},
		"active: its address is lost":                  {hooked, a(addressless), nil, Active, "", serving, true},
		"active: somebody took the hook away":          {hooked, a(unhooked), nil, Active, "", serving, true},
		"unhealthy":                                    {hooked, a(seen(Sight{Live: 2, Unhealthy: 1})), nil, Unhealthy, ReasonFailsCheck, serving, true},
		"unhealthy: no proxy lives":                    {hooked, a(was(Unhealthy), seen(Sight{})), nil, Unhealthy, ReasonNoProxies, serving, true},
		"active again":                                 {hooked, a(was(Unhealthy)), nil, Active, "", serving, true},
		"somebody dropped the target, and it is added": {hooked, a(unnamed), nil, Adding, ReasonNotChecked, serving, true},

		// The annotation disabled is there.
		"disabling":                            {hooked, a(disabled), other(), Disabling, ReasonDraining, draining, true},
		"disabling: the last active one, too":  {hooked, a(disabled), nil, Disabling, ReasonDraining, draining, true},
		"disabling: connections are open":      {hooked, a(disabled, was(Disabling), draining2(open)), other(), Disabling, ReasonDraining, draining, true},
		"disabled":                             {hooked, a(disabled, was(Disabling), draining2(gone)), other(), Disabled, "", draining, true},
		"disabled: never served":               {hooked, a(disabled, fresh), other(), Disabled, "", Absent, false},
		"disabled: never served, hooked":       {hooked, a(disabled, unnamed, was(Adding)), other(), Disabling, ReasonDraining, draining, true},
		"enabled again":                        {hooked, a(was(Disabled), draining2(gone)), other(), Adding, ReasonNotChecked, serving, true},
		"enabled again, and the hook was lost": {hooked, a(was(Disabled), draining2(gone), unhooked), other(), Adding, ReasonHookFirst, draining, true},

		// It is to leave.
		"removing":                                          {hooked, a(deleting), other(), Removing, ReasonDraining, draining, true},
		"removing: connections are open":                    {hooked, a(deleting, was(Removing), draining2(open)), other(), Removing, ReasonDraining, draining, true},
		"removing: hook and all":                            {hookless, a(deleting, unhooked), other(), Removing, ReasonDraining, draining, false},
		"removing: somebody dropped the target":             {hooked, a(deleting, was(Removing), unnamed), other(), Removing, ReasonDraining, draining, true},
		"removing: disabled, too":                           {hooked, a(deleting, disabled, was(Disabling), draining2(open)), other(), Removing, ReasonDraining, draining, true},
		"removing: it is the last, and none comes":          {hooked, a(deleting), nil, Removing, ReasonDraining, draining, true},
		"removing: it is the last, another comes":           {hooked, a(deleting), other(was(Adding), seen(Sight{})), Removing, ReasonLastActive, serving, true},
		"removing: another comes, but too late":             {hooked, a(deleting, waited(5*time.Minute)), other(was(Adding), seen(Sight{})), Removing, ReasonDraining, draining, true},
		"removing: the others leave as well":                {hooked, a(deleting), other(deleting), Removing, ReasonDraining, draining, true},
		"removing: it isn't active, and another comes":      {hooked, a(deleting, was(Unhealthy), seen(Sight{Live: 1, Unhealthy: 1})), other(fresh), Removing, ReasonDraining, draining, true},
		"removing: not selected any more":                   {hooked, a(unselected), other(), Removing, ReasonDraining, draining, true},
		"removed":                                           {hooked, a(deleting, was(Removing), draining2(gone)), other(), Removed, "", draining, false},
		"removed: it stays listed until its Machine goes":   {hooked, a(deleting, was(Removed), draining2(gone), unhooked), other(), Removed, "", draining, false},
		"removed: never served":                             {hooked, a(deleting, fresh), other(), Removed, "", Absent, false},
		"no hook, never named, as far as is seen":           {hookless, a(deleting, fresh), other(), Removing, ReasonDraining, draining, false},
		"no hook, waiting, and never named":                 {hookless, a(deleting, fresh, was(Waiting)), other(), Removing, ReasonDraining, draining, false},
		"no hook, disabled, and never named":                {hookless, a(disabled, fresh), other(), Disabling, ReasonDraining, draining, false},
		"no hook, and never an address":                     {hookless, a(deleting, fresh, addressless, was(Waiting)), other(), Removed, "", Absent, false},
		"no hook, and dropped once removed":                 {hookless, a(deleting, fresh, was(Removed)), other(), Removed, "", Absent, false},
		"removed: not selected, the hook goes first":        {hooked, a(unselected, was(Removing), draining2(gone)), other(), Removed, "", draining, false},
		"removed: not selected, and then the target":        {hooked, a(unselected, unhooked, was(Removed), draining2(gone)), other(), Removed, "", Absent, false},
		"removed: not selected, and that was it":            {hooked, a(unselected, unhooked, was(Removed), unnamed), other(), Removed, "", Absent, false},
		"selected again":                                    {hooked, a(was(Removed), draining2(gone), unhooked), other(), Adding, ReasonHookFirst, draining, true},
		"a Machine that is deleting already gets no hook":   {hooked, a(deleting, unhooked), other(), Removing, ReasonDraining, draining, false},
		"a new Machine that is deleting gets no traffic":    {hooked, a(deleting, fresh), nil, Removed, "", Absent, false},
		"a Machine that waits and is deleted":               {hooked, a(deleting, fresh, addressless, was(Waiting)), nil, Removed, "", Absent, false},
		"a Machine with a hook that was never named":        {hooked, a(deleting, unnamed, was("")), other(), Removing, ReasonDraining, draining, true},
		"a Machine without address, hooked and never named": {hooked, a(deleting, unnamed, addressless, was(Waiting)), other(), Removing, ReasonDraining, draining, true},

		// Each way out of a hook.
		"exit: the LoadBalancer is deleted":               {with(func(l *LoadBalancer) { l.Leaving = true }), a(), other(), Removing, ReasonDraining, draining, false},
		"exit: the Cluster or its control plane is":       {with(func(l *LoadBalancer) { l.ClusterLeaving = true }), a(deleting), other(fresh), Removing, ReasonDraining, draining, false},
		"exit: hooks are switched off":                    {hookless, a(deleting, was(Removing), draining2(open)), other(), Removing, ReasonDraining, draining, false},
		"exit: dead, and fails its check":                 {hooked, a(deleting, dead, was(Unhealthy), seen(Sight{Live: 2, Unhealthy: 1})), other(), Removing, ReasonDraining, draining, false},
		"exit: dead, and all are unhealthy":               {block, a(deleting, dead, was(Unhealthy), seen(Sight{Live: 2, Unhealthy: 2})), other(was(Unhealthy), seen(Sight{Live: 2, Unhealthy: 2})), Removing, ReasonDraining, draining, false},
		"exit: dead, never passed its check":              {hooked, a(deleting, dead, was(Adding), seen(Sight{Live: 2, Unhealthy: 2})), other(), Removing, ReasonDraining, draining, false},
		"exit: dead, and nobody has had a word in time":   {hooked, a(deleting, dead, was(Removing), seen(Sight{}), waited(30*time.Second)), other(), Removing, ReasonDraining, draining, false},
		"exit: dead, no word, and half of maxWait passed": {brief, a(deleting, dead, was(Removing), seen(Sight{Live: 1}), waited(time.Second)), other(), Removing, ReasonDraining, draining, false},
		"exit: dead, maxWait, Release":                    {hooked, a(deleting, dead, was(Removing), draining2(open), waited(10*time.Minute)), other(), Removing, ReasonMaxWaitPassed, draining, false},
		"no exit: dead, nobody has a word yet":            {hooked, a(deleting, dead, seen(Sight{})), other(), Removing, ReasonNotChecked, serving, true},
		"no exit: dead, proxies restart":                  {hooked, a(deleting, dead, was(Removing), seen(Sight{Live: 2}), waited(29*time.Second)), other(), Removing, ReasonNotChecked, serving, true},
		"no exit: dead, but it serves well":               {hooked, a(deleting, dead), other(), Removing, ReasonDraining, draining, true},
		"no exit: dead, one proxy finds it well":          {hooked, a(deleting, dead, seen(Sight{Live: 2, Healthy: 1, Unhealthy: 1})), other(), Removing, ReasonDraining, draining, true},
		"no exit: dead, well, and the last":               {hooked, a(deleting, dead), other(was(Adding), seen(Sight{})), Removing, ReasonLastActive, serving, true},
		"no exit: dead, well, and drains":                 {hooked, a(deleting, dead, was(Removing), draining2(open)), other(), Removing, ReasonDraining, draining, true},
		"no exit: dead, well, maxWait, Block":             {block, a(deleting, dead, was(Removing), draining2(open), waited(time.Hour)), other(), Removing, ReasonDraining, draining, true},
		"no exit: dead, and somebody dropped the target":  {hooked, a(deleting, dead, was(Removing), unnamed), other(), Removing, ReasonDraining, draining, true},
		"no exit: dead, and frozen":                       {with(func(l *LoadBalancer) { l.Frozen = "paused" }), a(deleting, dead, was(Unhealthy), seen(Sight{Live: 2, Unhealthy: 2})), other(), Unhealthy, ReasonFrozen, serving, true},
		"dead, and no hook: it drains at once":            {hookless, a(deleting, dead, unhooked, seen(Sight{})), other(), Removing, ReasonDraining, draining, false},
		"dead, and its Cluster goes: it drains at once":   {with(func(l *LoadBalancer) { l.ClusterLeaving = true }), a(deleting, dead, seen(Sight{})), other(), Removing, ReasonDraining, draining, false},
		"dead, disabled, and drained":                     {hooked, a(deleting, dead, disabled, was(Disabled), draining2(gone)), other(), Removed, "", draining, false},
		"no exit: dead, but not deleted":                  {hooked, a(dead), other(), Active, "", serving, true},
		"exit: maxWait, Release":                          {hooked, a(deleting, was(Removing), draining2(open), waited(10*time.Minute)), other(), Removing, ReasonMaxWaitPassed, draining, false},
		"no exit: maxWait, Release, and it serves":        {hooked, a(deleting, was(Removing), waited(time.Hour)), other(), Removing, ReasonDraining, draining, true},
		"no exit: maxWait, it serves, and isn't selected": {block, a(unselected, waited(time.Hour)), other(), Removing, ReasonDraining, draining, true},
		"exit: maxWait, Release, and nothing is listed":   {hooked, a(deleting, was(Removing), unnamed, waited(time.Hour)), other(), Removing, ReasonMaxWaitPassed, draining, false},
		"no exit: maxWait, Block":                         {block, a(deleting, was(Removing), draining2(open), waited(time.Hour)), other(), Removing, ReasonDraining, draining, true},
		"exit: maxWait, Block, and not selected any more": {block, a(unselected, was(Removing), draining2(open), waited(10*time.Minute)), other(), Removing, ReasonMaxWaitPassed, draining, false},
		"the Cluster is deleted before its Machines are":  {with(func(l *LoadBalancer) { l.ClusterLeaving = true }), a(), other(), Active, "", serving, false},
		"nothing is added to a Cluster that is deleted":   {with(func(l *LoadBalancer) { l.ClusterLeaving = true }), a(fresh), other(), Adding, ReasonHookFirst, Absent, false},

		// What is only inferred.
		"updating":                                 {hooked, a(updating), other(), Updating, ReasonDraining, draining, true},
		"updating: drained":                        {hooked, a(updating, was(Updating), draining2(gone)), other(), Updating, ReasonUpdating, draining, true},
		"updating: the last active one stays":      {hooked, a(updating), nil, Active, ReasonLastActive, serving, true},
		"updating: the other is updating, too":     {hooked, a(updating), other(updating), Active, ReasonLastActive, serving, true},
		"updating: the other is disabled":          {hooked, a(updating), other(disabled), Active, ReasonLastActive, serving, true},
		"updating: the other fell ill":             {hooked, a(updating, was(Updating), draining2(gone)), other(was(Unhealthy), seen(Sight{Live: 1, Unhealthy: 1})), Adding, ReasonNotChecked, serving, true},
		"updated":                                  {hooked, a(was(Updating), draining2(gone)), other(), Adding, ReasonNotChecked, serving, true},
		"scaled down":                              {hookless, a(tainted, unhooked), other(), Removing, ReasonDraining, draining, false},
		"scaled down: drained":                     {hookless, a(tainted, unhooked, was(Removing), draining2(gone)), other(), Removed, ReasonScalingDown, draining, false},
		"scaled down: the last active one stays":   {hookless, a(tainted, unhooked), nil, Active, ReasonLastActive, serving, false},
		"scaled down: then its Machine is deleted": {hooked, a(tainted, deleting, was(Removing), draining2(open)), nil, Removing, ReasonDraining, draining, true},

		// Nothing moves.
		"frozen: a deletion": {with(func(l *LoadBalancer) { l.Frozen = "paused" }), a(deleting, was(Removing), draining2(gone)), nil, Removing, ReasonFrozen, draining, true},
		"frozen: a new one":  {with(func(l *LoadBalancer) { l.Frozen = "paused" }), a(fresh), nil, "", ReasonFrozen, Absent, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(c.l, append([]Member{c.m}, c.others...))[0]
			if d.State != c.state || d.Reason != c.reason || d.Want != c.want || d.Hook != c.hook {
				t.Errorf("%s/%s, wants %q, hook %v; not %s/%s, %q, %v", d.State, d.Reason, d.Want, d.Hook, c.state, c.reason, c.want, c.hook)
			}
			if (d.Reason == "") != (d.Message == "") {
				t.Errorf("reason %q has message %q", d.Reason, d.Message)
			}
		})
	}
}

func TestWhoIsWaitedForIsNamed(t *testing.T) {
	d := Decide(hooked, []Member{a(deleting, was(Removing), draining2(open), waited(time.Hour)), a()})[0]
	for _, want := range []string{"maxWait (10m0s)", "edge-1 has open connections"} {
		if !strings.Contains(d.Message, want) {
			t.Errorf("%q doesn't say %q", d.Message, want)
		}
	}
}

// Nothing of maxWait passes while nothing may move, and at most half of it while the member is sent to.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		passed         time.Duration
		still, serving bool
		want           time.Duration
	}{
		{time.Hour, true, false, 0}, {time.Hour, true, true, 0}, {time.Hour, false, true, 5 * time.Minute}, {time.Minute, false, true, time.Minute}, {time.Hour, false, false, time.Hour},
	} {
		if got := Wait(hooked, c.passed, c.still, c.serving); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
