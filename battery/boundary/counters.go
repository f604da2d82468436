package boundary

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// Counter is what a rule has matched so far.
type Counter struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Counters reads the router's counters, by "CHAIN/RULE", for example
// "box-a/deny-tcp": what box a was refused; "redirect-a/https": connections led
// to the proxy.
func (s *Stage) Counters() (map[string]Counter, error) {
	counters := make(map[string]Counter)
	err := s.open(func() error {
		return eachRule(int(s.router.fd), func(chainName, id string, r *nftables.Rule) {
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok {
					counters[chainName+"/"+id] = Counter{Packets: c.Packets, Bytes: c.Bytes}
				}
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	return counters, nil
}

// eachRule reads our table back and calls fn for each rule in order.
func eachRule(nsFD int, fn func(chainName, id string, r *nftables.Rule)) error {
	conn, err := nftables.New(nftables.WithNetNSFd(nsFD))
	if err != nil {
		return err
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return fmt.Errorf("list rules of %s: %w", c.Name, err)
		}
		for _, r := range rules {
			id, _ := userdata.GetString(r.UserData, userdata.TypeComment)
			fn(c.Name, id, r)
		}
	}
	return nil
}
