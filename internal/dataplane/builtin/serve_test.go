package builtin

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func TestClientWithoutMembersIsReset(t *testing.T) {
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	p.apply(service{name: "web", at: where})
	if _, err := connect(where); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestConnectionsFollowWeights(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.1.2", "127.0.1.3")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	var members []lb.Member
	for i := 1; i <= 3; i++ {
		m := memberAt(fmt.Sprintf("m%d", i), fmt.Sprintf("127.0.1.%d", i))
		m.Weight = i - 1
		members = append(members, m)
		listen(t, m.UID, at(m.Address.String(), port))
	}
	p.apply(service{name: "web", at: where, port: port, members: members})
	got := map[string]int{}
	for range 600 {
		c, err := connect(where)
		if err != nil {
			t.Fatal(err)
		}
		got[c.name]++
		c.Close()
	}
	if got["m1"] != 0 || got["m2"] < 140 || got["m2"] > 260 || got["m3"] < 340 || got["m3"] > 460 {
		t.Errorf("got %v of 600, want about 0, 200 and 400", got)
	}
}

func TestClientHashKeepsTheMember(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.1.2")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	listen(t, "m1", at("127.0.1.1", port))
	listen(t, "m2", at("127.0.1.2", port))
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")},
		pool: lb.Pool{Hash: lb.HashClientIP}})
	first := mustConnect(t, where).name
	for range 20 {
		if c := mustConnect(t, where); c.name != first {
			t.Fatalf("went to %s, then to %s", first, c.name)
		}
	}
}

func TestHealthDecides(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.1.2")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	listen(t, "m1", at("127.0.1.1", port))
	listen(t, "m2", at("127.0.1.2", port))
	check := lb.Check{Kind: lb.CheckTCP, Port: port}
	web := service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")},
		pool: lb.Pool{Check: check}}
	heard := func() map[string]bool {
		names := map[string]bool{}
		for range 40 {
			c, err := connect(where)
			if err != nil {
				names["nobody"] = true
				continue
			}
			names[c.name] = true
			c.Close()
		}
		return names
	}
	a1, a2 := netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr("127.0.1.2")
	for _, step := range []struct {
		health lb.Health
		open   bool
		want   string
	}{
		{nil, false, "map[m1:true m2:true]"},
		{lb.Health{check: {a1: lb.Unhealthy}}, false, "map[m2:true]"},
		{lb.Health{check: {a1: lb.Healthy, a2: lb.Unhealthy}}, false, "map[m1:true]"},
		{lb.Health{check: {a1: lb.Unhealthy, a2: lb.Unhealthy}}, false, "map[nobody:true]"},
		{lb.Health{check: {a1: lb.Unhealthy, a2: lb.Unhealthy}}, true, "map[m1:true m2:true]"},
		{lb.Health{check: {a2: lb.Unhealthy}}, true, "map[m1:true]"},
	} {
		web.pool.FailOpen = step.open
		p.applyWith(step.health, web)
		if got := fmt.Sprint(heard()); got != step.want {
			t.Errorf("with %v, fail open %v: got %s, want %s", step.health, step.open, got, step.want)
		}
	}
}

func TestRefusedConnectGoesToAnother(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.1.2")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	listen(t, "m2", at("127.0.1.2", port))
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")}})
	for range 100 {
		c, err := connect(where)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	// One a second, as long as the penalty lasts; the test takes less than a few.
	if n := p.suspected(netip.MustParseAddr("127.0.1.1")); n < 1 || n > 10 {
		t.Errorf("the dead member was tried and told to health %d times for 100 clients, want once or a few times", n)
	}
}

func TestNobodyTakesTheConnection(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.1.2")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")}})
	for range 3 { // Members under penalty are tried all the same.
		if _, err := connect(where); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("got %v, want a reset", err)
		}
	}
	if n := p.suspected(netip.Addr{}); n != 6 {
		t.Errorf("%d connects, want 2 for each of 3 clients", n)
	}
}

