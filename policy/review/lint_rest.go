package review

import (
	"github.com/wallproof/wallproof/policy"
)

func (l *linter) secrets() {
	used := map[string]bool{}
	if m := l.policy.Model; m != nil {
		used[m.Secret] = true
	}
	type place struct {
		entry string
		line  int
	}
	reached := map[place]bool{}
	for _, s := range l.eval.Injected() {
		reached[place{s.Entry, s.Line}] = true
	}
	for i := range l.policy.Secrets {
		s := &l.policy.Secrets[i]
		for j := range s.Inject {
			r := &s.Inject[j]
			for _, set := range r.Set {
				used[set.Secret] = true
			}
			if !reached[place{r.String(), r.Pos.Line}] {
				l.report(Warning, CodeUnreached, r.String(), r.Pos.Line, "no request that the policy allows gets the secret %s here; allow the host, or remove the rule", r.Set[0].Secret)
			}
			if r.Cleartext {
				l.report(Warning, CodeCleartext, r.String(), r.Pos.Line, "the secret %s may travel in clear; remove cleartext if the host speaks https", r.Set[0].Secret)
			}
		}
	}
	for i := range l.policy.Secrets {
		if s := &l.policy.Secrets[i]; !used[s.Name] {
			l.report(Warning, CodeUnused, s.Name, s.Pos.Line, "the secret goes nowhere; inject it somewhere, or remove it")
		}
	}
}

func (l *linter) brokers() {
	for i := range l.policy.Broker {
		for _, r := range l.policy.Broker[i].Repositories {
			for _, push := range r.Push {
				if push == "refs/*" || push == "refs/heads/*" {
					l.report(Warning, CodeWidePush, r.Name, r.Pos.Line, "%s lets every branch be pushed, the default one too; name a prefix such as refs/heads/agent/*", push)
				}
			}
		}
	}
}

func (l *linter) environment() {
	env := &l.policy.Environment
	for _, v := range env.Set {
		if policy.LooksLikeKey(v.Name) {
			l.report(Warning, CodeKeyVariable, v.Name, v.Pos.Line, "looks like a credential, stands in the policy in clear and enters the sandbox; make it a secret")
		}
	}
	for _, name := range env.Pass {
		if policy.LooksLikeKey(name) {
			l.report(Warning, CodeKeyVariable, name, 0, "looks like a credential and enters the sandbox; make it a secret that the proxy injects")
		}
	}
	for _, name := range env.Ask {
		if policy.LooksLikeKey(name) {
			l.report(Note, CodeKeyVariable, name, 0, "looks like a credential, and enters the sandbox when it is named on the command line")
		}
	}
}

// whole reports on the policy as a whole.
func (l *linter) whole() {
	p := l.policy
	if p.Mode == policy.ModeAllowlist && len(p.Allow)+len(p.Packs) == 0 && p.Model != nil {
		l.report(Note, CodeModelOnly, policy.ModelHost, p.Model.Pos.Line, "the allowlist is empty, so only the model and the run's services are reachable")
	}
	if p.OnFailure == policy.FailWarn {
		l.report(Warning, CodeFailsOpen, "on-failure: warn", 0, "a run goes on when the policy cannot be enforced; such a run records that, and supports no claim")
	}
	if p.Model != nil {
		for _, m := range p.Model.SelfSearch {
			l.report(Note, CodeSearch, m, p.Model.Pos.Line, "this model may search the web by itself whatever the policy says of hosts; the override is recorded")
		}
	}
}
