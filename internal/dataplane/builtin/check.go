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

// Check names what can't be expressed: the frontends that can't be served, each with the first
// cause found, and those that are served without something.
func (*Dataplane) Check(s *lb.Snapshot) []lb.Problem {
	var out []lb.Problem
	for _, f := range s.Frontends {
		p := s.Pools[f.Pool]
		if field, message := inexpressible(f, p); field != "" {
			out = append(out, problem(f.ID, field, reasonNotSupported, message))
			continue
		}
		if p != nil && p.KeepClient {
			without := problem(f.ID, "spec.proxy.clientAddress", reasonNotSupported,
				"data plane builtin shows members its own address; set proxyProtocol if they must know the client's, or use a class with data plane nftables")
			without.Effect = lb.ServedWithout
			out = append(out, without)
		}
	}
	return out
}

func inexpressible(f *lb.Frontend, p *lb.Pool) (field, message string) {
	switch {
	case f.ID.Protocol != lb.TCP && f.ID.Protocol != lb.UDP:
		return "spec.ports.protocol", fmt.Sprintf("data plane builtin serves TCP and UDP, not %s; use one of these, or a class with another data plane", f.ID.Protocol)
	case f.ID.Protocol == lb.UDP && f.ProxyProtocol != 0:
		return "spec.proxyProtocol", "data plane builtin sends no PROXY header over UDP; leave proxyProtocol out, or serve this port from another LoadBalancer"
	case f.ProxyProtocol < 0 || f.ProxyProtocol > 2:
		return "spec.proxyProtocol", fmt.Sprintf("PROXY protocol version %d is not known; use 1 or 2", f.ProxyProtocol)
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