func TestHalfCloseBothWays(t *testing.T) {
	port := freePort(t, "127.0.1.1")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	// It says all first, ends, and then hears the client's all.
	heard := make(chan string, 2)
	listenWith(t, "m1", at("127.0.1.1", port), func(c net.Conn) {
		io.WriteString(c, "all that I have to say")
		c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}})

	c, err := net.Dial("tcp4", where.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	said, err := io.ReadAll(c)
	if err != nil || string(said) != "all that I have to say" {
		t.Fatalf("heard %q, %v", said, err)
	}
	io.WriteString(c, "and I after you")
	c.(*net.TCPConn).CloseWrite()
	if got := <-heard; got != "and I after you" {
		t.Errorf("the member heard %q", got)
	}
}

func TestBigUploadIsWholeAndAnswered(t *testing.T) {
	port := freePort(t, "127.0.1.1")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	listenWith(t, "m1", at("127.0.1.1", port), func(c net.Conn) {
		h := sha256.New()
		io.Copy(h, c) // to the client's end
		fmt.Fprintf(c, "%x", h.Sum(nil))
	})
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}})
	c, err := net.Dial("tcp4", where.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	h := sha256.New()
	for i := range 600 { // 39 MB: through buffers, then spliced
		block[0] = byte(i)
		h.Write(block)
		if _, err := c.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil || string(answer) != fmt.Sprintf("%x", h.Sum(nil)) {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestResetIsHandedOn(t *testing.T) {
	port := freePort(t, "127.0.1.1")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	m := listen(t, "m1", at("127.0.1.1", port))
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}})
	c := mustConnect(t, where)
	m.stop()
	if _, err := c.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset: what the member said may not be whole", err)
	}
}

func TestIdleConnectionIsClosedAndABusyOneIsNot(t *testing.T) {
	port := freePort(t, "127.0.1.1")
	p := start(t, Options{})
	where := at("127.0.0.1", freePort(t, "127.0.0.1"))
	listen(t, "m1", at("127.0.1.1", port))
	const idle = 300 * time.Millisecond
	p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}, front: lb.Frontend{IdleTimeout: idle}})
	quiet, busy := mustConnect(t, where), mustConnect(t, where)
	began := time.Now()
	closed := make(chan error, 1)
	go func() {
		_, err := quiet.in.ReadByte()
		closed <- err
	}()
	tick := time.NewTicker(idle / 6)
	defer tick.Stop()
	for open := true; open; {
		select {
		case err := <-closed:
			if err != io.EOF {
				t.Errorf("got %v, want a plain end", err)
			}
			open = false
		case <-tick.C:
			if err := busy.echoes(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took := time.Since(began); took < idle/2 {
		t.Errorf("closed after %v", took)
	}
	if err := busy.echoes(); err != nil {
		t.Error(err)
	}
}

// The kernel moves the bytes of a long upload by itself, and says of a reset only that something broke.
func TestResetInTheMiddleOfALongUploadIsHandedOn(t *testing.T) {
	p := start(t, Options{})
	where, port := at("127.31.4.1", freePort(t, "127.31.4.1")), freePort(t, "127.31.4.2")
	got := make(chan int64, 1)
	ended := make(chan error, 1)
	listenWith(t, "one", at("127.31.4.2", port), func(c net.Conn) {
		fmt.Fprintln(c, "one")
		n, err := io.CopyN(io.Discard, c, 4<<20)
		got <- n
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		ended <- err
	})
	p.apply(service{name: "a", at: where, port: port, members: []lb.Member{memberAt("one", "127.31.4.2")}})
	c := mustConnect(t, where)
	if _, err := c.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	<-got
	c.SetLinger(0)
	c.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("member saw %v, wanted a reset", err)
		}
	case <-time.After(patience):
		t.Error("member has heard nothing of the client's reset")
	}
}
