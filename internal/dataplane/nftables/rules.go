package nftables

import (
	"fairlead.dev/fairlead/internal/dataplane/nl"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Attributes and constants of nf_tables that x/sys does not have.
const (
	nftaTableHandle     = 4
	nftaTableUserdata   = 6
	nftaSetUserdata     = 13
	nftaSetExpr         = 17
	nftaSetDescConcat   = 2
	nftaElemUserdata    = 6
	nftaElemKeyEnd      = 10
	nftaElemExpressions = 11
	nftaCounterBytes    = 1
	nftaCounterPackets  = 2
	setFlagConcat       = 0x80
	objectCounter       = 1
)

// commentPrefix begins the comment of a table of ours; the layout's version follows.
const commentPrefix = "fairlead data plane, layout "

// comment is what nft keeps and prints beside a table or an element.
func comment(s string) []byte {
	return append(append([]byte{0, byte(len(s) + 1)}, s...), 0)
}

func commentOf(userdata []byte) string {
	for len(userdata) >= 2 {
		n := int(userdata[1])
		if len(userdata) < 2+n {
			break
		}
		if userdata[0] == 0 && n > 0 {
			return string(userdata[2 : 2+n-1])
		}
		userdata = userdata[2+n:]
	}
	return ""
}

// Counters of what is turned away.
const (
	counterNobody = "nobody"
	counterDenied = "denied"
	counterAstray = "astray"
)

// addTo adds the table to a batch, with its sets and rules, without elements.
func (l *layout) addTo(b *nl.Batch, version string) {
	var a nl.Attrs
	a.String(unix.NFTA_TABLE_NAME, l.table)
	a.U32(unix.NFTA_TABLE_FLAGS, 0)
	a.Bytes(nftaTableUserdata, comment(commentPrefix+version))
	b.Add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
	for _, name := range []string{counterNobody, counterDenied, counterAstray} {
		var a nl.Attrs
		a.String(unix.NFTA_OBJ_TABLE, l.table)
		a.String(unix.NFTA_OBJ_NAME, name)
		a.U32(unix.NFTA_OBJ_TYPE, objectCounter)
		a.End(a.Begin(unix.NFTA_OBJ_DATA))
		b.Add(unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
	}
	for _, s := range l.sets {
		l.addSet(b, s)
	}
	w := &rules{b: b, table: l.table, nextID: uint32(len(l.sets) + 1)}
	chains := append(l.plainChains(w), l.baseChains(w)...)
	for _, c := range chains {
		w.addChain(c)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			w.addRule(c.name, r)
		}
	}
}

func (l *layout) addSet(b *nl.Batch, s *set) {
	var a nl.Attrs
	a.String(unix.NFTA_SET_TABLE, l.table)
	a.String(unix.NFTA_SET_NAME, s.name)
	flags := uint32(0)
	if s.isMap() {
		flags |= unix.NFT_SET_MAP
	}
	if s.interval != nil {
		flags |= unix.NFT_SET_INTERVAL | setFlagConcat
	}
	a.U32(unix.NFTA_SET_FLAGS, flags)
	a.U32(unix.NFTA_SET_KEY_TYPE, s.keyType)
	a.U32(unix.NFTA_SET_KEY_LEN, s.keyLen)
	if s.isMap() {
		a.U32(unix.NFTA_SET_DATA_TYPE, s.dataType)
		a.U32(unix.NFTA_SET_DATA_LEN, s.dataLen)
	}
	a.U32(unix.NFTA_SET_ID, s.id)
	if s.interval != nil {
		desc := a.Begin(unix.NFTA_SET_DESC)
		fields := a.Begin(nftaSetDescConcat)
		for _, n := range s.interval {
			f := a.Begin(unix.NFTA_LIST_ELEM)
			a.U32(1, n)
			a.End(f)
		}
		a.End(fields)
		a.End(desc)
	}
	if s.userdata != nil {
		a.Bytes(nftaSetUserdata, s.userdata)
	}
	if s.counter {
		e := a.Begin(nftaSetExpr)
		a.String(unix.NFTA_EXPR_NAME, "counter")
		a.End(a.Begin(unix.NFTA_EXPR_DATA))
		a.End(e)
	}
	b.Add(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
}

// chain is a chain with its rules; a base chain if it has a kind.
type chain struct {
	name     string
	kind     string
	hook     uint32
	priority int32
	rules    [][]expr.Any
}

// rules writes chains and rules to a batch.
type rules struct {
	b      *nl.Batch
	table  string
	nextID uint32
}

func (w *rules) addChain(c chain) {
	var a nl.Attrs
	a.String(unix.NFTA_CHAIN_TABLE, w.table)
	a.String(unix.NFTA_CHAIN_NAME, c.name)
	if c.kind != "" {
		h := a.Begin(unix.NFTA_CHAIN_HOOK)
		a.U32(unix.NFTA_HOOK_HOOKNUM, c.hook)
		a.U32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))
		a.End(h)
		a.U32(unix.NFTA_CHAIN_POLICY, 1)
		a.String(unix.NFTA_CHAIN_TYPE, c.kind)
	}
	w.b.Add(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
}

func (w *rules) addRule(chain string, exprs []expr.Any) {
	var a nl.Attrs
	a.String(unix.NFTA_RULE_TABLE, w.table)
	a.String(unix.NFTA_RULE_CHAIN, chain)
	list := a.Begin(unix.NFTA_RULE_EXPRESSIONS)
	for _, e := range exprs {
		b, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil { // Only a rule that can't be written at all comes here: the first test finds it.
			panic(err)
		}
		a.Bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)
	}
	a.End(list)
	w.b.Add(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.NFPROTO_INET, a)
}

