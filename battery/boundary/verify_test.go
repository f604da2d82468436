package boundary

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/wallproof/wallproof/internal/procs"
)

func TestVerifyInPlace(t *testing.T) {
	none := enforcedConfig()
	none.Uplink, none.Phase, none.SOCKS = None, "x", true
	for name, cfg := range map[string]Config{"enforced": enforcedConfig(), "no uplink": none, "open": openConfig()} {
		t.Run(name, func(t *testing.T) {
			s := buildStage(t, cfg)
			v, err := s.VerifyInPlace(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := map[Mode]int{Enforced: 2 + 2*4, Open: 2 + 2*2}[cfg.Mode]
			if len(v.Checks) != want {
				t.Errorf("checks: %q, want %d", v.Checks, want)
			}
			st, err := s.FilterState()
			if err != nil || st != v.Filter {
				t.Errorf("filter state %+v (%v), verified %+v", st, err, v.Filter)
			}
			// The check's own attempts are not reported as anybody's.
			if stats, err := s.DenialStats(); err != nil || stats != (DenialStats{}) {
				t.Errorf("records: %+v, %v", stats, err)
			}
		})
	}
}

// router changes the router's rules behind the stage's back.
func router(t *testing.T, s *Stage, change func(*nftables.Conn, *nftables.Table)) {
	t.Helper()
	conn, err := nftables.New(nftables.WithNetNSFd(int(s.router.fd)))
	if err != nil {
		t.Fatal(err)
	}
	change(conn, &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

func rulesOf(t *testing.T, conn *nftables.Conn, table *nftables.Table, chain string) []*nftables.Rule {
	t.Helper()
	rules, err := conn.GetRules(table, &nftables.Chain{Name: chain, Table: table})
	if err != nil || len(rules) == 0 {
		t.Fatalf("rules of %s: %v", chain, err)
	}
	return rules
}

// Every change of the filter is seen: by the digest, by the generation, and by
// VerifyInPlace.
func TestChangesAreSeen(t *testing.T) {
	acceptAll := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	tests := []struct {
		name   string
		change func(*testing.T, *nftables.Conn, *nftables.Table)
	}{
		{"rule added at the end", func(_ *testing.T, c *nftables.Conn, tb *nftables.Table) {
			c.AddRule(&nftables.Rule{Table: tb, Chain: &nftables.Chain{Name: "forward"}, Exprs: acceptAll})
		}},
		{"rule inserted", func(_ *testing.T, c *nftables.Conn, tb *nftables.Table) {
			c.InsertRule(&nftables.Rule{Table: tb, Chain: &nftables.Chain{Name: "box-a"}, Exprs: acceptAll})
		}},
		{"rule deleted", func(t *testing.T, c *nftables.Conn, tb *nftables.Table) {
			if err := c.DelRule(rulesOf(t, c, tb, "box-a")[0]); err != nil {
				t.Fatal(err)
			}
		}},
		{"rule replaced", func(t *testing.T, c *nftables.Conn, tb *nftables.Table) {
			r := rulesOf(t, c, tb, "guard")[0]
			r.Table, r.Chain, r.Exprs = tb, &nftables.Chain{Name: "guard", Table: tb}, acceptAll
			c.ReplaceRule(r)
		}},
		{"policy", func(_ *testing.T, c *nftables.Conn, tb *nftables.Table) {
			policy := nftables.ChainPolicyAccept
			c.AddChain(&nftables.Chain{
				Name: "forward", Table: tb, Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &policy,
			})
		}},
		{"chain added", func(_ *testing.T, c *nftables.Conn, tb *nftables.Table) {
			c.AddChain(&nftables.Chain{Name: "more", Table: tb})
		}},
		{"another table", func(_ *testing.T, c *nftables.Conn, _ *nftables.Table) {
			c.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyIPv4})
		}},
		{"table deleted", func(_ *testing.T, c *nftables.Conn, tb *nftables.Table) { c.DelTable(tb) }},
	}
	s := buildStage(t, enforcedConfig())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, err := s.FilterState()
			if err != nil {
				t.Fatal(err)
			}
			router(t, s, func(c *nftables.Conn, tb *nftables.Table) { tt.change(t, c, tb) })
			after, err := s.FilterState()
			if err != nil {
				t.Fatal(err)
			}
			if after.Digest == before.Digest || after.Generation == before.Generation {
				t.Errorf("state %+v, was %+v", after, before)
			}
			if _, err := s.VerifyInPlace(t.Context()); !errors.Is(err, ErrNotInPlace) {
				t.Errorf("verification: %v", err)
			}
			// Back to what it was: the digest is the old one, the generation tells.
			router(t, s, func(c *nftables.Conn, _ *nftables.Table) { c.FlushRuleset() })
			if err := s.rules.load(int(s.router.fd)); err != nil {
				t.Fatal(err)
			}
			again, err := s.FilterState()
			if err != nil || again.Digest != before.Digest || again.Generation <= after.Generation {
				t.Errorf("state after restoring: %+v (%v), before %+v", again, err, before)
			}
		})
	}
	if _, err := s.VerifyInPlace(t.Context()); err != nil {
		t.Errorf("restored: %v", err)
	}
}

