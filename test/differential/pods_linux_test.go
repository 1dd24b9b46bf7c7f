package differential_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

// realPod answers as a hollow Pod does (testkit.Answer), at addresses of a namespace.
type realPod struct {
	who testkit.Answer
}

// servePod serves one at its addresses, until the test ends.
func servePod(t testing.TB, ns *netns.Namespace, who testkit.Answer, ips []netip.Addr, tcp, udp []int) {
	t.Helper()
	p := &realPod{who}
	mux := http.NewServeMux()
	mux.HandleFunc("/", p.once)
	mux.HandleFunc("/hold", p.hold)
	for _, ip := range ips {
		for _, port := range tcp {
			l, err := ns.Listen("tcp", at(ip.String(), port).String())
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: mux}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			go func() {
				if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			}()
		}
		for _, port := range udp {
			c, err := ns.ListenPacket("udp", at(ip.String(), port).String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			go p.datagrams(c)
		}
	}
}

func (p *realPod) answer(local net.Addr, client string) testkit.Answer {
	a := p.who
	a.Client = client
	if l, err := netip.ParseAddrPort(local.String()); err == nil {
		a.Port = int(l.Port())
	}
	return a
}

func (p *realPod) asked(r *http.Request) testkit.Answer {
	return p.answer(r.Context().Value(http.LocalAddrContextKey).(net.Addr), r.RemoteAddr)
}

func (p *realPod) once(w http.ResponseWriter, r *http.Request) {
	_ = json.NewEncoder(w).Encode(p.asked(r)) // an error is the client's going away
}

// hold sends back what comes.
func (p *realPod) hold(w http.ResponseWriter, r *http.Request) {
	a := p.asked(r)
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if json.NewEncoder(rw).Encode(a) == nil && rw.Flush() == nil {
		_, _ = io.Copy(c, rw) // it ends with the client
	}
}

func (p *realPod) datagrams(c net.PacketConn) {
	in := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(in)
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			continue // an earlier answer could not be delivered
		}
		a := p.answer(c.LocalAddr(), from.String())
		a.Method, a.Path = "UDP", string(in[:n])
		if b, err := json.Marshal(a); err == nil {
			_, _ = c.WriteTo(b, from) // an error is the client's going away
		}
	}
}
