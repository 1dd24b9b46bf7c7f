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

// ParseTranslation reads FROM=TO, two prefixes of one family and length, as in 203.0.113.0/24=10.0.0.0/24.
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
	if t.From.Addr().Is4In6() || t.To.Addr().Is4In6() || t.From.Addr().Is4() != t.To.Addr().Is4() {
		return Translation{}, fmt.Errorf("translation %q: both prefixes must be IPv4, or both IPv6", s)
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
	if !t.From.IsValid() || !t.From.Contains(address) { // Contains tells the families apart.
		return address, false
	}
	out, to := address.AsSlice(), t.To.Masked().Addr().AsSlice()
	for i, bits := 0, t.To.Bits(); bits > 0; i, bits = i+1, bits-8 {
		mask := byte(0xff)
		if bits < 8 {
			mask <<= 8 - bits
		}
		out[i] = out[i]&^mask | to[i]&mask
	}
	return netip.AddrFromSlice(out)
}
