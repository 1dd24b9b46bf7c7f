package balancer

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// answer listens, and tells each connection its name until the client goes. It returns its port.
func answer(t *testing.T, address, name string, port uint16) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", hostPort(address, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test ends
			}
			go func() {
				defer c.Close()
				if _, err := io.WriteString(c, name); err == nil {
					_, _ = io.Copy(io.Discard, c) // until the client goes
				}
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// eventually polls until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// ask connects, and returns who answers, and the connection.
func ask(i Info) (string, net.Conn, error) {
	c, err := net.Dial("tcp", hostPort(i.Spec.Address.String(), i.Spec.Ports[0].Port))
	if err != nil {
		return "", nil, err
	}
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return "", nil, errors.Join(err, c.Close())
	}
	return string(b), c, nil
}

// freePort returns one that nobody listens at, at this moment.
func freePort(t *testing.T, address string) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func TestConnectionsGoToMembersUntilTheyAreGone(t *testing.T) {
	port := answer(t, "127.0.0.1", "a", 0)
	answer(t, "127.0.0.2", "b", port)
	c := New(Options{Addresses: netip.MustParsePrefix("127.0.0.3/32"), CheckEvery: 10 * time.Millisecond})
	defer c.Close()
	spec := Spec{Ports: []Port{{freePort(t, "127.0.0.3"), port}}}
	i, err := c.Ensure("", "owner", spec)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Ensure("", "owner", spec); err != nil || again.ID != i.ID {
		t.Fatalf("asked again for the same owner, it returns %q, %v", again.ID, err)
	}
	set := func(members ...Member) {
		t.Helper()
		if err := c.SetMembers(i.ID, members); err != nil {
			t.Fatal(err)
		}
	}
	set(Member{Address: "127.0.0.1"}, Member{Address: "127.0.0.2"})
	open := map[string]net.Conn{}
	eventually(t, "both to answer", func() error {
		who, conn, err := ask(i)
		if err == nil && open[who] != nil {
			err = conn.Close()
		} else if err == nil {
			open[who] = conn
		}
		if len(open) < 2 {
			return errors.Join(err, errors.New("not both have"))
		}
		return err
	})
	set(Member{Address: "127.0.0.1"}, Member{Address: "127.0.0.2", Draining: true})
	for range 20 {
		who, conn, err := ask(i)
		if err != nil || who != "a" {
			t.Fatalf("%q answers, %v, while b drains", who, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if i, err = c.Get(i.ID, ""); err != nil || i.Members[1].Connections != 1 || !i.Members[1].Draining {
		t.Fatalf("it is %+v, %v: b drains with one connection", i, err)
	}
	set(Member{Address: "127.0.0.1"})
	if _, err := open["b"].Read(make([]byte, 1)); err == nil {
		t.Error("a connection to b goes on, though b is no member any more")
	}
	spec.MaxConnections = 1 // that of a
	if _, err := c.Ensure(i.ID, "", spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bound on connections", func() error {
		if _, conn, err := ask(i); err == nil {
			return errors.Join(errors.New("a second one is carried"), conn.Close())
		}
		return nil
	})
	if err := c.Delete(i.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("", "owner"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after its deletion Get returns %v", err)
	}
}

func TestMembersApplyLaterAndCallsFail(t *testing.T) {
	c := New(Options{Addresses: netip.MustParsePrefix("127.0.0.4/32"), ApplyDelay: time.Hour})
	defer c.Close()
	i, err := c.Ensure("", "owner", Spec{Ports: []Port{{freePort(t, "127.0.0.4"), 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetMembers(i.ID, []Member{{Address: "127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	if i, err = c.Get(i.ID, ""); err != nil || len(i.Members) != 1 || i.Members[0].Applied {
		t.Errorf("it is %+v, %v: its member is to come", i, err)
	}
	c.SetApplyDelay(0)
	if err := c.SetMembers(i.ID, []Member{{Address: "127.0.0.1"}, {Address: "127.0.0.2"}}); err != nil {
		t.Fatal(err)
	}
	if i, err = c.Get(i.ID, ""); err != nil || slices.ContainsFunc(i.Members, func(m Seen) bool { return !m.Applied }) {
		t.Errorf("it is %+v, %v: both apply at once", i, err)
	}
	if _, err := c.Ensure("", "another", Spec{Ports: i.Spec.Ports}); err == nil {
		t.Error("a second one has the only address and the same port")
	}
}
