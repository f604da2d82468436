package boundary

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
)

const tableName = "wallproof"

// A ruleset is one namespace's packet filter as data: what is loaded, and what
// is expected to be found when it is read back.
type ruleset struct {
	chains []*chain
}

type chain struct {
	name  string
	hook  *hook // nil for a chain that is only jumped to
	rules []rule
}

// hook is where a base chain is attached.
type hook struct {
	typ      nftables.ChainType
	point    *nftables.ChainHook
	priority *nftables.ChainPriority
	policy   nftables.ChainPolicy
}

// rule is one line. Its id, kept in the kernel as the rule's comment, names it
// in counters and error messages; it is unique in its chain.
type rule struct {
	id    string
	exprs []expr.Any
}

func (rs *ruleset) add(name string, h *hook) *chain {
	c := &chain{name: name, hook: h}
	rs.chains = append(rs.chains, c)
	return c
}

func (c *chain) add(id string, parts ...[]expr.Any) {
	c.rules = append(c.rules, rule{id: id, exprs: join(parts...)})
}

// load puts the whole ruleset in place in one transaction: all of it or nothing.
func (rs *ruleset) load(nsFD int) error {
	return rs.loadAfter(nsFD, func(*nftables.Conn) {})
}

// loadAfter is load with something before it in the same transaction.
func (rs *ruleset) loadAfter(nsFD int, first func(*nftables.Conn)) error {
	conn, err := nftables.New(nftables.WithNetNSFd(nsFD), nftables.WithSockOptions(roomForAcks))
	if err != nil {
		return fmt.Errorf("open netfilter: %w", err)
	}
	first(conn)
	table := conn.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	added := make(map[string]*nftables.Chain)
	for _, c := range rs.chains {
		added[c.name] = conn.AddChain(c.kernel(table))
	}
	for _, c := range rs.chains {
		for _, r := range c.rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: added[c.name], Exprs: r.exprs, UserData: r.comment()})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("load packet filter (the kernel must have nf_tables with ct, nat, redir, reject, log and tproxy): %w", err)
	}
	return nil
}

// roomForAcks sizes the socket for what the kernel answers to one transaction:
// an echo and an acknowledgement for every rule, all at once.
func roomForAcks(c *netlink.Conn) error {
	const bytes = 8 << 20
	return errors.Join(c.SetReadBuffer(bytes), c.SetWriteBuffer(bytes))
}

func (r rule) comment() []byte {
	return userdata.AppendString(nil, userdata.TypeComment, r.id)
}

func (c *chain) kernel(table *nftables.Table) *nftables.Chain {
	k := &nftables.Chain{Name: c.name, Table: table}
	if c.hook != nil {
		policy := c.hook.policy
		k.Type, k.Hooknum, k.Priority, k.Policy = c.hook.typ, c.hook.point, c.hook.priority, &policy
	}
	return k
}
