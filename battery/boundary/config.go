package boundary

import (
	"errors"
	"fmt"
	"slices"
)

// Mode says what the router does with a box's packets.
type Mode string

// The modes.
const (
	// Enforced: the attack, and exec. Nothing passes but the path to the proxy and
	// the resolver; everything else is rejected at once and logged.
	Enforced Mode = "enforced"
	// Open: the control. Everything is forwarded between boxes and to the world.
	Open Mode = "open"
)

// Uplink says where the router leads.
type Uplink string

// The uplinks.
const (
	// World: to a namespace that answers on every address, and on to nothing else.
	World Uplink = "world"
	// None: nowhere. The proxy that serves the router's sockets lives elsewhere.
	None Uplink = "none"
)

// Ports on each gateway address. Those of the open mode are the witness's.
const (
	PortProxy       = 3128  // tcp: HTTP absolute form and CONNECT
	PortSOCKS       = 1080  // tcp: SOCKS5, only with Config.SOCKS
	PortDNS         = 53    // udp and tcp
	PortTransparent = 15001 // tcp: where 80 and 443 are redirected to; enforced mode only
)

// PortAny is the port of the world's catch-all sockets, TCP and UDP.
const PortAny = 1

// Bounds on a configuration.
const (
	MaxBoxes    = 16
	MaxServices = 64
)

// Service is a port of the world that has a socket of its own, in both families,
// and is not led to the catch-all one.
type Service struct {
	Proto string // "tcp" or "udp"
	Port  uint16 // not 0 and not PortAny
}

func (s Service) name() string { return fmt.Sprintf("%s-%d", s.Proto, s.Port) }

// Peer lets boxes begin a conversation with another one, over TCP at some ports
// and in no other way. The other one, a service of the run, has no proxy and no
// resolver: it answers, and begins nothing.
type Peer struct {
	Service string
	From    []string
	Ports   []uint16
}

// Config says what to build. The zero value of Hooks breaks nothing.
type Config struct {
	Run    string   // 8 hex characters, lower case
	Phase  string   // "c" control, "a" attack, "x" exec
	Boxes  []string // one a sandbox, [a-z0-9]{1,12}, distinct, not "router" or "world"; at least one
	Mode   Mode
	Uplink Uplink
	// ProxyUID is the one user whose sockets may send from the router to the world
	// in the enforced mode. Never 0 with Enforced and World.
	ProxyUID uint32
	// SOCKS opens PortSOCKS on each gateway.
	SOCKS bool
	// ProxyOnly leaves the boxes an explicit proxy and nothing else: no redirect and
	// no resolver. It is somebody else's, and makes its own socket at PortProxy.
	// Enforced mode only.
	ProxyOnly bool
	// Selective lets a box's packets to public addresses go out as they are, unread
	// by the proxy; what is sent to the gateway's own ports 80 and 443, because a
	// hosts file says so, is led to it. Special addresses and other boxes stay
	// closed. Enforced mode with the uplink World only.
	Selective bool
	// Services are the ports of the world with sockets of their own.
	Services []Service
	// Peers are the run's own services; enforced mode only.
	Peers []Peer
	// Hooks are the seeded breaks; empty in a release build.
	Hooks Hooks
}

// ErrConfig is what a configuration that cannot be built is refused with.
var ErrConfig = errors.New("boundary configuration is not valid")

