package boundary

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestConfigIsChecked(t *testing.T) {
	valid := func() Config {
		return Config{Run: "0123abcd", Phase: "a", Boxes: []string{"a"}, Mode: Enforced, Uplink: World, ProxyUID: 65534}
	}
	cfg := valid()
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	many := make([]string, MaxBoxes+1)
	for i := range many {
		many[i] = fmt.Sprintf("box%d", i)
	}
	services := make([]Service, MaxServices+1)
	for i := range services {
		services[i] = Service{"tcp", uint16(i + 2)}
	}
	tests := map[string]func(*Config){
		"no run":                  func(c *Config) { c.Run = "" },
		"run in upper case":       func(c *Config) { c.Run = "0123ABCD" },
		"run with a slash":        func(c *Config) { c.Run = "../../ab" },
		"phase":                   func(c *Config) { c.Phase = "b" },
		"mode":                    func(c *Config) { c.Mode = "" },
		"uplink":                  func(c *Config) { c.Uplink = "host" },
		"open to nowhere":         func(c *Config) { c.Mode, c.Uplink = Open, None },
		"proxy as root":           func(c *Config) { c.ProxyUID = 0 },
		"no box":                  func(c *Config) { c.Boxes = nil },
		"too many boxes":          func(c *Config) { c.Boxes = many },
		"box twice":               func(c *Config) { c.Boxes = []string{"a", "a"} },
		"box called router":       func(c *Config) { c.Boxes = []string{"router"} },
		"box called world":        func(c *Config) { c.Boxes = []string{"world"} },
		"box with a dash":         func(c *Config) { c.Boxes = []string{"a-b"} },
		"long box":                func(c *Config) { c.Boxes = []string{"abcdefghijklm"} },
		"service protocol":        func(c *Config) { c.Services = []Service{{"sctp", 80}} },
		"service port":            func(c *Config) { c.Services = []Service{{"tcp", 0}} },
		"catch-all port":          func(c *Config) { c.Services = []Service{{"tcp", PortAny}} },
		"service twice":           func(c *Config) { c.Services = []Service{{"tcp", 80}, {"tcp", 80}} },
		"only a proxy, open":      func(c *Config) { c.Mode, c.ProxyOnly = Open, true },
		"only a proxy, and SOCKS": func(c *Config) { c.ProxyOnly, c.SOCKS = true, true },
		"too many services":       func(c *Config) { c.Services = services },
	}
	for name, edit := range tests {
		cfg := valid()
		edit(&cfg)
		if err := cfg.check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The layout is a contract with the sandbox drivers, the proxy and the witness.
func TestLayout(t *testing.T) {
	cfg := Config{Run: "0123abcd", Phase: "a", Boxes: []string{"one", "two"}}
	b := newBox(&cfg, 1, true)
	for got, want := range map[string]string{
		b.NetNSPath: "/run/netns/wallproof-0123abcd-a-two",
		b.IPv4.String() + " " + b.Gateway4.String(): "192.0.2.6 192.0.2.5",
		b.IPv6.String() + " " + b.Gateway6.String(): "2001:db8:0:1::2 2001:db8:0:1::1",
		b.prefix4.Masked().String():                 "192.0.2.4/30",
		b.prefix6.Masked().String():                 "2001:db8:0:1::/64",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	seen := make(map[netip.Prefix]bool)
	for i := range MaxBoxes {
		cfg.Boxes = make([]string, MaxBoxes)
		b := newBox(&cfg, i, true)
		for _, p := range []netip.Prefix{b.prefix4.Masked(), b.prefix6.Masked()} {
			if seen[p] || p.Overlaps(routerUplink4) || p.Overlaps(routerUplink6) {
				t.Errorf("box %d: %s is taken", i, p)
			}
			seen[p] = true
		}
	}
}

// With somebody else's proxy a box may speak to it and to nothing else: nothing is
// led anywhere, and no other port of the gateway is open.
func TestProxyOnly(t *testing.T) {
	cfg := Config{Run: "0123abcd", Phase: "a", Boxes: []string{"a", "b"}, Mode: Enforced, Uplink: World, ProxyUID: 65534, ProxyOnly: true}
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	boxes := []Box{newBox(&cfg, 0, true), newBox(&cfg, 1, true)}
	accepts := map[string]int{}
	for _, c := range routerRules(&cfg, boxes).chains {
		if c.name == "redirect" && len(c.rules) > 0 {
			t.Errorf("something is redirected: %v", c.rules)
		}
		for _, r := range c.rules {
			if o, ok := openingOf(r.exprs, boxes[0]); ok && c.name == "box-a" && o.Proto != 0 {
				accepts[r.id] = int(o.First)
			}
		}
	}
	if len(accepts) != 2 || accepts["proxy-4"] != PortProxy || accepts["proxy-6"] != PortProxy {
		t.Errorf("the box may open %v", accepts)
	}
	s := &Stage{cfg: cfg}
	if _, err := s.Listeners(); !errors.Is(err, ErrConfig) {
		t.Errorf("sockets are made for a proxy that makes its own: %v", err)
	}
}
