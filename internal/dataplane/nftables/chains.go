package nftables

import (
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	flagFin, flagSyn, flagRst, flagAck = 0x01, 0x02, 0x04, 0x10

	chainNobody  = "nobody"
	chainDenied  = "denied"
	chainAstray  = "astray"
	chainCut     = "cut"
	chainInvalid = "invalid"
	chainHide    = "hide"
)

func reset() *expr.Reject {
	return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
}

// plainChains are those that others go to.
func (l *layout) plainChains(w *rules) []chain {
	out := []chain{
		// Nobody serves what this client asks for: an unknown port, or a frontend without members.
		{name: chainNobody, rules: [][]expr.Any{
			join([]expr.Any{count(counterNobody)}, isTCP(), []expr.Any{reset()}),
			{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}},
		}},
		{name: chainDenied, rules: [][]expr.Any{
			{count(counterDenied), &expr.Verdict{Kind: expr.VerdictDrop}},
		}},
		// In the middle of a TCP connection that is unknown: it was cut, or timed out.
		{name: chainAstray, rules: [][]expr.Any{
			join([]expr.Any{count(counterAstray)}, isTCP(), []expr.Any{reset()}),
		}},
		{name: chainCut, rules: cutRules()},
		// A member sees this host, not the client. What is not ours stays as it is.
		{name: chainHide, rules: [][]expr.Any{
			join(markBits(markMask|markKeep, markBase, expr.CmpOpEq), []expr.Any{&expr.Masq{}}),
		}},
	}
	invalid := chain{name: chainInvalid}
	for _, f := range l.families() {
		invalid.rules = append(invalid.rules,
			f.destinationIn(f.vips, &expr.Verdict{Kind: expr.VerdictDrop}),
			f.sourceIn(f.members, &expr.Verdict{Kind: expr.VerdictDrop}))
	}
	out = append(out, invalid)
	for _, f := range l.families() {
		out = append(out, l.vipChain(w, f), l.spreadChain(w, f))
	}
	return out
}

// midway is a segment that opens no connection, though conntrack knows none.
func midway() []expr.Any {
	return flags(flagFin|flagSyn|flagRst|flagAck, flagSyn, expr.CmpOpNeq)
}

// open is the rule that finds a frontend that everybody may connect to. It comes before all others: most new connections need no
// more to be looked up.
func (f *family) open() []expr.Any { return f.markBy(f.fe) }

// markBy marks a connection by its frontend in a map, and sends it to a member.
func (f *family) markBy(s *set) []expr.Any {
	return join(f.is(), f.frontend(), []expr.Any{
		&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: s.name},
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true}, goTo(f.spray),
	})
}

// vipChain is for the other connections to one of our addresses.
func (l *layout) vipChain(w *rules, f *family) chain {
	others := w.protocols()
	others.Invert = true
	source := join(f.frontend(), []expr.Any{network(f.registers.source, f.saddr, f.addrLen)})
	return chain{name: f.vip, rules: [][]expr.Any{
		{l4proto(1), others, &expr.Verdict{Kind: expr.VerdictReturn}},
		join(f.is(), f.frontend(), []expr.Any{lookup(f.limited)}, source,
			[]expr.Any{&expr.Lookup{SourceRegister: 1, SetName: f.sources.name, Invert: true}, goTo(chainDenied)}),
		f.markBy(f.admitted),
		{goTo(chainNobody)},
	}}
}

// opening is a segment that opens a connection.
func opening() []expr.Any {
	return flags(flagFin|flagSyn|flagRst|flagAck, flagSyn, expr.CmpOpEq)
}

// spreadChain sends the connection to a member; the first rule is for most, and asks for nothing that they don't need. One that another proxy had goes on where its member sees the client: the
// same member gets it. Else it would come from another address, and is reset at once.
func (l *layout) spreadChain(w *rules, f *family) chain {
	return chain{name: f.spray, rules: [][]expr.Any{
		join(markBits(markIP, 0, expr.CmpOpEq), f.toMember(opening(), true)),
		join(markBits(markKeep, 0, expr.CmpOpEq), midway(), []expr.Any{goTo(chainAstray)}),
		join(markBits(markIP, 0, expr.CmpOpEq), f.toMember(w.carried(), true)),
		f.toMember(w.carried(), false),
		{goTo(chainNobody)},
	}}
}

