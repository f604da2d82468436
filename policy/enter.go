package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Entering is what enters a sandbox's environment.
type Entering struct {
	Variables []Variable // sorted by name
	Warnings  []string   // variables that look like credentials, or are not set
}

// Enter decides which variables enter the sandbox, before it starts. lookup
// gives the operator's variables; named are those named on the command line, as
// NAME or NAME=VALUE. Nothing else of the host enters. It is an error when a
// variable that the policy asks for is not named, a named one is not set, or one
// holds a secret that the proxy keeps.
func (p *Policy) Enter(lookup func(name string) (string, bool), named []string) (*Entering, error) {
	out := &Entering{}
	add := func(name, value string) {
		out.Variables = slices.DeleteFunc(out.Variables, func(v Variable) bool { return v.Name == name })
		out.Variables = append(out.Variables, Variable{Name: name, Value: value})
		if LooksLikeKey(name) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the variable %s looks like a credential and enters the sandbox; make it a secret that the proxy injects", name))
		}
	}
	for _, v := range p.Environment.Set {
		add(v.Name, v.Value)
	}
	for _, name := range p.Environment.Pass {
		if value, ok := lookup(name); ok {
			add(name, value)
		} else {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the variable %s, which the policy passes, is not set", name))
		}
	}
	given := map[string]bool{}
	for _, kv := range named {
		name, value, hasValue := strings.Cut(kv, "=")
		if !isVariable(name) {
			return nil, fmt.Errorf("%.64q is not the name of an environment variable", name)
		}
		if secret := p.secretIn(name); secret != "" && !hasValue {
			return nil, fmt.Errorf("the variable %s holds the secret %s, which stays with the proxy and does not enter the sandbox", name, secret)
		}
		if !hasValue {
			var ok bool
			if value, ok = lookup(name); !ok {
				return nil, fmt.Errorf("the variable %s is named but not set; set it, or give %s=VALUE", name, name)
			}
		}
		given[name] = true
		add(name, value)
	}
	for _, name := range p.Environment.Ask {
		if !given[name] {
			return nil, fmt.Errorf("the policy asks for the variable %s, which enters only when it is named on the command line", name)
		}
	}
	slices.SortFunc(out.Variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// secretIn returns the secret that is kept in a variable, or "".
func (p *Policy) secretIn(variable string) string {
	for _, s := range p.Secrets {
		if s.From.Env == variable {
			return s.Name
		}
	}
	return ""
}

// EnforceableBy refuses a policy that a driver cannot enforce. modes are those
// that the driver lists for itself. Nothing is weakened: the run does not start.
// The error is an *Error.
func (e *Evaluator) EnforceableBy(driver string, modes []string) error {
	for _, phase := range []Phase{PhaseSetup, PhaseAgent, PhaseVerifier} {
		mode := e.others[phase].mode
		if !slices.Contains(modes, string(mode)) {
			return &Error{File: e.policy.Source, Field: "mode", Message: fmt.Sprintf(
				"the driver %s cannot enforce mode %s, which the %s phase needs; it can enforce %s. Choose another driver or another mode",
				driver, mode, phase, strings.Join(modes, ", "))}
		}
	}
	return nil
}
