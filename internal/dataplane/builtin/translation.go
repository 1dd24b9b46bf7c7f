package builtin

import (
	"fmt"
	"net/netip"
	"strings"
)

// Translation says that addresses of From arrive at this host as those of To,
// host part unchanged.
type Translation struct {
	From, To netip.Prefix
}

// ParseTranslation reads FROM=TO, two IPv4 prefixes of one length, as in 203.0.113.0/24=10.0.0.0/24.
func ParseTranslation(s string) (Translation, error) {
	from, to, ok := strings.Cut(s, "=")
	if !ok {
		return Translation{}, fmt.Errorf("translation %q: must be FROM=TO, two prefixes", s)
	}
	var t Translation
	var err error
	if t.From, err = netip.ParsePrefix(from); err != nil {
		return Translation{}, fmt.Errorf("translation %q: %w", s, err)
	}
	if t.To, err = netip.ParsePrefix(to); err != nil {
		return Translation{}, fmt.Errorf("translation %q: %w", s, err)
	}
	if !t.From.Addr().Is4() || !t.To.Addr().Is4() {
		return Translation{}, fmt.Errorf("translation %q: both prefixes must be IPv4", s)
	}
	if t.From.Bits() != t.To.Bits() {
		return Translation{}, fmt.Errorf("translation %q: both prefixes must be of one length", s)
	}
	t.From, t.To = t.From.Masked(), t.To.Masked()
	return t, nil
}

func (t Translation) String() string { return t.From.String() + "=" + t.To.String() }

// translate says where address is served; false if it doesn't lie in From.
func (t Translation) translate(address netip.Addr) (netip.Addr, bool) {
	if !address.Is4() || !t.From.IsValid() || !t.From.Contains(address) {
		return address, false
	}
	out, to := address.As4(), t.To.Masked().Addr().As4()
	for i, bits := 0, t.To.Bits(); bits > 0; i, bits = i+1, bits-8 {
		mask := byte(0xff)
		if bits < 8 {
			mask <<= 8 - bits
		}
		out[i] = out[i]&^mask | to[i]&mask
	}
	return netip.AddrFrom4(out), true
}
