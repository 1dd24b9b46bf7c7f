package nftables_test

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

var httpCheck = lb.Check{Kind: lb.CheckHTTP, Port: 10256, Path: "/healthz", Interval: time.Second, Timeout: time.Second, Rise: 1, Fall: 1}

func udp(h lb.Verdicts, members ...lb.Member) *lb.Program {
	return newProgram().group("acme", "nodes", members...).
		pool("acme", "dns", "nodes", 8080, func(p *lb.Pool) { p.Check = httpCheck }).
		frontend("acme", "dns", lb.UDP, vip, "dns").health(httpCheck, h).done()
}

func TestDatagramsOfADeadMemberGoElsewhere(t *testing.T) {
	eleven, twelve := member(11, false), member(12, false)
	for name, after := range map[string]*lb.Program{
		"dead":    udp(lb.Verdicts{eleven.Address: lb.Unhealthy}, eleven, twelve),
		"removed": udp(nil, twelve),
		"drained": udp(nil, member(11, false, draining(time.Second)), twelve),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serveUDP(8080, 11, 12)
			w.apply(udp(nil, eleven))
			c, other := w.dialUDP(vip), w.dialUDP(vip)
			for _, x := range []string{ask(c), ask(other)} {
				if x != "10.2.0.11" {
					t.Fatalf("%q answers", x)
				}
			}
			began := time.Now()
			w.apply(after)
			w.eventually("another member answers", func() bool { return ask(c) == "10.2.0.12" })
			if took := time.Since(began); name == "drained" && took < 900*time.Millisecond {
				t.Errorf("after %v, want the flow to stay for 1 s", took)
			}
		})
	}
}

// TestAConnectToADeadMemberIsSentAgainElsewhere at the client's own retransmission.
func TestAConnectToADeadMemberIsSentAgainElsewhere(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 12)
	p := func(h lb.Verdicts, members ...lb.Member) *lb.Program {
		return newProgram().group("acme", "nodes", members...).
			pool("acme", "web", "nodes", 8080, func(p *lb.Pool) { p.Check = httpCheck }).
			frontend("acme", "web", lb.TCP, vip, "web").health(httpCheck, h).done()
	}
	dead := member(200, false) // nobody has that address
	w.apply(p(nil, dead))
	done := make(chan error, 1)
	go func() {
		s, err := w.dial(w.client, "", vip)
		if err == nil && s.member != "10.2.0.12" {
			t.Errorf("%s answers", s.member)
		}
		done <- err
	}()
	w.eventually("it is on its way", func() bool {
		return len(w.run(w.host, "conntrack", "-L", "-p", "tcp", "--dport", "80")) > 100
	})
	w.apply(p(lb.Verdicts{dead.Address: lb.Unhealthy}, dead, member(12, false)))
	if err := <-done; err != nil {
		t.Error(err)
	}
}
