package policy

import (
	"github.com/wallproof/wallproof/policy/internal/strict"
	"github.com/wallproof/wallproof/policy/pack"
)

func (d *decoder) document(n *strict.Node) (*Policy, *Error) {
	p := &Policy{Source: d.file, OnFailure: FailClosed, Setup: PhasePolicy{Mode: ModePublic}, Verifier: PhasePolicy{Mode: ModePublic}}
	if n.Kind != strict.Map {
		return nil, d.fail(n, "a policy is a map of keys and values, not %s", n.Kind)
	}
	if _, err := decodeMap(d, n, p, documentFields()); err != nil {
		return nil, err
	}
	return p, nil
}

// documentFields is a function and not a variable because the tables of the
// parts refer to the decoder's methods, which refer to it.
func documentFields() []field[Policy] {
	return []field[Policy]{
		{"version", true, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.version(n, Version) }},
		{"evaluator", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.version(n, EvaluatorVersion) }},
		{"name", false, func(d *decoder, n *strict.Node, p *Policy) (err *Error) {
			p.Name, err = d.word(n, isTitle, "a name of at most 128 characters")
			return err
		}},
		{"mode", true, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.mode(n, &p.Mode) }},
		{"on-failure", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			s, err := d.choice(n, string(FailClosed), string(FailWarn))
			p.OnFailure = OnFailure(s)
			return err
		}},
		{"packs", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.packs(n, &p.Packs) }},
		{"allow", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.allowList(n, &p.Allow) }},
		{"block", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.blockList(n, &p.Block) }},
		{"secrets", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			return decodeList(d, n, MaxList, &p.Secrets, (*decoder).secret)
		}},
		{"broker", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			return decodeList(d, n, MaxList, &p.Broker, (*decoder).broker)
		}},
		{"model", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			p.Model = &Model{Pos: pos(n)}
			return d.model(n, p.Model)
		}},
		{"environment", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.environment(n, &p.Environment) }},
		{"services", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			return decodeList(d, n, MaxList, &p.Services, (*decoder).service)
		}},
		{"phases", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			_, err := decodeMap(d, n, p, phaseFields())
			return err
		}},
		{"limits", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.limits(n, &p.Limits) }},
		{"lingering", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.lingering(n, &p.Lingering) }},
		{"egress", false, func(d *decoder, n *strict.Node, p *Policy) *Error {
			p.Egress = &EgressAgent{Pos: pos(n)}
			return d.egress(n, p.Egress)
		}},
	}
}

// decodeList decodes each element of a list with one method.
func decodeList[T any](d *decoder, n *strict.Node, most int, out *[]T, one func(*decoder, *strict.Node, *T) *Error) *Error {
	return d.list(n, most, func(n *strict.Node) *Error {
		var t T
		if err := one(d, n, &t); err != nil {
			return err
		}
		*out = append(*out, t)
		return nil
	})
}

func (d *decoder) version(n *strict.Node, want int64) *Error {
	if n.Kind != strict.Int {
		return d.wrongKind(n, "a whole number")
	}
	if v, err := d.integer(n, 0, 1<<53); err != nil || v != want {
		return d.fail(n, "version %s is not one that this build reads; it reads %d", n.Text, want)
	}
	return nil
}

func (d *decoder) mode(n *strict.Node, m *Mode) *Error {
	s, err := d.choice(n, string(ModePublic), string(ModeNoNetwork), string(ModeDenylist), string(ModeAllowlist))
	*m = Mode(s)
	return err
}

func phaseFields() []field[Policy] {
	return []field[Policy]{
		{"setup", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.phase(n, &p.Setup) }},
		{"verifier", false, func(d *decoder, n *strict.Node, p *Policy) *Error { return d.phase(n, &p.Verifier) }},
	}
}

var phasePolicyFields = []field[PhasePolicy]{
	{"mode", true, func(d *decoder, n *strict.Node, p *PhasePolicy) *Error { return d.mode(n, &p.Mode) }},
	{"packs", false, func(d *decoder, n *strict.Node, p *PhasePolicy) *Error { return d.packs(n, &p.Packs) }},
	{"allow", false, func(d *decoder, n *strict.Node, p *PhasePolicy) *Error { return d.allowList(n, &p.Allow) }},
	{"block", false, func(d *decoder, n *strict.Node, p *PhasePolicy) *Error { return d.blockList(n, &p.Block) }},
}

func (d *decoder) phase(n *strict.Node, p *PhasePolicy) *Error {
	p.Pos = pos(n)
	_, err := decodeMap(d, n, p, phasePolicyFields)
	return err
}

// packs reads a list of names, or of maps with a name and a pin.
func (d *decoder) packs(n *strict.Node, out *[]PackRef) *Error {
	seen := map[string]bool{}
	return d.list(n, MaxList, func(n *strict.Node) *Error {
		ref := PackRef{Pos: pos(n)}
		var err *Error
		if n.Kind == strict.Text {
			ref.Name, err = d.choice(n, pack.Names()...)
		} else {
			_, err = decodeMap(d, n, &ref, packFields)
		}
		if err != nil {
			return err
		}
		if seen[ref.Name] {
			return d.fail(n, "the pack %q is listed twice", ref.Name)
		}
		seen[ref.Name] = true
		*out = append(*out, ref)
		return nil
	})
}

var packFields = []field[PackRef]{
	{"name", true, func(d *decoder, n *strict.Node, r *PackRef) (err *Error) {
		r.Name, err = d.choice(n, pack.Names()...)
		return err
	}},
	{"pin", false, func(d *decoder, n *strict.Node, r *PackRef) *Error {
		r.Pin = &Pin{Pos: pos(n)}
		return d.pin(n, r.Pin)
	}},
}
