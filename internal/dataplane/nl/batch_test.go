package nl_test

import (
	"errors"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"golang.org/x/sys/unix"
)

func dial(t *testing.T) *nl.Conn {
	t.Helper()
	n := netns.New()
	t.Cleanup(n.Close)
	var c *nl.Conn
	err := n.Namespace("host").Do(func() (err error) {
		c, err = nl.Dial(unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func named(s string) (a nl.Attrs) {
	a.String(unix.NFTA_TABLE_NAME, s)
	return a
}

func tables(t *testing.T, c *nl.Conn) (n int) {
	t.Helper()
	err := c.Dump(nl.Tables<<8|unix.NFT_MSG_GETTABLE, nl.Head(unix.NFPROTO_INET, 0), nil, nl.HeadLen, func([]byte, nl.Attrs) error {
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestARefusalNamesTheMessage and nothing of its batch is done; the connection stays usable.
func TestARefusalNamesTheMessage(t *testing.T) {
	c := dial(t)
	b := &nl.Batch{}
	b.Add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, named("one"))
	bad := b.Add(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, named("none"))
	b.Add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, named("two"))
	err := c.Commit(b)
	var r *nl.Refusal
	if !errors.As(err, &r) || r.Message != bad || !errors.Is(err, unix.ENOENT) {
		t.Fatalf("%v (%+v), want message %d refused as not there", err, r, bad)
	}
	if r.Offset != 0 {
		t.Errorf("offset %d, want that of the name, 0", r.Offset)
	}
	if n := tables(t, c); n != 0 {
		t.Errorf("%d tables after a batch that was refused", n)
	}
	b = &nl.Batch{}
	b.Add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, named("one"))
	if err := c.Commit(b); err != nil {
		t.Fatal(err)
	}
	if n := tables(t, c); n != 1 {
		t.Errorf("%d tables, want 1", n)
	}
}

func TestAnEmptyBatchIsNothing(t *testing.T) {
	if err := dial(t).Commit(&nl.Batch{}); err != nil {
		t.Error(err)
	}
}

func TestAClosedConnectionSaysSo(t *testing.T) {
	c := dial(t)
	c.Close()
	b := &nl.Batch{}
	b.Add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, named("one"))
	if err := c.Commit(b); !errors.Is(err, unix.EBADF) {
		t.Errorf("%v, want a bad file", err)
	}
}

func TestAttributesReadAsWritten(t *testing.T) {
	var a nl.Attrs
	a.String(1, "name")
	at := a.Begin(2)
	a.U8(3, 9)
	a.U32(4, 0x01020304)
	a.End(at)
	seen := map[uint16]string{}
	for t1, v := range a.All() {
		seen[t1] = string(v)
		if t1 == 2 {
			for t2, v := range nl.Attrs(v).All() {
				seen[t2] = string(v)
			}
		}
	}
	if seen[1] != "name\x00" || seen[3] != "\x09" || seen[4] != "\x01\x02\x03\x04" {
		t.Errorf("read %v", seen)
	}
	for n := range a { // what is cut short ends early, and does not fail
		for range a[:n].All() {
		}
	}
}
