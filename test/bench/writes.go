package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// writes counts write requests by what they wrote, over all API servers.
type writes map[string]int

func (w writes) total() (n int) {
	for _, c := range w {
		n += c
	}
	return n
}

// of counts those whose description starts so.
func (w writes) of(prefix string) (n int) {
	for k, c := range w {
		if strings.HasPrefix(k, prefix) {
			n += c
		}
	}
	return n
}

// per describes the counts, divided.
func (w writes) per(n int) string {
	keys := slices.SortedFunc(maps.Keys(w), func(a, b string) int { return cmp.Or(w[b]-w[a], strings.Compare(a, b)) })
	parts := []string{}
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%.3g %s", float64(w[k])/float64(n), k))
	}
	return strings.Join(parts, ", ")
}

// offsets are places in the audit logs.
type offsets []int64

func (b *bench) planes() []*testkit.ControlPlane {
	planes := []*testkit.ControlPlane{b.Hub.ControlPlane}
	for _, t := range b.Tenants {
		planes = append(planes, t.ControlPlane)
	}
	return planes
}

// now is the present end of the audit logs.
func (b *bench) now() (offsets, error) {
	_, end, err := b.writesSince(make(offsets, len(b.planes())))
	return end, err
}

// writesSince counts our identities' writes since an earlier place, failed ones included. Leases are
// left out: they are written at rest too.
func (b *bench) writesSince(from offsets) (writes, offsets, error) {
	w, end := writes{}, make(offsets, len(from))
	for i, p := range b.planes() {
		lines, next, err := p.Writes(from[i])
		if err != nil {
			return nil, nil, err
		}
		end[i] = next
		for _, l := range lines {
			// All of ours are ServiceAccounts; what plays Kubernetes has certificates.
			if !strings.HasPrefix(l.User, "system:serviceaccount:") || l.Resource == "leases" {
				continue
			}
			key := l.Verb + " " + l.Resource + " by " + l.User[strings.LastIndexByte(l.User, ':')+1:]
			if l.StatusCode >= 400 {
				key += fmt.Sprintf(" (%d)", l.StatusCode)
			}
			w[key]++
		}
	}
	return w, end, nil
}

// settle waits until our identities have written nothing for that long.
func (b *bench) settle(ctx context.Context, quiet time.Duration) error {
	from, err := b.now()
	if err != nil {
		return err
	}
	last := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return testkit.Poll(ctx, 100*time.Millisecond, "quiet", func(context.Context) error {
		w, end, err := b.writesSince(from)
		if err != nil {
			return err
		}
		if from = end; w.total() > 0 {
			last = time.Now()
		}
		if time.Since(last) < quiet {
			return fmt.Errorf("the last write was %s ago", time.Since(last))
		}
		return nil
	})
}
