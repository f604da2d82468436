package boundary

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// FilterState is what the kernel says of the router's packet filter. Two states
// are equal when no rule was changed between them: the generation rises with
// every commit, also with one that was taken back later.
type FilterState struct {
	// Digest is "sha256:" and hex over the router's whole ruleset as the kernel
	// lists it, whoever made it, without what changes by itself (handles, use
	// counts, packet counts). It is the same for the same configuration and
	// kernel, whatever the run.
	Digest     string `json:"digest"`
	Generation uint32 `json:"generation"` // NFTA_GEN_ID, of the namespace
}

// FilterState reads the rules back from the kernel.
func (s *Stage) FilterState() (FilterState, error) {
	var st FilterState
	err := s.open(func() error {
		var err error
		st, err = readFilterState(int(s.router.fd))
		return err
	})
	if err != nil {
		return FilterState{}, fmt.Errorf("read the packet filter back: %w", err)
	}
	return st, nil
}

// Attributes that change by themselves, or that are the kernel's own numbering
// (linux/netfilter/nf_tables.h).
var volatile = map[uint16][]uint16{
	unix.NFT_MSG_NEWTABLE:     {3, 4},        // USE, HANDLE
	unix.NFT_MSG_NEWCHAIN:     {2, 6, 8, 11}, // HANDLE, USE, COUNTERS, ID
	unix.NFT_MSG_NEWRULE:      {3, 6, 9, 10}, // HANDLE, POSITION, ID, POSITION_ID
	unix.NFT_MSG_NEWSET:       {10, 16},      // ID, HANDLE
	unix.NFT_MSG_NEWSETELEM:   {},
	unix.NFT_MSG_NEWOBJ:       {5, 6}, // USE, HANDLE
	unix.NFT_MSG_NEWFLOWTABLE: {4, 5}, // USE, HANDLE
}

const (
	ruleExpressions = 4 // NFTA_RULE_EXPRESSIONS
	setTable        = 1 // NFTA_SET_TABLE
	setName         = 2 // NFTA_SET_NAME
	genID           = 1 // NFTA_GEN_ID
	maxStateTries   = 8
)

// dumps are the listings that make up a ruleset, in the order in which they go
// into the digest.
var dumps = []uint16{
	unix.NFT_MSG_GETTABLE, unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_GETRULE,
	unix.NFT_MSG_GETSET, unix.NFT_MSG_GETOBJ, unix.NFT_MSG_GETFLOWTABLE,
}

// readFilterState lists everything between two readings of the generation, and
// starts again when it changed on the way.
func readFilterState(nsFD int) (FilterState, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: nsFD})
	if err != nil {
		return FilterState{}, fmt.Errorf("open netfilter: %w", err)
	}
	defer conn.Close()
	for range maxStateTries {
		before, err := generation(conn)
		if err != nil {
			return FilterState{}, err
		}
		sum, err := digestRuleset(conn)
		if errors.Is(err, unix.EINTR) { // a listing was interrupted by a change
			continue
		}
		if err != nil {
			return FilterState{}, err
		}
		after, err := generation(conn)
		if err != nil {
			return FilterState{}, err
		}
		if before == after {
			return FilterState{Digest: "sha256:" + hex.EncodeToString(sum), Generation: after}, nil
		}
	}
	return FilterState{}, errors.New("the rules change faster than they can be read")
}

// request sends one nf_tables message for all families.
func request(conn *netlink.Conn, msg uint16, flags netlink.HeaderFlags, attrs []byte) ([]netlink.Message, error) {
	const nfgenmsg = 4 // family (unspecified), version 0, resource id 0
	return conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | msg),
			Flags: netlink.Request | flags,
		},
		Data: append(make([]byte, nfgenmsg), attrs...),
	})
}

func generation(conn *netlink.Conn) (uint32, error) {
	replies, err := request(conn, unix.NFT_MSG_GETGEN, 0, nil)
	if err != nil {
		return 0, fmt.Errorf("read the generation: %w", err)
	}
	for _, m := range replies {
		attrs, err := attributes(m)
		if err != nil {
			return 0, err
		}
		for _, a := range attrs {
			if a.Type == genID && len(a.Data) == 4 {
				return binary.BigEndian.Uint32(a.Data), nil
			}
		}
	}
	return 0, errors.New("read the generation: the kernel gave none")
}

