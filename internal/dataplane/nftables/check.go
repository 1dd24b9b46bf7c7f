package nftables

import (
	"fmt"

	"fairlead.dev/fairlead/internal/lb"
)

// Reasons of Problems, as the API's conditions have them.
const (
	reasonNotSupported    = "NotSupported"
	reasonPending         = "Pending"
	reasonInvalid         = "Invalid"
	reasonAddressNotLocal = "AddressNotLocal"
)

// Check names the frontends that packets can't be rewritten for, and the fields that they are served without.
func (*Dataplane) Check(s *lb.Snapshot) []lb.Problem {
	var out []lb.Problem
	for _, f := range s.Frontends {
		if f.ProxyProtocol != 0 {
			out = append(out, problem(f.ID, "spec.proxyProtocol", reasonNotSupported,
				"data plane nftables rewrites packets and can put no PROXY header into a stream; leave proxyProtocol out, or use a class with another data plane"))
			continue
		}
		if f.IdleTimeout != 0 {
			p := problem(f.ID, "spec.idleTimeout", reasonNotSupported,
				"data plane nftables ends idle connections by the host's own timeouts (sysctl net.netfilter.nf_conntrack_*_timeout*); leave idleTimeout out, or use a class with another data plane")
			p.Effect = lb.ServedWithout
			out = append(out, p)
		}
	}
	return out
}

// impossible says what no table can hold; "" if it can. The caller leaves out what Check refuses; this is the rest.
func impossible(f *lb.Frontend, p *lb.Pool) string {
	switch id := f.ID; {
	case !id.Address.IsValid() || id.Address.Is4In6() || id.Address.Zone() != "":
		return fmt.Sprintf("%s is not an address of IPv4 or IPv6 proper", id.Address)
	case protocolNumber(id.Protocol) == 0:
		return fmt.Sprintf("protocol %q is not TCP, UDP or SCTP", id.Protocol)
	case id.Port == 0:
		return "port 0 can't be served"
	case p == nil:
		return "its pool is missing"
	case p.Port == 0:
		return "port 0 of its targets can't be reached"
	}
	return ""
}

func problem(id lb.FrontendID, field, reason, message string) lb.Problem {
	return lb.Problem{
		Object: lb.ObjectRef{
			Kind: lb.KindLoadBalancer, Namespace: string(id.Tenant), Name: id.LoadBalancer,
			Port: id.Port, Protocol: id.Protocol,
		},
		Field: field, Reason: reason, Message: message,
	}
}
