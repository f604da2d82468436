package proxy

import (
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Update is a change of a running Server. Members left nil stay.
type Update struct {
	Policy  *string  `json:"policy,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Reload exchanges policy and secrets as a whole or not at all. An edit that
// needs another routing than the one the sandbox was wired with is refused.
// Connections whose target the new policy denies are closed, and those of which it
// denies a request that is under way.
func (s *Server) Reload(u Update) error {
	s.reloadMu.Lock()
	defer s.reloadMu.Unlock()
	next := s.cfg
	if u.Policy != nil {
		next.Policy = *u.Policy
	}
	if u.Secrets != nil {
		next.Secrets = u.Secrets
	}
	old := s.rules.Load()
	r, err := compileRules(&next, old.generation+1)
	if err != nil {
		s.reloaded(ReasonReloadInvalid)
		return err
	}
	if was, now := old.ev.Routing(), r.ev.Routing(); was.Routing != now.Routing {
		s.reloaded(ReasonReloadRouting)
		return fmt.Errorf("the edit needs %s routing (%s) and the sandbox was wired for %s: it takes effect with the next run", now.Routing, now.Why, was.Routing)
	}
	if err := checkEgress(&next, r.policy); err != nil || !s.agent && (old.policy.Egress == nil) != (r.policy.Egress == nil) {
		s.reloaded(ReasonReloadRouting)
		return errors.Join(err, errors.New("the edit changes where traffic leaves: it takes effect with the next run"))
	}
	if err := s.leases.rebind(r, next.BrokerKeys); err != nil {
		s.reloaded(ReasonReloadInvalid)
		return err
	}
	s.cfg = next
	// The masks come first: nothing of the new secrets may be sent before.
	if u.Secrets != nil {
		s.setMasks(r.values, s.leases.redactor())
	}
	s.rules.Store(r)
	s.dropDenied(r)
	s.reloaded("")
	return nil
}

// setMasks exchanges what is redacted. Values that were in force once stay
// masked: they may come back later.
func (s *Server) setMasks(added, leases *redact.Redactor) {
	s.masksMu.Lock()
	defer s.masksMu.Unlock()
	s.masks = s.masks.With(added)
	s.live.Set(s.masks.With(leases))
}

// dropDenied closes connections to what new rules deny, those of which a request is
// under way that they deny, and those that were passed on untouched to what is to be
// looked into now. The rules are in force before: whoever has decided by older ones
// says first what it is about, and then looks whether they are still the rules. When
// it returns, nothing of theirs is passed on any more.
func (s *Server) dropDenied(r *rules) {
	var outdated []*conn
	s.conns.each(func(c *conn) {
		if c.outdated(r) || c.asking.denied(r) {
			outdated = append(outdated, c)
		}
	})
	for _, c := range outdated {
		c.sever()
	}
}

// outdated says whether rules do not allow a connection to go on as it does.
func (c *conn) outdated(r *rules) bool {
	t := c.dst.Load()
	if t == nil {
		return false
	}
	d := r.ev.Name(t.host, t.port)
	return !d.Allowed() || d.Intercept && c.spliced.Load()
}

func (s *Server) reloaded(reason string) {
	s.send(&Event{Type: EventReload, Time: s.now().UTC().Format(eventTime), RunID: s.runID, Reason: reason})
}
