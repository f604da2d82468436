package boundary

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// Stage is one phase's namespaces. Its methods are safe for concurrent use.
type Stage struct {
	cfg     Config
	noIPv6  string // why there is no IPv6, "" when there is
	router  *namespace
	world   *namespace // nil without uplink
	boxNS   []*namespace
	boxes   []Box
	boxEnd  []end // the box's side of each link
	gateEnd []end // the router's side
	rules   *ruleset
	denials *reader

	closing sync.Mutex
	closed  bool
	stop    context.CancelFunc // ends what hooks have started
	life    context.Context
	hasten  context.CancelFunc // has it come at once
	over    context.Context
	pending sync.WaitGroup
}

// Build makes the namespaces, links, addresses and rules, and starts the reader
// of refusals. The rules are in force before any link is up. On an error nothing
// is left behind. It takes root.
func Build(ctx context.Context, cfg Config) (*Stage, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return build(ctx, cfg, ipv6Missing())
}

func build(ctx context.Context, cfg Config, noIPv6 string) (*Stage, error) {
	s := &Stage{cfg: cfg, noIPv6: noIPv6}
	s.life, s.stop = context.WithCancel(context.Background())
	s.over, s.hasten = context.WithCancel(s.life)
	for _, step := range []func() error{
		s.makeNamespaces, s.settle, s.filter, s.makeLinks, s.settleLinks, s.startLinks, s.startReader,
		func() error { return cfg.Hooks.built(s) },
	} {
		err := ctx.Err()
		if err == nil {
			err = step()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("build the boundary of run %s, phase %s: %w", cfg.Run, cfg.Phase, err), s.Close())
		}
	}
	return s, nil
}

func (s *Stage) makeNamespaces() (err error) {
	name := func(part string) string { return nsName(s.cfg.Run, s.cfg.Phase, part) }
	if s.router, err = newNamespace(name(routerName)); err != nil {
		return err
	}
	if s.cfg.Uplink == World {
		if s.world, err = newNamespace(name(worldName)); err != nil {
			return err
		}
	}
	for i := range s.cfg.Boxes {
		b := newBox(&s.cfg, i, s.noIPv6 == "")
		ns, err := newNamespace(name(b.Name))
		if err != nil {
			return err
		}
		s.boxes, s.boxNS = append(s.boxes, b), append(s.boxNS, ns)
	}
	return nil
}

