package boundary

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Opening is what one rule in force lets a box send, other than to its gateway.
// An intact boundary has none.
type Opening struct {
	Rule        string       // "CHAIN/RULE"
	Proto       byte         // IP protocol; 0 is any
	To          netip.Prefix // destinations; invalid is any of V6's family
	V6          bool         // of an invalid To
	First, Last uint16       // destination ports; 0 is any
}

// MaxOpenings bounds how many are told.
const MaxOpenings = 64

// Openings reads the filter in force, not what was meant, and lists what it lets
// through: so that what somebody opened can be tried, wherever it leads.
func (s *Stage) Openings(box string) ([]Opening, error) {
	b, ok := s.Box(box)
	if !ok {
		return nil, fmt.Errorf("read the openings: there is no box %q", box)
	}
	var out []Opening
	err := s.open(func() error {
		return eachRule(int(s.router.fd), func(chainName, id string, r *nftables.Rule) {
			if !slices.Contains([]string{"box-" + box, "forward", "verdict", "guard"}, chainName) || len(out) >= MaxOpenings {
				return
			}
			if o, ok := openingOf(r.Exprs, b); ok && !slices.Contains(b.gateways(), o.To.Addr()) {
				o.Rule = chainName + "/" + id
				out = append(out, o)
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the openings: %w", err)
	}
	return out, nil
}

// openingOf reads a rule as an opening: an accept whose conditions are all about
// where the packet goes. Whatever depends on something else, as on being an
// answer, is none.
func openingOf(list []expr.Any, b Box) (Opening, bool) {
	var o Opening
	if len(list) == 0 {
		return o, false
	}
	if v, ok := list[len(list)-1].(*expr.Verdict); !ok || v.Kind != expr.VerdictAccept {
		return o, false
	}
	family := byte(0)
	for i := 0; i < len(list)-1; i++ {
		switch e := list[i].(type) {
		case *expr.Counter:
		case *expr.Meta:
			c, ok := list[i+1].(*expr.Cmp)
			if !ok || c.Op != expr.CmpOpEq {
				return o, false
			}
			i++
			switch e.Key {
			case expr.MetaKeyNFPROTO:
				family = c.Data[0]
			case expr.MetaKeyL4PROTO:
				o.Proto = c.Data[0]
			case expr.MetaKeyIIFNAME:
				if strings.TrimRight(string(c.Data), "\x00") != b.link {
					return o, false
				}
			default:
				return o, false
			}
		case *expr.Payload:
			n, ok := o.payload(e, list[i+1:])
			if !ok {
				return o, false
			}
			i += n
		default:
			return o, false
		}
	}
	o.V6 = family == unix.NFPROTO_IPV6 || o.To.IsValid() && o.To.Addr().Is6()
	return o, true
}

// payload reads the condition on one part of a packet, and says how many
// expressions it takes.
func (o *Opening) payload(p *expr.Payload, rest []expr.Any) (int, bool) {
	switch {
	case p.Base == expr.PayloadBaseTransportHeader && p.Offset == 2 && p.Len == 2:
		return o.ports(rest)
	case p.Base == expr.PayloadBaseNetworkHeader && (p.Offset == 16 && p.Len == 4 || p.Offset == 24 && p.Len == 16):
		return o.destination(rest, int(p.Len))
	}
	return 0, false
}

func (o *Opening) ports(rest []expr.Any) (n int, ok bool) {
	for _, e := range rest {
		c, is := e.(*expr.Cmp)
		if !is || len(c.Data) != 2 {
			break
		}
		port := binary.BigEndian.Uint16(c.Data)
		switch c.Op {
		case expr.CmpOpEq:
			o.First, o.Last = port, port
		case expr.CmpOpGte:
			o.First = port
		case expr.CmpOpLte:
			o.Last = port
		default:
			return n, false
		}
		n++
	}
	return n, n > 0
}

func (o *Opening) destination(rest []expr.Any, size int) (n int, ok bool) {
	bits := size * 8
	if m, is := rest[0].(*expr.Bitwise); is {
		bits = 0
		for _, b := range m.Mask {
			for ; b&0x80 != 0; b <<= 1 {
				bits++
			}
		}
		n++
	}
	if n >= len(rest) {
		return n, false
	}
	c, is := rest[n].(*expr.Cmp)
	if !is || c.Op != expr.CmpOpEq {
		return n, false
	}
	a, valid := netip.AddrFromSlice(c.Data)
	if !valid {
		return n, false
	}
	o.To = netip.PrefixFrom(a, bits)
	return n + 1, true
}