func digestRuleset(conn *netlink.Conn) ([]byte, error) {
	h := sha256.New()
	for _, get := range dumps {
		replies, err := request(conn, get, netlink.Dump, nil)
		if err != nil {
			return nil, fmt.Errorf("list the rules (message %d): %w", get, err)
		}
		for _, m := range replies {
			if err := digestMessage(h, m); err != nil {
				return nil, err
			}
			if get == unix.NFT_MSG_GETSET {
				if err := digestElements(h, conn, m); err != nil {
					return nil, err
				}
			}
		}
	}
	return h.Sum(nil), nil
}

// digestElements adds a set's elements.
func digestElements(h hash.Hash, conn *netlink.Conn, set netlink.Message) error {
	attrs, err := attributes(set)
	if err != nil {
		return err
	}
	var key []netlink.Attribute
	for _, a := range attrs {
		if a.Type == setTable || a.Type == setName { // the same numbers in a list of elements
			key = append(key, netlink.Attribute{Type: a.Type, Data: a.Data})
		}
	}
	b, err := netlink.MarshalAttributes(key)
	if err != nil {
		return err
	}
	const nfgenmsg = 4
	replies, err := conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM),
			Flags: netlink.Request | netlink.Dump,
		},
		Data: append(bytes.Clone(set.Data[:nfgenmsg]), b...),
	})
	if err != nil {
		return fmt.Errorf("list a set's elements: %w", err)
	}
	for _, m := range replies {
		if err := digestMessage(h, m); err != nil {
			return err
		}
	}
	return nil
}

func attributes(m netlink.Message) ([]netlink.Attribute, error) {
	if len(m.Data) < 4 {
		return nil, errors.New("a message of the kernel is cut short")
	}
	attrs, err := netlink.UnmarshalAttributes(m.Data[4:])
	if err != nil {
		return nil, fmt.Errorf("a message of the kernel cannot be read: %w", err)
	}
	return attrs, nil
}

// digestMessage adds one listed thing: its kind, its family and every attribute
// but the volatile ones, each with its length.
func digestMessage(h hash.Hash, m netlink.Message) error {
	attrs, err := attributes(m)
	if err != nil {
		return err
	}
	kind := uint16(m.Header.Type) & 0xff
	skip, known := volatile[kind]
	if !known {
		return fmt.Errorf("the kernel listed something unknown (message %d)", kind)
	}
	var out bytes.Buffer
	for _, a := range attrs {
		if slices.Contains(skip, a.Type) {
			continue
		}
		data := a.Data
		if kind == unix.NFT_MSG_NEWRULE && a.Type == ruleExpressions {
			if data, err = withoutCounts(data); err != nil {
				return err
			}
		}
		put(&out, a.Type, data)
	}
	put(h, kind, append([]byte{m.Data[0]}, out.Bytes()...))
	return nil
}

func put(w io.Writer, kind uint16, data []byte) {
	head := binary.BigEndian.AppendUint16(nil, kind)
	head = binary.BigEndian.AppendUint32(head, uint32(len(data)))
	_, _ = w.Write(head)
	_, _ = w.Write(data)
}

// withoutCounts rewrites a rule's list of expressions without the numbers in its
// counters.
func withoutCounts(list []byte) ([]byte, error) {
	const elemName, elemData = 1, 2 // NFTA_EXPR_NAME, NFTA_EXPR_DATA
	elems, err := netlink.UnmarshalAttributes(list)
	if err != nil {
		return nil, fmt.Errorf("a rule cannot be read: %w", err)
	}
	var out bytes.Buffer
	for _, e := range elems {
		parts, err := netlink.UnmarshalAttributes(e.Data)
		if err != nil {
			return nil, fmt.Errorf("an expression cannot be read: %w", err)
		}
		counter := false
		for _, p := range parts {
			if p.Type == elemName {
				counter = string(bytes.TrimRight(p.Data, "\x00")) == "counter"
			}
			if p.Type == elemData && counter {
				continue
			}
			put(&out, p.Type, p.Data)
		}
	}
	return out.Bytes(), nil
}