func (c *Config) check() error {
	switch {
	case !validRun(c.Run):
		return fmt.Errorf("%w: run %q is not 8 lower-case hex characters", ErrConfig, c.Run)
	case c.Phase != "c" && c.Phase != "a" && c.Phase != "x":
		return fmt.Errorf("%w: phase %q is not c, a or x", ErrConfig, c.Phase)
	case c.Mode != Enforced && c.Mode != Open:
		return fmt.Errorf("%w: mode %q is not enforced or open", ErrConfig, c.Mode)
	case c.Uplink != World && c.Uplink != None:
		return fmt.Errorf("%w: uplink %q is not world or none", ErrConfig, c.Uplink)
	case c.Mode == Open && c.Uplink == None:
		return fmt.Errorf("%w: the open mode needs a world to be open to", ErrConfig)
	case c.Mode == Enforced && c.Uplink == World && c.ProxyUID == 0:
		return fmt.Errorf("%w: the proxy's uid is not set", ErrConfig)
	case c.ProxyOnly && (c.Mode != Enforced || c.SOCKS):
		return fmt.Errorf("%w: nothing but a proxy, and the open mode or SOCKS besides", ErrConfig)
	case c.Selective && (c.Mode != Enforced || c.Uplink != World):
		return fmt.Errorf("%w: selective routing needs the enforced mode and a world", ErrConfig)
	}
	return errors.Join(checkBoxes(c.Boxes), checkServices(c.Services), c.checkPeers(), c.Hooks.check(c))
}

func checkBoxes(boxes []string) error {
	if len(boxes) == 0 || len(boxes) > MaxBoxes {
		return fmt.Errorf("%w: %d boxes, not 1 to %d", ErrConfig, len(boxes), MaxBoxes)
	}
	for i, b := range boxes {
		switch {
		case !validBox(b):
			return fmt.Errorf("%w: box name %q is not [a-z0-9]{1,12}", ErrConfig, b)
		case b == routerName || b == worldName:
			return fmt.Errorf("%w: box name %q is taken", ErrConfig, b)
		case slices.Contains(boxes[:i], b):
			return fmt.Errorf("%w: two boxes are called %q", ErrConfig, b)
		}
	}
	return nil
}

func checkServices(services []Service) error {
	if len(services) > MaxServices {
		return fmt.Errorf("%w: %d services are more than %d", ErrConfig, len(services), MaxServices)
	}
	for i, s := range services {
		if s.Proto != "tcp" && s.Proto != "udp" || s.Port == 0 || s.Port == PortAny {
			return fmt.Errorf("%w: service %s/%d", ErrConfig, s.Proto, s.Port)
		}
		if slices.Contains(services[:i], s) {
			return fmt.Errorf("%w: service %s/%d is listed twice", ErrConfig, s.Proto, s.Port)
		}
	}
	return nil
}

func (c *Config) checkPeers() error {
	if len(c.Peers) > 0 && c.Mode != Enforced {
		return fmt.Errorf("%w: peers in the open mode, where everybody reaches everybody", ErrConfig)
	}
	for i, p := range c.Peers {
		if slices.ContainsFunc(c.Peers[:i], func(o Peer) bool { return o.Service == p.Service }) {
			return fmt.Errorf("%w: the service %q is listed twice", ErrConfig, p.Service)
		}
		for _, name := range append([]string{p.Service}, p.From...) {
			if !slices.Contains(c.Boxes, name) {
				return fmt.Errorf("%w: peer %q is no box", ErrConfig, name)
			}
		}
		if slices.ContainsFunc(p.From, c.isService) {
			return fmt.Errorf("%w: the service %q is to be reached by a service, which begins nothing", ErrConfig, p.Service)
		}
		if len(p.From) == 0 || len(p.Ports) == 0 || slices.Contains(p.Ports, 0) {
			return fmt.Errorf("%w: the service %q has nobody to reach it, or no port", ErrConfig, p.Service)
		}
	}
	return nil
}

// isService tells whether a box is one that only answers.
func (c *Config) isService(box string) bool {
	return slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.Service == box })
}

// forwarding is whether the router forwards: all in the open mode, IPv4 where
// there are services, all with selective routing, and what a seeded break adds.
// What it forwards is the filter's to say.
func (c *Config) forwarding() (v4, v6 bool) {
	v4, v6 = c.Hooks.forwarding(c.Mode == Open || c.Selective)
	return v4 || len(c.Peers) > 0, v6
}

func validRun(s string) bool {
	if len(s) != 8 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func validBox(s string) bool {
	if len(s) == 0 || len(s) > 12 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
