package boundary

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Building blocks of rules. Each returns expressions that are put one after the
// other; all of a rule's must hold until its verdict is reached. Every match
// loads into one and the same register and compares at once.

const reg = 1 // NFT_REG_1

// Values of netfilter's that golang.org/x/sys does not name.
const (
	ctEstablished = 1 << 1 // NF_CT_STATE_BIT(IP_CT_ESTABLISHED)
	ctRelated     = 1 << 2 // NF_CT_STATE_BIT(IP_CT_RELATED)
	ctInvalid     = 1 << 0 // NF_CT_STATE_INVALID_BIT
	ctDNAT        = 1 << 5 // IPS_DST_NAT
	packetHost    = 0      // PACKET_HOST

	natProtoSpecified = 1 << 1 // NF_NAT_RANGE_PROTO_SPECIFIED
)

// ICMPv6 types (RFC 4861, RFC 2710, RFC 3810).
const (
	mldReport        = 131
	mldDone          = 132
	routerSolicit    = 133
	neighbourSolicit = 135
	neighbourAdvert  = 136
	mld2Report       = 143
)

func join(parts ...[]expr.Any) []expr.Any {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func cmp(op expr.CmpOp, data []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: reg, Data: data}
}

func meta(key expr.MetaKey, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: reg}, cmp(op, data)}
}

func ifname(s string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, s)
	return b
}

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
func big16(v uint16) []byte    { return binary.BigEndian.AppendUint16(nil, v) }

func iif(link string) []expr.Any { return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, ifname(link)) }
func oif(link string) []expr.Any { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, ifname(link)) }

func l4proto(p byte) []expr.Any { return meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{p}) }

func family(v4 bool) []expr.Any {
	if v4 {
		return meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
	}
	return meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV6})
}

func notToHost() []expr.Any {
	return meta(expr.MetaKeyPKTTYPE, expr.CmpOpNeq, []byte{packetHost})
}

func socketUID(uid uint32) []expr.Any {
	return meta(expr.MetaKeySKUID, expr.CmpOpEq, native32(uid))
}

func payload(base expr.PayloadBase, offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: length}
}

// side is which of a packet's two addresses is meant.
type side int

const (
	source side = iota
	destination
)

// loadAddr loads a whole address, after a check of the family.
func loadAddr(s side, v4 bool) []expr.Any {
	if v4 {
		return join(family(true), []expr.Any{payload(expr.PayloadBaseNetworkHeader, 12+4*uint32(s), 4)})
	}
	return join(family(false), []expr.Any{payload(expr.PayloadBaseNetworkHeader, 8+16*uint32(s), 16)})
}

func addrIs(s side, a netip.Addr) []expr.Any {
	return join(loadAddr(s, a.Is4()), []expr.Any{cmp(expr.CmpOpEq, a.AsSlice())})
}

func addrIsNot(s side, a netip.Addr) []expr.Any {
	return join(loadAddr(s, a.Is4()), []expr.Any{cmp(expr.CmpOpNeq, a.AsSlice())})
}

func addrIn(s side, p netip.Prefix) []expr.Any {
	p = p.Masked()
	load := loadAddr(s, p.Addr().Is4())
	if p.Bits() == 0 {
		return family(p.Addr().Is4())
	}
	bytes := p.Addr().AsSlice()
	return join(load, []expr.Any{
		&expr.Bitwise{
			SourceRegister: reg, DestRegister: reg, Len: uint32(len(bytes)),
			Mask: mask(p.Bits(), len(bytes)), Xor: make([]byte, len(bytes)),
		},
		cmp(expr.CmpOpEq, bytes),
	})
}

func mask(ones, size int) []byte {
	m := make([]byte, size)
	for i := range ones {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

// dport matches a destination port, after the protocol.
func dport(proto byte, p uint16) []expr.Any {
	return join(l4proto(proto), []expr.Any{
		payload(expr.PayloadBaseTransportHeader, 2, 2), cmp(expr.CmpOpEq, big16(p)),
	})
}

func tcpFlags(maskBits, value byte) []expr.Any {
	return join(l4proto(unix.IPPROTO_TCP), []expr.Any{
		payload(expr.PayloadBaseTransportHeader, 13, 1),
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 1, Mask: []byte{maskBits}, Xor: []byte{0}},
		cmp(expr.CmpOpEq, []byte{value}),
	})
}

func icmpType(v4 bool, typ byte) []expr.Any {
	proto := byte(unix.IPPROTO_ICMPV6)
	if v4 {
		proto = unix.IPPROTO_ICMP
	}
	return join(family(v4), l4proto(proto), []expr.Any{
		payload(expr.PayloadBaseTransportHeader, 0, 1), cmp(expr.CmpOpEq, []byte{typ}),
	})
}

// hopLimit255 shows that a packet was not forwarded (RFC 4861 section 7.1).
func hopLimit255() []expr.Any {
	return []expr.Any{payload(expr.PayloadBaseNetworkHeader, 7, 1), cmp(expr.CmpOpEq, []byte{255})}
}

func conntrack(key expr.CtKey, bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: native32(bits), Xor: native32(0)},
		cmp(expr.CmpOpNeq, native32(0)),
	}
}

func state(bits uint32) []expr.Any { return conntrack(expr.CtKeySTATE, bits) }

func redirected() []expr.Any { return conntrack(expr.CtKeySTATUS, ctDNAT) }

func count() []expr.Any { return []expr.Any{&expr.Counter{}} }

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }

func accept() []expr.Any { return verdict(expr.VerdictAccept) }
func drop() []expr.Any   { return verdict(expr.VerdictDrop) }
func back() []expr.Any   { return verdict(expr.VerdictReturn) }

func jump(chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// logged hands the packet to the reader of refusals, with text as its prefix.
func logged(text string) []expr.Any {
	return []expr.Any{&expr.Log{
		Key:   1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN | 1<<unix.NFTA_LOG_QTHRESHOLD,
		Group: logGroup, Snaplen: logSnapLen, QThreshold: 1, Data: []byte(text),
	}}
}

func rejectTCP() []expr.Any {
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
}

func rejectICMP(code byte) []expr.Any {
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: code}}
}

// redirectTo sends a packet to a port of the router's own, on the primary
// address of the link that it came by.
func redirectTo(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: big16(port)},
		// As the kernel gives it back: it fills in the other end of the range and
		// the flag by itself.
		&expr.Redir{RegisterProtoMin: reg, RegisterProtoMax: reg, Flags: natProtoSpecified},
	}
}

// transparentTo gives a packet, unchanged, to the transparent socket at a port.
func transparentTo(v4 bool, port uint16) []expr.Any {
	fam := byte(unix.NFPROTO_IPV6)
	if v4 {
		fam = unix.NFPROTO_IPV4
	}
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: big16(port)},
		&expr.TProxy{Family: fam, RegPort: reg},
	}
}

// toHost has the kernel forward a packet that came for a group of the link.
func toHost() []expr.Any {
	const forThisHost = 0 // PACKET_HOST (linux/if_packet.h)
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: []byte{forThisHost}},
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: reg},
	}
}

// leadTo gives a packet another destination, at the same port.
func leadTo(a netip.Addr) []expr.Any {
	family := uint32(unix.NFPROTO_IPV6)
	if a.Is4() {
		family = unix.NFPROTO_IPV4
	}
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: a.AsSlice()},
		// As the kernel gives it back: it fills in the other end of the range.
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: reg, RegAddrMax: reg},
	}
}
