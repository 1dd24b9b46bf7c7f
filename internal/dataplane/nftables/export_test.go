package nftables

import (
	"time"

	"golang.org/x/sys/unix"
)

// Compare has the table compared with what is believed of it, as it is once a minute when others change rules.
func (d *Dataplane) Compare() error {
	d.mu.Lock()
	commits := d.guarded.commits
	d.mu.Unlock()
	return d.compare(commits)
}

// EndAfterClose is how many of n connections a sweep ends that was under way when the data plane closed.
func (d *Dataplane) EndAfterClose(n int) int {
	s := &sweep{d: d, now: time.Now(), cut: make([]flow, n)}
	for i := range s.cut {
		s.cut[i].protocol = unix.IPPROTO_TCP
	}
	s.act()
	return len(s.cut)
}
