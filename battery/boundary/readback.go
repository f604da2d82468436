package boundary

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ErrNotInPlace: the packet filter is not what was meant, or does not do what
// it should. Nothing untrusted may be started.
var ErrNotInPlace = errors.New("the boundary is not in place")

// compareWithKernel checks that the kernel has exactly the ruleset: the one
// table, these chains at these hooks, these rules in this order, and no other.
func (rs *ruleset) compareWithKernel(nsFD int) error {
	conn, err := nftables.New(nftables.WithNetNSFd(nsFD))
	if err != nil {
		return err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	if len(tables) != 1 || tables[0].Name != tableName || tables[0].Family != nftables.TableFamilyINet {
		return fmt.Errorf("%w: %d tables where only inet %s should be", ErrNotInPlace, len(tables), tableName)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	if len(chains) != len(rs.chains) {
		return fmt.Errorf("%w: %d chains, not %d", ErrNotInPlace, len(chains), len(rs.chains))
	}
	for i, want := range rs.chains {
		if err := want.compareHook(chains[i]); err != nil {
			return err
		}
	}
	found := make(map[string][]*nftables.Rule)
	if err := eachRule(nsFD, func(c, _ string, r *nftables.Rule) { found[c] = append(found[c], r) }); err != nil {
		return err
	}
	for _, want := range rs.chains {
		if err := want.compareRules(found[want.name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) compareHook(got *nftables.Chain) error {
	if got.Name != c.name {
		return fmt.Errorf("%w: chain %s where %s should be", ErrNotInPlace, got.Name, c.name)
	}
	if c.hook == nil {
		if got.Hooknum != nil {
			return fmt.Errorf("%w: chain %s has a hook", ErrNotInPlace, c.name)
		}
		return nil
	}
	if got.Hooknum == nil || got.Priority == nil || got.Policy == nil ||
		*got.Hooknum != *c.hook.point || *got.Priority != *c.hook.priority || *got.Policy != c.hook.policy || got.Type != c.hook.typ {
		return fmt.Errorf("%w: chain %s has another hook, priority, type or policy", ErrNotInPlace, c.name)
	}
	return nil
}

func (c *chain) compareRules(got []*nftables.Rule) error {
	if len(got) != len(c.rules) {
		return fmt.Errorf("%w: chain %s has %d rules, not %d", ErrNotInPlace, c.name, len(got), len(c.rules))
	}
	for i, want := range c.rules {
		same, err := sameExprs(want.exprs, got[i].Exprs)
		if err != nil {
			return fmt.Errorf("compare rule %s of chain %s: %w", want.id, c.name, err)
		}
		if !same || !bytes.Equal(want.comment(), got[i].UserData) {
			return fmt.Errorf("%w: rule %s of chain %s is another one", ErrNotInPlace, want.id, c.name)
		}
	}
	return nil
}

// sameExprs compares two lists of expressions by their wire form, without counts.
func sameExprs(a, b []expr.Any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		x, err := wireForm(a[i])
		if err != nil {
			return false, err
		}
		y, err := wireForm(b[i])
		if err != nil {
			return false, err
		}
		if !bytes.Equal(x, y) {
			return false, nil
		}
	}
	return true, nil
}

func wireForm(e expr.Any) ([]byte, error) {
	if _, ok := e.(*expr.Counter); ok {
		e = &expr.Counter{}
	}
	return expr.Marshal(byte(nftables.TableFamilyINet), e)
}
