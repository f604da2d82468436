package policy

import (
	"github.com/wallproof/wallproof/policy/internal/strict"
	"github.com/wallproof/wallproof/policy/pack"
)

func (d *decoder) document(n *strict.Node) (*Policy, *strict.Error) {
	p := &Policy{OnFailure: FailClosed, Setup: PhasePolicy{Mode: ModePublic}, Verifier: PhasePolicy{Mode: ModePublic}}
	if n.Kind != strict.Map {
		return nil, d.Fail(n, "a policy is a map of keys and values, not %s", n.Kind)
	}
	if _, err := strict.DecodeMap(d, n, p, documentFields()); err != nil {
		return nil, err
	}
	return p, nil
}

// documentFields is a function and not a variable because the tables of the
// parts refer to the decoder's methods, which refer to it.
func documentFields() []field[Policy] {
	return []field[Policy]{
		must("version", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.version(n, Version) }),
		may("evaluator", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.version(n, EvaluatorVersion) }),
		may("name", func(d *decoder, n *strict.Node, p *Policy) (err *strict.Error) {
			p.Name, err = d.Word(n, isTitle, "a name of at most 128 characters")
			return err
		}),
		must("mode", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.mode(n, &p.Mode) }),
		may("on-failure", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			s, err := d.Choice(n, string(FailClosed), string(FailWarn))
			p.OnFailure = OnFailure(s)
			return err
		}),
		may("packs", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.packs(n, &p.Packs) }),
		may("allow", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.allowList(n, &p.Allow) }),
		may("block", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.blockList(n, &p.Block) }),
		may("secrets", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			return strict.DecodeList(d, n, MaxList, &p.Secrets, (*decoder).secret)
		}),
		may("broker", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			return strict.DecodeList(d, n, MaxList, &p.Broker, (*decoder).broker)
		}),
		may("model", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			p.Model = &Model{Pos: pos(n)}
			return d.model(n, p.Model)
		}),
		may("environment", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.environment(n, &p.Environment) }),
		may("services", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			return strict.DecodeList(d, n, MaxList, &p.Services, (*decoder).service)
		}),
		may("phases", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			_, err := strict.DecodeMap(d, n, p, phaseFields())
			return err
		}),
		may("limits", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.limits(n, &p.Limits) }),
		may("lingering", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.lingering(n, &p.Lingering) }),
		may("egress", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			p.Egress = &EgressAgent{Pos: pos(n)}
			return d.egress(n, p.Egress)
		}),
	}
}

func (d *decoder) version(n *strict.Node, want int64) *strict.Error {
	if n.Kind != strict.Int {
		return d.WrongKind(n, "a whole number")
	}
	if v, err := d.Integer(n, 0, 1<<53); err != nil || v != want {
		return d.Fail(n, "version %s is not one that this build reads; it reads %d", n.Text, want)
	}
	return nil
}

func (d *decoder) mode(n *strict.Node, m *Mode) *strict.Error {
	s, err := d.Choice(n, string(ModePublic), string(ModeNoNetwork), string(ModeDenylist), string(ModeAllowlist))
	*m = Mode(s)
	return err
}

func phaseFields() []field[Policy] {
	return []field[Policy]{
		may("agent", func(d *decoder, n *strict.Node, p *Policy) *strict.Error {
			return d.Fail(n, "the document's own mode and entries are the agent phase")
		}),
		may("setup", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.phase(n, &p.Setup) }),
		may("verifier", func(d *decoder, n *strict.Node, p *Policy) *strict.Error { return d.phase(n, &p.Verifier) }),
	}
}

var phasePolicyFields = []field[PhasePolicy]{
	must("mode", func(d *decoder, n *strict.Node, p *PhasePolicy) *strict.Error { return d.mode(n, &p.Mode) }),
	may("packs", func(d *decoder, n *strict.Node, p *PhasePolicy) *strict.Error { return d.packs(n, &p.Packs) }),
	may("allow", func(d *decoder, n *strict.Node, p *PhasePolicy) *strict.Error { return d.allowList(n, &p.Allow) }),
	may("block", func(d *decoder, n *strict.Node, p *PhasePolicy) *strict.Error { return d.blockList(n, &p.Block) }),
}

func (d *decoder) phase(n *strict.Node, p *PhasePolicy) *strict.Error {
	p.Pos = pos(n)
	_, err := strict.DecodeMap(d, n, p, phasePolicyFields)
	return err
}

// packs reads a list of names, or of maps with a name and a pin.
func (d *decoder) packs(n *strict.Node, out *[]PackRef) *strict.Error {
	seen := map[string]bool{}
	return d.List(n, MaxList, func(n *strict.Node) *strict.Error {
		ref := PackRef{Pos: pos(n)}
		var err *strict.Error
		if n.Kind == strict.Text {
			ref.Name, err = d.Choice(n, pack.Names()...)
		} else {
			_, err = strict.DecodeMap(d, n, &ref, packFields)
		}
		if err != nil {
			return err
		}
		if seen[ref.Name] {
			return d.Fail(n, "the pack %q is listed twice", ref.Name)
		}
		seen[ref.Name] = true
		*out = append(*out, ref)
		return nil
	})
}

var packFields = []field[PackRef]{
	must("name", func(d *decoder, n *strict.Node, r *PackRef) (err *strict.Error) {
		r.Name, err = d.Choice(n, pack.Names()...)
		return err
	}),
	may("pin", func(d *decoder, n *strict.Node, r *PackRef) *strict.Error {
		r.Pin = &Pin{Pos: pos(n)}
		return d.pin(n, r.Pin)
	}),
}
