package node

import (
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Way is how Nodes are checked.
type Way string

const (
	// ByHealthz asks kube-proxy's own health, which goes down before its Node does.
	ByHealthz Way = "Healthz"
	// ByPort connects to the nodePort of each TCP port of a Service, in a cluster without kube-proxy. Ports of UDP and SCTP have no check then.
	ByPort Way = "Port"
)

// noKubeProxy is why Nodes are checked ByPort.
const noKubeProxy = "nothing listens at port 10256 of any node, as without kube-proxy: the nodePort of each TCP port is checked by a connection, and other ports are not checked"

// check is what the groups' specs say; a check without a port is of the port that traffic goes to.
func (w Way) check() *clusterv1.HealthCheck {
	if w == ByPort {
		return &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
	}
	return &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: HealthPort, Path: HealthPath}
}

// Reason is what the groups' annotation CheckedByPort says; empty: they have none.
func (w Way) Reason() string {
	if w == ByPort {
		return noKubeProxy
	}
	return ""
}

// WayOf is how TargetGroups of Nodes say that they are checked: as the first of them that are there says.
func WayOf(groups []*v1alpha1.TargetGroup) Way {
	first, lowest := ByHealthz, -1
	for _, g := range groups {
		index, ok := Index(g.Name)
		if !ok || lowest >= 0 && index > lowest {
			continue
		}
		first, lowest = ByHealthz, index
		if g.CheckedByPort() != "" {
			first = ByPort
		}
	}
	return first
}

// Answer is what came of asking a Node's kube-proxy for its health.
type Answer int

const (
	// Silent: no answer in time, or no way there. It decides nothing.
	Silent Answer = iota
	// Refused: nobody listens there.
	Refused
	// Sick: somebody answers, and fails the check.
	Sick
	// Well: somebody answers, and passes it.
	Well
)

// Asked are the addresses of Nodes that are asked: those that should take connections. Of those only the ones that say they are
// ready and whose Nodes are there, if there are any: one that died is silent, and would keep the others from deciding.
func Asked(groups []*v1alpha1.TargetGroup, held func(uid string) bool) []string {
	var sound, others []string
	for _, g := range groups {
		for i := range g.Spec.Targets {
			t := &g.Spec.Targets[i]
			address := t.ServedAddress()
			switch {
			case address == "" || g.Drains(i):
			case t.Ready != nil && !*t.Ready || held(t.UID):
				others = append(others, address)
			default:
				sound = append(sound, address)
			}
		}
	}
	if len(sound) > 0 {
		return sound
	}
	return others
}

// Bounds of a change of the Way: so many rounds of questions in a row say the same, with a pause before each further one.
// Rest is the pause after one that says something else.
const (
	Rounds = 3
	Pause  = 10 * time.Second
	Rest   = 30 * time.Second
)

// Checking decides on the Way by rounds in which all Nodes are asked. The zero value has heard nothing. Between the two ways lies
// all that they don't agree on: all Nodes that are asked refuse, or more than half of those that are heard of are well.
type Checking struct {
	agreed int       // rounds in a row that were for the other Way
	next   time.Time // not before this
}

// Wait is for how long no further round may be; 0: one may.
func (c *Checking) Wait(now time.Time) time.Duration { return max(0, c.next.Sub(now)) }

// Forget forgets what rounds said, and not when the next may be.
func (c *Checking) Forget() { c.agreed = 0 }

// Other tells whether answers, of so many Nodes, are for the other Way than the present one; settled, whether further answers
// can't change that. Who didn't answer counts as Silent.
func Other(present Way, nodes int, answers []Answer) (other, settled bool) {
	count := map[Answer]int{}
	for _, a := range answers {
		count[a]++
	}
	if present == ByPort {
		// Not of all Nodes: one that is dead would keep the others from going back.
		well, heard, rest := count[Well], len(answers)-count[Silent], nodes-len(answers)
		return 2*well > heard, rest == 0 || 2*well > heard+rest || 2*(well+rest) <= heard+rest
	}
	refused := count[Refused]
	return nodes > 0 && refused == nodes, refused < len(answers) || refused >= nodes
}

// Round takes what a round said, and returns the Way from now on.
func (c *Checking) Round(present Way, other bool, now time.Time) Way {
	if !other {
		c.agreed, c.next = 0, now.Add(Rest)
		return present
	}
	c.agreed++
	if c.agreed < Rounds {
		c.next = now.Add(Pause)
		return present
	}
	c.agreed, c.next = 0, now.Add(Rest)
	if present == ByPort {
		return ByHealthz
	}
	return ByPort
}
