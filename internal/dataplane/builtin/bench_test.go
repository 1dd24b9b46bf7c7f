package builtin

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// The benchmarks go to one member directly and through the data plane; the
// ratio of the two is what counts. All of it runs in one process, so that
// client and member take their share of the processors too.

func both(b *testing.B, talk func(net.Conn), run func(b *testing.B, where netip.AddrPort)) {
	port := freePort(b, "127.0.1.1", "127.0.0.1")
	direct, through := at("127.0.1.1", port), at("127.0.0.1", port)
	listenWith(b, "m1", direct, talk)
	p := start(b, Options{})
	p.apply(service{name: "web", at: through, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}})
	b.Run("direct", func(b *testing.B) { run(b, direct) })
	b.Run("through", func(b *testing.B) { run(b, through) })
}

func echoAll(c net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func dialFor(b *testing.B, where netip.AddrPort) *net.TCPConn {
	c, err := net.Dial("tcp4", where.String())
	if err != nil {
		b.Error(err)
		return nil
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

func exchange(b *testing.B, c net.Conn, buf []byte) bool {
	_, err := c.Write(buf)
	if err == nil {
		_, err = io.ReadFull(c, buf)
	}
	if err != nil {
		b.Error(err)
	}
	return err == nil
}

// BenchmarkConnections opens a connection for each request.
func BenchmarkConnections(b *testing.B) {
	both(b, echoAll, func(b *testing.B, where netip.AddrPort) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			buf := make([]byte, 128)
			for pb.Next() {
				c := dialFor(b, where)
				if c == nil || !exchange(b, c, buf) {
					return
				}
				c.SetLinger(0)
				c.Close()
			}
		})
	})
}

// BenchmarkRequests keeps its connections.
func BenchmarkRequests(b *testing.B) {
	both(b, echoAll, func(b *testing.B, where netip.AddrPort) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			c, buf := dialFor(b, where), make([]byte, 128)
			if c == nil {
				return
			}
			defer c.Close()
			for pb.Next() {
				if !exchange(b, c, buf) {
					return
				}
			}
		})
	})
}

// BenchmarkUpload sends one long stream.
func BenchmarkUpload(b *testing.B) {
	both(b, func(c net.Conn) {
		io.Copy(io.Discard, c)
	}, func(b *testing.B, where netip.AddrPort) {
		c, block := dialFor(b, where), make([]byte, 256<<10)
		if c == nil {
			return
		}
		defer c.Close()
		b.SetBytes(int64(len(block)))
		for b.Loop() {
			if _, err := c.Write(block); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMemberChange drains and undrains one of 50 members beneath 1,000 frontends.
func BenchmarkMemberChange(b *testing.B) {
	p := start(b, Options{})
	port := freePort(b, "127.0.0.1")
	var members []lb.Member
	for i := range 50 {
		members = append(members, memberAt(string(rune('A'+i)), netip.AddrFrom4([4]byte{127, 0, 9, byte(i + 1)}).String()))
	}
	var all []service
	for i := range 1000 {
		all = append(all, service{name: string(rune('A' + i)), group: "nodes", members: members, port: port,
			at: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(10 + i/250), byte(1 + i%250)}), port)})
	}
	p.apply(all...)
	one, two := p.now, *p.now
	snap := *one.Tenants["tenant"]
	snap.Groups = map[lb.GroupID]*lb.Group{"nodes": {ID: "nodes", Members: draining(all[0], 0).members}}
	two.Tenants = map[lb.TenantID]*lb.Snapshot{"tenant": &snap}
	there, back := lb.Diff(one, &two), lb.Diff(&two, one)
	for b.Loop() {
		if _, err := p.Apply(b.Context(), &two, there); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Apply(b.Context(), one, back); err != nil {
			b.Fatal(err)
		}
	}
}
