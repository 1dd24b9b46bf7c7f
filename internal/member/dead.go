package member

import (
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// wordWait is how long a word is waited for on a member that is Dead and is to leave: as long as a proxy may be silent.
const wordWait = 30 * time.Second

// wait for such a word. While it serves no more than half of maxWait passes.
func (l *LoadBalancer) wordWait() time.Duration { return min(wordWait, l.MaxWait/2) }

// lost says that a member need not be held that is Dead and is to leave: it was to serve, and is found unhealthy, or nobody has
// found it healthy in time. One that is healthy drains like any other. What drains isn't checked any more, so it is like any other too.
func (m *Member) lost(l LoadBalancer) bool {
	return m.Dead && m.Deleting && m.Placed == v1alpha1.TargetServing && m.Sight.Healthy == 0 && (m.Sight.Unhealthy > 0 || m.Waited >= l.wordWait())
}

// unclear says that it would be lost, but for a word that is waited for: the manager or the proxies may be new.
func (m *Member) unclear(l LoadBalancer) bool {
	return m.Dead && m.Deleting && m.Placed == v1alpha1.TargetServing && m.Sight.Healthy == 0 && !m.lost(l) &&
		l.Hooked && m.Hook && !l.Leaving && !l.ClusterLeaving
}