func TestDigestIsThatOfTheConfiguration(t *testing.T) {
	digest := func(cfg Config) string {
		t.Helper()
		s := buildStage(t, cfg)
		if _, _, err := exchange(box(t, s, "a").NetNSPath, "tcp", "10.0.0.1:22", ""); err == nil {
			t.Fatal("reached 10.0.0.1") // and has moved a counter
		}
		st, err := s.FilterState()
		if err != nil || !strings.HasPrefix(st.Digest, "sha256:") || len(st.Digest) != 71 {
			t.Fatalf("state %+v, %v", st, err)
		}
		return st.Digest
	}
	first := digest(enforcedConfig())
	if again := digest(enforcedConfig()); again != first {
		t.Errorf("two runs of one configuration: %s and %s", first, again)
	}
	other := enforcedConfig()
	other.ProxyUID++
	if d := digest(other); d == first {
		t.Error("another uid has the same digest")
	}
}

// The live check finds what a comparison of rules cannot.
func TestVerifySeesBehaviour(t *testing.T) {
	t.Run("forwarding", func(t *testing.T) {
		s := buildStage(t, enforcedConfig())
		if err := setSysctls(s.router, []sysctl{{key: "ipv6/conf/all/forwarding", value: "1"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.VerifyInPlace(t.Context()); !errors.Is(err, ErrNotInPlace) {
			t.Error(err)
		}
	})
	t.Run("dead link", func(t *testing.T) {
		s := buildStage(t, openConfig())
		if err := s.gateEnd[1].down(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), verifyDeadline/10)
		defer cancel()
		if _, err := s.VerifyInPlace(ctx); !errors.Is(err, ErrNotInPlace) {
			t.Error(err)
		}
	})
	t.Run("log of refusals gone", func(t *testing.T) {
		s := buildStage(t, enforcedConfig())
		s.denials.cancel()
		_ = s.denials.log.Close()
		ctx, cancel := context.WithTimeout(t.Context(), verifyDeadline/10)
		defer cancel()
		if _, err := s.VerifyInPlace(ctx); !errors.Is(err, ErrNotInPlace) {
			t.Error(err)
		}
	})
	t.Run("filter bypassed", func(t *testing.T) {
		s := buildStage(t, enforcedConfig())
		s.rules = &ruleset{} // as if nothing had been meant
		router(t, s, func(c *nftables.Conn, _ *nftables.Table) { c.FlushRuleset() })
		err := setSysctls(s.router, forwarding(true, true, true))
		if err != nil {
			t.Fatal(err)
		}
		var v Verification
		if err := s.verifyBox(t.Context(), 0, &v); !errors.Is(err, ErrNotInPlace) {
			t.Error(err)
		}
	})
}

// A sandbox takes the addresses over; the next one needs them again.
func TestResetBox(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	e := s.boxEnd[0]
	link, err := e.ns.nl.LinkByName(e.name)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := e.ns.nl.AddrList(link, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if err := e.ns.nl.AddrDel(link, &a); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.down(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // harmless when nothing is missing
		if err := s.ResetBox("a"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.VerifyInPlace(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ResetBox("c"); !errors.Is(err, ErrConfig) {
		t.Errorf("a box that is not there: %v", err)
	}
}

func TestCounters(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a := box(t, s, "a")
	before, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, _, _ = exchange(a.NetNSPath, "udp", "10.0.0.1:99", "x")
	}
	after, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if got := after["box-a/deny-udp"].Packets - before["box-a/deny-udp"].Packets; got != 3 {
		t.Errorf("%d packets counted, not 3", got)
	}
	if after["box-b/deny-udp"] != before["box-b/deny-udp"] {
		t.Error("the neighbour's counter moved")
	}
}

// A kernel without IPv6: the boundary says so and holds all the same.
func TestWithoutIPv6(t *testing.T) {
	for name, cfg := range map[string]Config{"enforced": enforcedConfig(), "open": openConfig()} {
		t.Run(name, func(t *testing.T) {
			claim(t, cfg.Run)
			s, err := build(t.Context(), cfg, "there is none")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			if has, why := s.IPv6(); has || why != "there is none" {
				t.Errorf("IPv6: %v, %q", has, why)
			}
			if b := box(t, s, "a"); b.IPv6.IsValid() || b.Gateway6.IsValid() {
				t.Errorf("box %+v", b)
			}
			if _, err := s.VerifyInPlace(t.Context()); err != nil {
				t.Error(err)
			}
			if _, _, err := exchange(box(t, s, "a").NetNSPath, "udp", "[fd00::1]:9", "x"); err == nil || isTimeout(err) {
				t.Errorf("a way out over IPv6: %v", err)
			}
			files, err := s.Listeners()
			if err != nil {
				t.Fatal(err)
			}
			closeFiles(files)
			if files, err = s.WorldListeners(); err != nil {
				t.Fatal(err)
			}
			closeFiles(files)
		})
	}
}

// Which kernel settings are there is read from the machine, so the other case is
// shown on a namespace that really lacks them.
func TestOptionalSysctls(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	if err := setSysctls(s.router, []sysctl{{key: "ipv4/there_is_none", value: "1", optional: true}}); err != nil {
		t.Error(err)
	}
	if err := setSysctls(s.router, []sysctl{{key: "ipv4/there_is_none", value: "1"}}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	var thread string
	err := procs.DoIn(s.RouterNS(), func() error {
		b, err := os.ReadFile(procNet + "ipv4/icmp_ratemask")
		thread = string(trimNewline(b))
		return err
	})
	if err != nil || thread != "0" {
		t.Errorf("icmp_ratemask is %q (%v)", thread, err)
	}
}
