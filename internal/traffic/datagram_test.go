package traffic

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

func TestDatagramIsAnsweredByItsOwnAnswer(t *testing.T) {
	t.Parallel()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		b := make([]byte, 64)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			for _, path := range []string{"late", string(b[:n])} {
				_, _ = server.WriteTo(fmt.Appendf(nil, `{"cluster":"red","pod":"web-1","path":%q,"client":%q}`, path, from), from)
			}
		}
	}()
	w := Way{Name: "edge-1", Address: netip.MustParseAddrPort(server.LocalAddr().String())}
	f, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	client := ""
	for _, text := range []string{"one", "two"} {
		a, err := f.Ask(t.Context(), text)
		if err != nil || a.Path != text || a.Pod != "web-1" || client != "" && a.Client != client {
			t.Errorf("%+v, %v", a, err)
		}
		client = a.Client
	}
	server.Close()
	if _, err := f.Ask(t.Context(), "three"); KindOf(err) != FailureRefused {
		t.Errorf("nobody listens: %v", err)
	}
}