// carried is whether the protocol is one that is carried.
func (w *rules) carried() []expr.Any { return []expr.Any{l4proto(1), w.protocols()} }

// protocols makes an anonymous set of those that are carried; each rule has its own.
func (w *rules) protocols() *expr.Lookup {
	const name = "__set%d"
	id := w.nextID
	w.nextID++
	var a nl.Attrs
	a.String(unix.NFTA_SET_TABLE, w.table)
	a.String(unix.NFTA_SET_NAME, name)
	a.U32(unix.NFTA_SET_FLAGS, unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	a.U32(unix.NFTA_SET_KEY_TYPE, typeProto)
	a.U32(unix.NFTA_SET_KEY_LEN, 1)
	a.U32(unix.NFTA_SET_ID, id)
	desc := a.Begin(unix.NFTA_SET_DESC)
	a.U32(unix.NFTA_SET_DESC_SIZE, 3)
	a.End(desc)
	w.b.Add(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
	a = nil
	a.String(unix.NFTA_SET_ELEM_LIST_TABLE, w.table)
	a.String(unix.NFTA_SET_ELEM_LIST_SET, name)
	a.U32(unix.NFTA_SET_ELEM_LIST_SET_ID, id)
	list := a.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for _, p := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP} {
		e := a.Begin(unix.NFTA_LIST_ELEM)
		k := a.Begin(unix.NFTA_SET_ELEM_KEY)
		a.Bytes(unix.NFTA_DATA_VALUE, []byte{p})
		a.End(k)
		a.End(e)
	}
	a.End(list)
	w.b.Add(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, a)
	return &expr.Lookup{SourceRegister: 1, SetName: name, SetID: id}
}

// Expressions, as nft writes them: it prints only what it could have written.

func join(parts ...[]expr.Any) (out []expr.Any) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func network(reg, offset uint32, length int) *expr.Payload {
	return &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(length)}
}

func transport(reg, offset, length uint32) *expr.Payload {
	return &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func l4proto(reg uint32) *expr.Meta { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg} }

func equal(b ...byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b} }

func unequal(b ...byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: b} }

func goTo(chain string) *expr.Verdict { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain} }

func count(name string) *expr.Objref { return &expr.Objref{Type: objectCounter, Name: name} }

func masked(mask, xor []byte) *expr.Bitwise {
	return &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(mask)), Mask: mask, Xor: xor}
}

func (f *family) is() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal(f.nfproto)}
}

func isTCP() []expr.Any { return []expr.Any{l4proto(1), equal(unix.IPPROTO_TCP)} }

// markBits compares the bits of mask in the connection's mark.
func markBits(mask, value mark, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		masked(markKey(mask), markKey(0)),
		&expr.Cmp{Op: op, Register: 1, Data: markKey(value)},
	}
}

// flags compares those of fin, syn, rst and ack that mask has.
func flags(mask, value byte, op expr.CmpOp) []expr.Any {
	return join(isTCP(), []expr.Any{transport(1, 13, 1), masked([]byte{mask}, []byte{0}), &expr.Cmp{Op: op, Register: 1, Data: []byte{value}}})
}

func lookup(s *set) *expr.Lookup { return &expr.Lookup{SourceRegister: 1, SetName: s.name} }

// frontend loads the key of a frontend, from register 1 on.
func (f *family) frontend() []expr.Any {
	return []expr.Any{network(1, f.daddr, f.addrLen), l4proto(f.registers.proto), transport(f.registers.port, 2, 2)}
}

func (f *family) destinationIn(s *set, then expr.Any) []expr.Any {
	return join(f.is(), []expr.Any{network(1, f.daddr, f.addrLen), lookup(s), then})
}

func (f *family) sourceIn(s *set, then expr.Any) []expr.Any {
	out := join(f.is(), []expr.Any{network(1, f.saddr, f.addrLen), lookup(s)})
	if then != nil {
		out = append(out, then)
	}
	return out
}

// toMember sends a connection of these protocols to the member of a slot; which one, the client's address says, and its port
// with byFlow. It does nothing if there is no member.
func (f *family) toMember(protocols []expr.Any, byFlow bool) []expr.Any {
	r, length := f.registers, uint32(f.addrLen)
	load := []expr.Any{network(r.hashSource, f.saddr, f.addrLen)}
	if byFlow {
		load, length = append(load, transport(r.hashPort, 0, 2)), length+4
	}
	return join(
		protocols, f.is(),
		[]expr.Any{&expr.Ct{Key: expr.CtKeyMARK, Register: 1}}, load,
		[]expr.Any{
			&expr.Hash{SourceRegister: r.hashSource, DestRegister: 9, Length: length, Modulus: slots, Seed: hashSeed, Type: expr.HashTypeJenkins},
			&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: f.node.name},
			network(2, f.daddr, f.addrLen), l4proto(r.valueProto), transport(r.valuePort, 2, 2),
			&expr.Lookup{SourceRegister: 2, DestRegister: 2, IsDestRegSet: true, SetName: f.port.name},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.nfproto), RegAddrMin: 1, RegProtoMin: 2, Specified: true},
		})
}

func (l *layout) families() []*family { return []*family{l.v4, l.v6} }
