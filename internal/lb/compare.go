package lb

import (
	"cmp"
	"strings"
)

// Compare orders Sockets by address, protocol, port.
func (s Socket) Compare(o Socket) int {
	if c := s.Address.Compare(o.Address); c != 0 {
		return c
	}
	if c := strings.Compare(string(s.Protocol), string(o.Protocol)); c != 0 {
		return c
	}
	return cmp.Compare(s.Port, o.Port)
}

// Compare orders FrontendIDs by tenant, LoadBalancer, address, protocol, port.
func (f FrontendID) Compare(o FrontendID) int {
	if c := strings.Compare(string(f.Tenant), string(o.Tenant)); c != 0 {
		return c
	}
	if c := strings.Compare(f.LoadBalancer, o.LoadBalancer); c != 0 {
		return c
	}
	return f.Socket().Compare(o.Socket())
}

// Compare orders MemberKeys by UID, then address.
func (k MemberKey) Compare(o MemberKey) int {
	if c := strings.Compare(k.UID, o.UID); c != 0 {
		return c
	}
	return k.Address.Compare(o.Address)
}

// Compare orders Probes by address, then check.
func (p Probe) Compare(o Probe) int {
	if c := p.Address.Compare(o.Address); c != 0 {
		return c
	}
	return p.Check.Compare(o.Check)
}

// Compare orders Checks by their fields, as they stand.
func (c Check) Compare(o Check) int {
	return cmp.Or(
		strings.Compare(string(c.Kind), string(o.Kind)),
		cmp.Compare(c.Port, o.Port),
		strings.Compare(c.Path, o.Path),
		cmp.Compare(c.Interval, o.Interval),
		cmp.Compare(c.Timeout, o.Timeout),
		cmp.Compare(c.Rise, o.Rise),
		cmp.Compare(c.Fall, o.Fall),
		strings.Compare(c.Alive, o.Alive),
		cmp.Compare(c.ProxyProtocol, o.ProxyProtocol),
		compareBool(c.Lenient, o.Lenient),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Compare orders Absents by group, then UID, then the rest.
func (a Absent) Compare(o Absent) int {
	return cmp.Or(
		strings.Compare(a.TargetGroup, o.TargetGroup),
		strings.Compare(a.UID, o.UID),
		strings.Compare(a.Target, o.Target),
		strings.Compare(a.Name, o.Name),
		strings.Compare(a.GroupUID, o.GroupUID),
		cmp.Compare(a.Used, o.Used),
		cmp.Compare(a.Outside, o.Outside),
		cmp.Compare(a.Beyond, o.Beyond),
	)
}

// Compare orders Problems by object, field, reason and message.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(
		strings.Compare(p.Object.Kind, o.Object.Kind),
		strings.Compare(p.Object.Namespace, o.Object.Namespace),
		strings.Compare(p.Object.Name, o.Object.Name),
		cmp.Compare(p.Object.Port, o.Object.Port),
		strings.Compare(string(p.Object.Protocol), string(o.Object.Protocol)),
		p.Object.Address.Compare(o.Object.Address),
		strings.Compare(p.Field, o.Field),
		strings.Compare(p.Reason, o.Reason),
		strings.Compare(p.Message, o.Message),
		cmp.Compare(p.Effect, o.Effect),
	)
}
