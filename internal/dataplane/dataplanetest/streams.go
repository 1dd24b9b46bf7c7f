package dataplanetest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func streamFlows() []flow {
	return []flow{
		{
			name: "BigStreams", says: "Big uploads and downloads arrive whole", members: 1,
			needs: func() []service { return []service{web(m(1))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1)))
				for range 2 {
					c := w.dial(vip(1, 80))
					sends(w, c, 64<<20)
					c = w.dial(vip(1, 80))
					takes(w, c)
				}
			},
		},
		{
			name: "HalfClosed", says: "Either side may end its direction and go on with the other", members: 1,
			needs: func() []service { return []service{web(m(1))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1)))
				sends(w, w.dial(vip(1, 80)), 1000) // The answer comes after the client's end.
				c := w.dial(vip(1, 80))
				_, err := io.WriteString(c, hush)
				w.must(err)
				if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
					w.Fatalf("%q, %v after the member's end, want nothing", rest, err)
				}
				for range 10 {
					_, err := c.Write(make([]byte, 1000))
					w.must(err)
				}
				c.Close()
				w.until("the member has heard all", func() bool { return w.members[1].heard.Load() == 10000 })
			},
		},
		{
			name: "IdleConnections", says: "Two thousand idle connections live on through other things' changes", members: 2,
			needs: func() []service { return []service{web(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2)))
				conns := make([]*conn, 2000)
				for i := range conns {
					conns[i] = w.dial(vip(1, 80))
				}
				for i := range 20 {
					p.apply(web(m(1), m(2)), service{tenant: "other", name: "other", at: vip(2, 80+i), port: echoPort, members: []lb.Member{m(1)}})
				}
				w.works("an idle connection", conns...)
			},
		},
		{
			name: "IdleTimeout", says: "A connection without traffic is cut after idleTimeout, one with traffic isn't", members: 1,
			needs: func() []service { return []service{idling()} },
			run: func(w *world, p *proxy) {
				p.apply(idling())
				idle, busy := w.dial(vip(1, 80)), w.dial(vip(1, 80))
				start := time.Now()
				over := func() bool {
					w.works("the busy connection", busy)
					idle.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
					_, err := idle.in.ReadByte()
					return !timedOut(err)
				}
				w.until("the idle connection's end", over)
				if after := time.Since(start); after < idling().front.IdleTimeout/2 {
					w.Errorf("cut after %s, want %s", after, idling().front.IdleTimeout)
				}
				w.works("the busy connection", busy)
			},
		},
		{
			name: "ProxyProtocol1", says: "PROXY protocol version 1, in health checks too", members: 1,
			needs: func() []service { return headed(1) },
			run:   func(w *world, p *proxy) { heads(w, p, 1) },
		},
		{
			name: "ProxyProtocol2", says: "PROXY protocol version 2, in health checks too", members: 1,
			needs: func() []service { return headed(2) },
			run:   func(w *world, p *proxy) { heads(w, p, 2) },
		},
	}
}

// sends uploads that many bytes and compares checksums.
func sends(w *world, c *conn, size int64) {
	w.Helper()
	sum := sha256.New()
	_, err := io.WriteString(c, upload)
	w.must(err)
	_, err = io.CopyN(io.MultiWriter(c, sum), noise(), size)
	w.must(err)
	w.must(c.CloseWrite())
	got, err := c.in.ReadString('\n')
	w.must(err)
	if want := fmt.Sprintf("%d %x\n", size, sum.Sum(nil)); got != want {
		w.Errorf("the member got %q, want %q", got, want)
	}
}

func takes(w *world, c *conn) {
	w.Helper()
	sum := sha256.New()
	_, err := io.WriteString(c, download)
	w.must(err)
	_, err = io.CopyN(sum, c.in, downloadSize)
	w.must(err)
	got, err := c.in.ReadString('\n')
	w.must(err)
	if want := fmt.Sprintf("%x\n", sum.Sum(nil)); got != want {
		w.Errorf("the client got %q, want %q", want, got)
	}
}

func idling() service {
	s := web(m(1))
	s.front.IdleTimeout = 500 * time.Millisecond
	return s
}

// headed is a service over both families whose members want PROXY headers.
func headed(version int) []service {
	out := dualStack()
	for i := range out {
		out[i].members, out[i].port = out[i].members[:1], headedPort
		out[i].front.ProxyProtocol = version
		out[i].pool.Check = lb.Check{
			Kind: lb.CheckTCP, Port: headedPort, Interval: 50 * time.Millisecond, Timeout: 5 * time.Second, Rise: 1, Fall: 3, ProxyProtocol: version,
		}
	}
	return out
}

func heads(w *world, p *proxy, version int) {
	p.apply(headed(version)...)
	w.until("the checks' first results", func() bool {
		c := headed(version)[0].pool.Check
		return p.verdict(c, m(1)) == lb.Healthy && p.verdict(c, m6(1)) == lb.Healthy
	})
	for i, at := range []netip.AddrPort{vip(1, 80), vip6(1, 80)} {
		c := w.dialFrom([]netip.AddrPort{client(42), client6(42)}[i], at)
		w.works("a connection with a header", c)
		if want := fmt.Sprintf("v%d %s", version, c.LocalAddr()); c.seen != want {
			w.Errorf("the member's header says %q, want %q", c.seen, want)
		}
	}
	c := w.dial(vip(1, 80))
	sends(w, c, 1<<20)
	if n := w.members[1].malformed.Load(); n > 0 {
		w.Errorf("%d connections, checks among them, came without a header", n)
	}
}
