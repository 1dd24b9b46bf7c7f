package app

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestAProxysNameIsThatOfAnObjectAndOfAFile(t *testing.T) {
	for name, fine := range map[string]bool{
		"edge-1": true, "host.example.net": true,
		"": false, "../edge": false, "Edge_1": false, strings.Repeat("x", 64): false,
	} {
		if err := (&ProxyOptions{Name: name, Pool: "edge"}).check(); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A proxy starts with whatever it was given before these addresses were for more than people, and says what it can't use.
func TestAnAddressThatIsNoHostsIsLeftOut(t *testing.T) {
	at := netip.MustParseAddr
	var many []string
	var first []netip.Addr
	for i := range byte(17) {
		a := netip.AddrFrom4([4]byte{192, 0, 2, i + 1})
		if many = append(many, a.String()); i < 16 {
			first = append(first, a)
		}
	}
	for name, c := range map[string]struct {
		given []string
		want  []netip.Addr
		says  string
	}{
		"addresses":           {[]string{"192.0.2.20", "fd00::20", "::ffff:192.0.2.20"}, []netip.Addr{at("192.0.2.20"), at("fd00::20")}, ""},
		"a host's name":       {[]string{"edge-1.example.net", "192.0.2.20"}, []netip.Addr{at("192.0.2.20")}, "edge-1.example.net"},
		"a range":             {[]string{"192.0.2.0/24"}, nil, "192.0.2.0/24"},
		"one with a zone":     {[]string{"fe80::1%eth0"}, nil, "fe80::1%eth0"},
		"the unspecified":     {[]string{"0.0.0.0"}, nil, "0.0.0.0"},
		"a group's":           {[]string{"224.0.0.1"}, nil, "224.0.0.1"},
		"nothing":             {[]string{""}, nil, ""},
		"more than a Proxy's": {many, first, "192.0.2.17"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &bytes.Buffer{}
			if got := ownAddresses(c.given, slog.New(slog.NewTextHandler(log, nil))); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if said := log.String(); c.says == "" && said != "" || !strings.Contains(said, c.says) || c.says != "" && !strings.Contains(said, "level=WARN") {
				t.Errorf("said %q", said)
			}
		})
	}
}