// cutRules end a connection: the client's packet is answered by a reset; the member's becomes the client's reset.
// Once the client was told, the member's is answered by one.
func cutRules() [][]expr.Any {
	tell := []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		masked(markKey(^markTold), markKey(markTold)),
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
	}
	return [][]expr.Any{
		{l4proto(1), unequal(unix.IPPROTO_TCP), &expr.Verdict{Kind: expr.VerdictDrop}},
		join([]expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, equal(0)}, tell),
		join(isTCP(), markBits(markTold, markTold, expr.CmpOpEq), []expr.Any{reset()}),
		tell,
		join(isTCP(), []expr.Any{
			transport(1, 12, 2),
			masked([]byte{0xff, 0}, []byte{0, flagRst}),
			&expr.Payload{
				OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseTransportHeader,
				Offset: 12, Len: 2, CsumType: expr.CsumTypeInet, CsumOffset: 16,
			},
		}),
	}
}

// baseChains are those that the kernel calls. Those of kind nat see a connection's first packet only.
func (l *layout) baseChains(*rules) []chain {
	guard := chain{name: "guard", kind: "filter", hook: unix.NF_INET_PRE_ROUTING, priority: -110, rules: [][]expr.Any{
		// Of all packets that conntrack knows this ends the chain, but for connections that are being ended.
		join(markBits(markCut, 0, expr.CmpOpEq), []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}),
		{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, masked(u32le(1), u32le(0)), unequal(0, 0, 0, 0), goTo(chainInvalid)},
		join(markBits(markMask|markCut, markBase|markCut, expr.CmpOpEq), []expr.Any{goTo(chainCut)}),
	}}
	prerouting := chain{name: "prerouting", kind: "nat", hook: unix.NF_INET_PRE_ROUTING, priority: -100}
	output := chain{name: "output", kind: "nat", hook: unix.NF_INET_LOCAL_OUT, priority: -100, rules: [][]expr.Any{
		// A reset that nobody and astray answer this host itself with.
		join(flags(flagRst, flagRst, expr.CmpOpEq), []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}),
	}}
	for _, find := range []func(*family) []expr.Any{
		(*family).open,
		func(f *family) []expr.Any { return f.destinationIn(f.vips, goTo(f.vip)) },
	} {
		for _, f := range l.families() {
			prerouting.rules = append(prerouting.rules, find(f))
			output.rules = append(output.rules, find(f))
		}
	}
	for _, f := range l.families() {
		// What a member sends into a connection that another proxy had waits for the client's packet, which says whose it is.
		prerouting.rules = append(prerouting.rules, join(f.sourceIn(f.members, nil), midway(),
			[]expr.Any{l4proto(1), transport(9, 0, 2), lookup(l.targets), &expr.Verdict{Kind: expr.VerdictDrop}}))
	}
	postrouting := chain{name: "postrouting", kind: "nat", hook: unix.NF_INET_POST_ROUTING, priority: 100, rules: [][]expr.Any{
		join(markBits(markMask|markKeep, markBase|markKeep, expr.CmpOpNeq), []expr.Any{goTo(chainHide)}),
	}}
	for _, f := range l.families() { // A member that is a client of its own service.
		postrouting.rules = append(postrouting.rules, f.sourceIn(f.members, &expr.Masq{}))
	}
	// This host, no packet of which came by an interface, from an address that members can't answer.
	postrouting.rules = append(postrouting.rules, []expr.Any{&expr.Meta{Key: expr.MetaKeyIIF, Register: 1}, unequal(u32le(0)...), &expr.Verdict{Kind: expr.VerdictAccept}})
	for _, f := range l.families() {
		postrouting.rules = append(postrouting.rules, f.sourceIn(f.vips, &expr.Masq{}))
	}
	// What prober sends belongs to no connection.
	probe := chain{name: "probe", kind: "filter", hook: unix.NF_INET_LOCAL_OUT, priority: -300, rules: [][]expr.Any{
		{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, equal(u32le(probeMark)...), &expr.Notrack{}},
	}}
	return []chain{guard, prerouting, output, postrouting, probe}
}
