package proxy

import (
	"net"
	"os"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/proxy/wire"
	"golang.org/x/sys/unix"
)

// openFiles counts this process's.
func openFiles(t testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Whatever the other process says: what is received is as many files as parts, and no file is left open.
func FuzzHandover(f *testing.F) {
	said := func(body string) []byte {
		return append([]byte{0, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	}
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{255, 255, 255, 255, '{'}, uint8(1))
	f.Add(append(said(`{"step":"listeners","parts":["a","b"]}`), said(`{"step":"handed","serves":true,"unhealthy":[{}]}`)...), uint8(2))
	f.Add(append(said(`{"step":"listeners","parts":["a","b"]}`), said(`{"step":"yours","parts":["x"],"open":{"Members":[{}]}}`)...), uint8(3))
	f.Add(said(`{"step":"listeners","parts":["a","b","c"]}`), uint8(2))
	f.Add(said(`{"step":7}`), uint8(1))
	f.Add(said(`null`), uint8(1))
	dir := f.TempDir()
	l, err := wire.Listen(dir, "x.sock")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	f.Fuzz(func(t *testing.T, text []byte, files uint8) {
		before := openFiles(t)
		mustHear(t, l, dir, text, int(files%16))
		if after := openFiles(t); after != before {
			t.Fatalf("%d files are open, %d were before", after, before)
		}
	})
}

func mustHear(t *testing.T, l *wire.Listener, dir string, text []byte, files int) {
	raw, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: dir + "/x.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() { said <- sayRaw(raw, text, files) }()
	defer func() {
		c.Close()
		<-said // an end that hangs up early is no fault
	}()
	parts, last, err := receiveParts(c, stepListeners)
	defer closeParts(parts)
	if err != nil && len(parts) > 0 {
		t.Fatalf("%v, and %d parts", err, len(parts))
	}
	if err == nil && last.Step == stepListeners {
		t.Fatalf("it ended with %+v", last)
	}
	for _, p := range parts {
		if p.FD <= 0 {
			t.Fatalf("%+v is no file", p)
		}
	}
	if overlaid, missing := overlay(nil, findings(last.Unhealthy)); (missing == nil) != (len(last.Unhealthy) == 0) || len(unhealthy(overlaid)) > len(last.Unhealthy) {
		t.Fatalf("of %v is made %v", last.Unhealthy, overlaid)
	}
}

// sayRaw sends text, with files beside its first byte, and ends.
func sayRaw(c *net.UnixConn, text []byte, files int) error {
	defer c.Close()
	if len(text) == 0 {
		return nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	var rights []byte
	if files > 0 {
		fds := make([]int, files)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix(text, rights, nil)
	if err == nil && n < len(text) {
		_, err = c.Write(text[n:])
	}
	return err
}
