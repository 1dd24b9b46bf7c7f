package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// clockTick is USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the processor time that processes have used so far, by name.
type cpu map[string]time.Duration

// cpuNow reads it for all processes of the fleet, and this one.
func (b *bench) cpuNow() cpu {
	now := cpu{"this benchmark": used(os.Getpid())}
	add := func(p *testkit.Process) { now[p.Name()] = used(p.PID()) }
	for _, plane := range b.planes() {
		for _, p := range plane.Processes() {
			add(p)
		}
	}
	add(b.Manager.Process)
	add(b.tenant.Agent.Process)
	for _, p := range b.Proxies {
		add(p.Process)
	}
	return now
}

// used is the user and system time of a process; 0 if it can't be read.
func used(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The fields after the command's name, which may hold anything: state is the first.
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, system := 0, 0
	if _, err := fmt.Sscan(fields[11], &user); err != nil {
		return 0
	}
	if _, err := fmt.Sscan(fields[12], &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// since returns what was used since an earlier look.
func (c cpu) since(earlier cpu) cpu {
	d := cpu{}
	for name, t := range c {
		d[name] = t - earlier[name]
	}
	return d
}

func (c cpu) total() (sum time.Duration) {
	for _, t := range c {
		sum += t
	}
	return sum
}

// String lists what used most.
func (c cpu) String() string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a, b)) })
	parts := []string{}
	for _, n := range names {
		if c[n] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f", n, c[n].Seconds()))
		}
	}
	return strings.Join(parts, ", ")
}