// settle writes the kernel's settings, before there is a link that they could
// come too late for.
func (s *Stage) settle() error {
	v6 := s.noIPv6 == ""
	if err := setSysctls(s.router, routerSysctls(&s.cfg, v6)); err != nil {
		return err
	}
	if s.world != nil {
		if err := setSysctls(s.world, worldSysctls(v6)); err != nil {
			return err
		}
	}
	for _, ns := range s.boxNS {
		if err := setSysctls(ns, boxSysctls(v6)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stage) filter() error {
	s.rules = routerRules(&s.cfg, s.boxes)
	if !s.cfg.Hooks.lateFilter() {
		if err := s.rules.load(int(s.router.fd)); err != nil {
			return err
		}
	}
	if s.world == nil {
		return nil
	}
	return worldRules(s.cfg.Services).load(int(s.world.fd))
}

func (s *Stage) makeLinks() error {
	for i, b := range s.boxes {
		inBox := end{ns: s.boxNS[i], name: boxLink, mac: b.mac, ip4: b.prefix4, ip6: b.prefix6}
		gate := end{ns: s.router, name: b.link, mac: b.gatewayMAC, ip4: netip.PrefixFrom(b.Gateway4, 30)}
		if b.Gateway6.IsValid() {
			gate.ip6 = netip.PrefixFrom(b.Gateway6, 64)
		}
		if err := connect(inBox, gate); err != nil {
			return err
		}
		s.boxEnd, s.gateEnd = append(s.boxEnd, inBox), append(s.gateEnd, gate)
	}
	if s.world == nil {
		return nil
	}
	return connect(s.worldEnds())
}

// settleLinks has a box that looks for nobody's address on its segment be told soon
// that there is nobody. In the open mode the router answers there for everybody, and
// passes on what is sent.
func (s *Stage) settleLinks() error {
	v6 := s.noIPv6 == ""
	for i, b := range s.boxes {
		if err := setSysctls(s.boxNS[i], searches(v6)); err != nil {
			return err
		}
		if s.cfg.Mode != Open || s.world == nil {
			continue
		}
		if err := setSysctls(s.router, standsIn(b.link, v6)); err != nil {
			return err
		}
		if v6 {
			if err := errors.Join(s.gateEnd[i].answersFor(b.Beside6), s.gateEnd[i].answersFor(b.Local6)); err != nil {
				return err
			}
		}
	}
	return nil
}

// worldEnds are the world's and the router's ends of the uplink.
func (s *Stage) worldEnds() (world, router end) {
	world = end{ns: s.world, name: worldLink, mac: hardwareAddr(0xff, 2), ip4: worldAddr4}
	router = end{ns: s.router, name: uplinkLink, mac: hardwareAddr(0xff, 1), ip4: routerUplink4}
	if s.noIPv6 == "" {
		world.ip6, router.ip6 = worldAddr6, routerUplink6
	}
	return world, router
}

func (s *Stage) startLinks() error {
	for i := range s.boxes {
		if err := errors.Join(s.gateEnd[i].up(), s.boxEnd[i].up()); err != nil {
			return err
		}
		if err := errors.Join(s.gateEnd[i].knows(s.boxEnd[i]), s.boxEnd[i].defaultRoutes(s.gateEnd[i])); err != nil {
			return err
		}
	}
	if s.world == nil {
		return nil
	}
	world, router := s.worldEnds()
	if err := errors.Join(router.up(), world.up()); err != nil {
		return err
	}
	if err := errors.Join(router.knows(world), world.knows(router), router.defaultRoutes(world)); err != nil {
		return err
	}
	if err := s.routesToBoxes(world, router); err != nil {
		return err
	}
	if err := s.routesBeside(world, router); err != nil {
		return err
	}
	return answerEverywhere(world)
}

// routesToBoxes names each box's own network: what lies beside them is local to
// the world like everything else.
func (s *Stage) routesToBoxes(world, router end) error {
	for _, b := range s.boxes {
		if err := world.route(b.prefix4.Masked(), router.ip4.Addr()); err != nil {
			return err
		}
		if !b.prefix6.IsValid() {
			continue
		}
		if err := world.route(b.prefix6.Masked(), router.ip6.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// routesBeside leads what is sent to nobody's addresses of the boxes' networks to the
// world, in the open mode.
func (s *Stage) routesBeside(world, router end) error {
	if s.cfg.Mode != Open || !router.ip6.IsValid() {
		return nil
	}
	for _, b := range s.boxes {
		if err := router.route(netip.PrefixFrom(b.Beside6, 128), world.ip6.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// Box finds a box by its name.
func (s *Stage) Box(name string) (Box, bool) {
	for _, b := range s.boxes {
		if b.Name == name {
			return b, true
		}
	}
	return Box{}, false
}

// Boxes are all boxes, in the order of Config.Boxes.
func (s *Stage) Boxes() []Box { return append([]Box(nil), s.boxes...) }

// ResetBox puts a box's addresses and routes back. A sandbox that takes them
// over (gVisor's does) removes them from the namespace, so this comes before a
// second sandbox is started there.
func (s *Stage) ResetBox(name string) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return ErrClosed
	}
	for i, b := range s.boxes {
		if b.Name == name {
			e := s.boxEnd[i]
			return errors.Join(e.address(), e.up(), e.defaultRoutes(s.gateEnd[i]))
		}
	}
	return fmt.Errorf("%w: there is no box %q", ErrConfig, name)
}

// RouterNS is the path of the router's namespace.
func (s *Stage) RouterNS() string { return s.router.path() }

// WorldNS is the path of the world's namespace, "" without one.
func (s *Stage) WorldNS() string {
	if s.world == nil {
		return ""
	}
	return s.world.path()
}

// IPv6 tells whether the boundary has IPv6, and if not, why.
func (s *Stage) IPv6() (has bool, why string) { return s.noIPv6 == "", s.noIPv6 }

// ErrClosed is what a closed stage answers.
var ErrClosed = errors.New("the boundary is closed")

// Close removes everything. It is idempotent: a second call tries again what the
// first could not do.
func (s *Stage) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.closed = true
	s.stop()
	if s.denials != nil {
		s.denials.close()
	}
	var errs []error
	for _, ns := range append([]*namespace{s.world, s.router}, s.boxNS...) {
		if ns != nil {
			errs = append(errs, ns.remove())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the boundary of run %s: %w", s.cfg.Run, err)
	}
	return nil
}

// open runs fn unless the stage is closed, and keeps it open meanwhile.
func (s *Stage) open(fn func() error) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return ErrClosed
	}
	return fn()
}
