package builtin

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// inheritable opens a file of some kind, as it might come from a predecessor.
func inheritable(t testing.TB, kind byte) int {
	domain, typ := unix.AF_INET, unix.SOCK_STREAM
	switch kind % 4 {
	case 1:
		typ = unix.SOCK_DGRAM
	case 2:
		domain, typ = unix.AF_UNIX, unix.SOCK_DGRAM
	case 3:
		fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// openFiles counts this process's.
func openFiles(t testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Whatever a predecessor's parts say, and whatever files they are: nothing breaks, and no file is left open.
func FuzzInherit(f *testing.F) {
	f.Add(`{"protocol":"TCP","at":"127.0.0.1:PORT"}`, byte(0), `{}`, byte(1))
	f.Add(`{"protocol":"UDP","at":"127.0.0.1:PORT"}`, byte(1), `{"client":"127.0.0.9:9","frontend":{"Tenant":"tenant","LoadBalancer":"dns","Address":"127.0.0.1","Protocol":"UDP","Port":PORT},"member":{"UID":"m1","Address":"127.0.1.1"},"quiet":-9223372036854775808}`, byte(1))
	f.Add(`{"protocol":"UDP","at":"127.0.0.1:PORT"}`, byte(2), `{"client":"","frontend":{"Tenant":"tenant","LoadBalancer":"dns","Address":"127.0.0.1","Protocol":"UDP","Port":PORT},"member":{"UID":"m1","Address":"127.0.1.1"}}`, byte(3))
	f.Add("{\"protocol\":\"UDP\",\"at\":\"127.0.0.1:PORT\"}\n{\"protocol\":\"UDP\",\"at\":\"127.0.0.1:PORT\"}\n{\"protocol\":\"TCP\",\"at\":\"127.0.0.1:PORT\"}", byte(0), "7\nnull", byte(0))
	f.Add(`{"protocol":"TCP","at":""}`, byte(3), `{"frontend":{"Address":"x"}}`, byte(2))
	f.Fuzz(func(t *testing.T, listeners string, listenerKind byte, flows string, flowKind byte) {
		port := freeUDPPort(t, "127.0.0.1")
		members := []lb.Member{memberAt("m1", "127.0.1.1")}
		web := service{name: "web", at: at("127.0.0.1", port), port: port, members: members}
		dns := service{name: "dns", protocol: lb.UDP, at: at("127.0.0.1", port), port: port, members: members}
		before := openFiles(t)
		parts := func(text string, kind byte) (out []dataplane.Part) {
			for i, what := range strings.Split(strings.ReplaceAll(text, "PORT", strconv.Itoa(int(port))), "\n") {
				if i < 8 {
					out = append(out, dataplane.Part{What: what, FD: inheritable(t, kind)})
				}
			}
			return out
		}
		d := New(Options{})
		d.Inherit(parts(listeners, listenerKind))
		next := program(web, dns)
		if _, err := d.Apply(t.Context(), next, lb.Diff(nil, next)); err != nil {
			t.Fatal(err)
		}
		d.Adopt(parts(flows, flowKind))
		d.Observe()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d.Close(ctx)
		until(t, "its files are closed", func() bool { return openFiles(t) <= before })
	})
}
