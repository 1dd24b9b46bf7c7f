package builtin

import (
	"net"
	"testing"
	"time"
)

// TestMemberThatResetsAtOnceIsTriedLast has a member that accepts and then resets: before clients speak, or when they have.
func TestMemberThatResetsAtOnceIsTriedLast(t *testing.T) {
	for _, test := range []struct {
		name        string
		speaks      bool
		least, most int
	}{
		// A reset that is there before the connect has ended counts as a refusal, and no client notices it.
		{"before the client speaks", false, 0, 3},
		{"once the client has spoken", true, 1, 3 * resetsInARow},
	} {
		t.Run(test.name, func(t *testing.T) {
			web, m1, m2 := pair(t)
			m1.stop()
			m2.stop()
			said := func(c net.Conn) {
				if test.speaks {
					c.Read(make([]byte, 10))
				}
			}
			listenWith(t, "m1", at("127.0.1.1", web.port), func(c net.Conn) {
				said(c)
				c.(*net.TCPConn).SetLinger(0)
			})
			listenWith(t, "m2", at("127.0.1.2", web.port), func(c net.Conn) {
				said(c)
				c.Write([]byte("m2\n"))
			})
			p := start(t, Options{})
			p.apply(web)
			failed := 0
			for range 60 {
				c, err := net.Dial("tcp", web.at.String())
				if err != nil { // The reset was there before Dial had looked.
					failed++
					continue
				}
				c.SetDeadline(time.Now().Add(patience))
				if test.speaks {
					c.Write([]byte("hello"))
				}
				if _, err := c.Read(make([]byte, 10)); err != nil {
					failed++
				}
				c.Close()
			}
			if failed < test.least || failed > test.most {
				t.Errorf("%d of 60 requests failed, want %d to %d", failed, test.least, test.most)
			}
			connects := p.metrics.targets[[2]string{"tenant", "m1"}].connects
			until(t, "health is told of each reset, and of those that were there before the connect had ended", func() bool {
				return p.suspected(web.members[0].Address) == failed+int(counter(t, connects[refused]))
			})
			if n := counter(t, connects[resetAtOnce]); n != float64(failed) {
				t.Errorf("%v resets are counted, want %d", n, failed)
			}
		})
	}
}

// TestMemberThatAnswersAndResetsIsFine: many servers end like that.
func TestMemberThatAnswersAndResetsIsFine(t *testing.T) {
	web, m1, _ := pair(t)
	m1.stop()
	listenWith(t, "m1", at("127.0.1.1", web.port), func(c net.Conn) {
		c.Write([]byte("m1\n"))
		c.Read(make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	p := start(t, Options{})
	p.apply(web)
	heard := map[string]int{}
	for range 60 {
		c, err := connect(web.at)
		if err != nil {
			t.Fatal(err)
		}
		heard[c.name]++
		c.Write([]byte("bye\n"))
		c.in.ReadByte()
		c.Close()
	}
	if heard["m1"] < 10 {
		t.Errorf("heard %v", heard)
	}
	if n := p.suspected(web.members[0].Address); n > 0 {
		t.Errorf("health was told %d times", n)
	}
}
