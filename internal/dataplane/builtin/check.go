package builtin

import (
	"fmt"

	"fairlead.dev/fairlead/internal/lb"
)

// Reasons of Problems, as the API's conditions have them.
const (
	reasonNotSupported     = "NotSupported"
	reasonPending          = "Pending"
	reasonPortInUse        = "PortInUse"
	reasonPortNotPermitted = "PortNotPermitted"
	reasonAddressNotLocal  = "AddressNotLocal"
)

// Check names the frontends that plain TCP over IPv4 can't express, each with the first cause found.
func (*Dataplane) Check(s *lb.Snapshot) []lb.Problem {
	var out []lb.Problem
	for _, f := range s.Frontends {
		if field, message := inexpressible(f, s.Pools[f.Pool]); field != "" {
			out = append(out, problem(f.ID, field, reasonNotSupported, message))
		}
	}
	return out
}

func inexpressible(f *lb.Frontend, p *lb.Pool) (field, message string) {
	switch {
	case f.ID.Protocol != lb.TCP:
		return "spec.ports.protocol", fmt.Sprintf("data plane builtin serves TCP only, not %s; use TCP, or a class with another data plane", f.ID.Protocol)
	case !f.ID.Address.Is4():
		return "spec.ipFamilies", fmt.Sprintf("data plane builtin serves IPv4 only, not %s; use IPv4, or a class with another data plane", f.ID.Address)
	case len(f.Sources) > 0:
		return "spec.sourceRanges", "data plane builtin doesn't tell clients apart; leave sourceRanges out, or use a class with another data plane"
	case f.ProxyProtocol != 0:
		return "spec.proxyProtocol", "data plane builtin sends no PROXY header; leave proxyProtocol out, or use a class with another data plane"
	case p != nil && !checkable(p.Check.Kind):
		return "spec.healthCheck.type", fmt.Sprintf("health check %s is not known; use TCP, HTTP, HTTPS or None", p.Check.Kind)
	}
	return "", ""
}

func checkable(k lb.CheckKind) bool {
	switch k {
	case "", lb.CheckNone, lb.CheckTCP, lb.CheckHTTP, lb.CheckHTTPS:
		return true
	}
	return false
}

func problem(id lb.FrontendID, field, reason, message string) lb.Problem {
	return lb.Problem{
		Object: lb.ObjectRef{
			Kind: "LoadBalancer", Namespace: string(id.Tenant), Name: id.LoadBalancer,
			Port: id.Port, Protocol: id.Protocol,
		},
		Field: field, Reason: reason, Message: message,
	}
}
