package proxy

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// rules is everything that a reload exchanges at once. It is immutable.
type rules struct {
	ev      *policy.Evaluator
	policy  *policy.Policy
	secrets map[string]*secret
	values  *redact.Redactor
	// holders finds placeholders in a request; nil without any.
	holders    *redact.Redactor
	generation uint64
}

// isService says whether t is a service of the run, which only the operator's
// address leads to.
func (r *rules) isService(t target) bool {
	return r.ev.Name(t.host, t.port).Reason == policy.ReasonService
}

// secret is one resolved secret.
type secret struct {
	name, value, placeholder string
}

// compileRules reads the policy and binds the secrets to it. A secret that the
// policy names and nobody gave is an error: nothing may run without it.
func compileRules(cfg *Config, generation uint64) (*rules, error) {
	doc, err := parsePolicy(cfg.Policy)
	if err != nil {
		return nil, err
	}
	ev, err := policy.Compile(doc)
	if err != nil {
		return nil, err
	}
	if cfg.Phase != "" {
		ev = ev.Phase(cfg.Phase)
	}
	r := &rules{ev: ev, policy: doc, secrets: map[string]*secret{}, generation: generation}
	if err := r.bindSecrets(cfg); err != nil {
		return nil, err
	}
	cfg.Breaks.remember(r)
	return r, r.compileRedaction(cfg)
}

// parsePolicy reads a document, or the canonical form of one.
func parsePolicy(doc string) (*policy.Policy, error) {
	if p, err := policy.ParseCanonical([]byte(doc)); err == nil {
		return p, nil
	}
	return policy.Parse("policy", []byte(doc))
}

func (r *rules) bindSecrets(cfg *Config) error {
	for _, s := range cfg.Secrets {
		if r.secrets[s.Name] != nil {
			return fmt.Errorf("secret %q is given twice", s.Name)
		}
		if strings.ContainsAny(s.Value, "\r\n\x00") {
			return fmt.Errorf("secret %q holds a line break or NUL and cannot stand in a header", s.Name)
		}
		r.secrets[s.Name] = &secret{s.Name, s.Value, s.Placeholder}
	}
	for i := range r.policy.Secrets {
		p := &r.policy.Secrets[i]
		s := r.secrets[p.Name]
		if s == nil && cfg.Agent {
			continue // it injects nothing
		}
		if s == nil {
			return fmt.Errorf("secret %q is named by the policy but was not given a value", p.Name)
		}
		if s.placeholder == "" {
			s.placeholder = p.Placeholder
		}
	}
	return nil
}

// compileRedaction compiles what is masked: every value, and every broker key,
// should one ever be echoed.
func (r *rules) compileRedaction(cfg *Config) error {
	var values, holders [][]byte
	names := make([]string, 0, len(r.secrets))
	for name, s := range r.secrets {
		names = append(names, name)
		values = append(values, []byte(s.value))
		if s.placeholder != "" {
			if len(s.placeholder) < redact.MinSecret {
				return fmt.Errorf("placeholder of secret %q is shorter than %d bytes", name, redact.MinSecret)
			}
			holders = append(holders, []byte(s.placeholder))
		}
	}
	for i, v := range values {
		if len(v) < redact.MinSecret || len(v) > redact.MaxSecret {
			return fmt.Errorf("secret %q has %d bytes; only one of %d to %d can be redacted", names[i], len(v), redact.MinSecret, redact.MaxSecret)
		}
	}
	var err error
	if r.values, err = redact.NewForms(redactForms(cfg), values...); err != nil {
		return err
	}
	r.holders, err = redact.NewForms(redact.Raw|redact.Base64|redact.Percent, holders...)
	return err
}
