package proxy

import (
	"fmt"
	"sort"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// Role is what a sandbox of a run is for.
type Role string

// The roles.
const (
	RoleWork         Role = "work"         // runs the agent
	RoleTask         Role = "task"         // one for each task when a run fans out
	RoleOrchestrator Role = "orchestrator" // starts and collects tasks
	RoleService      Role = "service"      // a service of the task: answers, and reaches nothing
	RoleProxy        Role = "proxy"        // enforces; the only one with credentials
)

// Roles lists them in the order in which documents show them.
var Roles = []Role{RoleWork, RoleTask, RoleOrchestrator, RoleService, RoleProxy}

// Holding is something that a sandbox may hold.
type Holding string

// The holdings.
const (
	HoldsSecrets      Holding = "values of secrets"
	HoldsProviderKey  Holding = "the model provider's key"
	HoldsBrokerKey    Holding = "the broker's private key"
	HoldsLeases       Holding = "leases"
	HoldsCAKey        Holding = "the key of the run's authority"
	HoldsCA           Holding = "the certificate of the run's authority"
	HoldsPlaceholders Holding = "placeholders"
	HoldsModelKey     Holding = "the run's own model key"
)

// Holdings lists them in the order in which documents show them.
var Holdings = []Holding{
	HoldsSecrets, HoldsProviderKey, HoldsBrokerKey, HoldsLeases, HoldsCAKey,
	HoldsCA, HoldsPlaceholders, HoldsModelKey,
}

// May says whether a sandbox of a role may hold something. The orchestrator has
// nothing of the vault's, not even placeholders: it only starts others.
func (r Role) May(h Holding) bool {
	switch r {
	case RoleProxy:
		return true
	case RoleWork, RoleTask:
		return h == HoldsCA || h == HoldsPlaceholders || h == HoldsModelKey
	case RoleOrchestrator:
		return h == HoldsCA
	}
	return false
}

// Env is what a sandbox of a role gets in its environment so that it can use
// the proxy: where the proxy and its certificate are, and what its role may hold.
// The proxy's own environment is empty: it is told everything over a pipe.
func (r Role) Env(p *policy.Policy, secrets []Secret, modelKey, caPath, proxyURL string) []string {
	if r == RoleProxy || r == RoleService {
		return nil
	}
	env := SandboxEnv(caPath, proxyURL)
	if r.May(HoldsPlaceholders) {
		for _, s := range secrets {
			env = append(env, s.Name+"="+s.Placeholder)
		}
	}
	if r.May(HoldsModelKey) {
		env = append(env, ModelEnv(p, modelKey)...)
	}
	sort.Strings(env)
	return env
}

// Place says where something of a run lives.
type Place struct{ What, Where, Readers, Destroyed string }

// WhatLivesWhere is the whole list.
var WhatLivesWhere = []Place{
	{"values of secrets", "memory of the parent and of the proxy; a pipe between them", "operator; root of the host", "with the two processes"},
	{"the model provider's key", "like any secret", "operator; root of the host", "with the two processes"},
	{"the broker's private key", "memory of the parent and of the proxy; a pipe between them", "operator; root of the host", "with the two processes"},
	{"leases", "memory of the proxy", "root of the host", "revoked at the forge when they expire and at the end of the run"},
	{"the key of the run's authority", "memory of the proxy", "root of the host", "with the proxy"},
	{"the certificate of the run's authority", CAPath + " and the trust stores of the sandbox", "everybody", "with the sandbox"},
	{"placeholders", "environment of work and task sandboxes", "code in the sandbox", "with the sandbox; worth nothing outside it"},
	{"the run's own model key", "environment of work and task sandboxes; memory of the proxy", "code in the sandbox", "with the proxy, which alone accepts it"},
	{"variables that were passed", "environment of work and task sandboxes, set-up and verifier", "code in the sandbox", "with the sandbox"},
	{"one agent's subscription login", "a file of the work sandbox, mode 0600, of the agent's user", "the agent", "with the sandbox"},
	{"the record of decisions", "a file of the operator, mode 0600", "operator; root of the host", "by the operator"},
	{"the record of a run", "a file of the operator, mode 0600", "operator; root of the host", "by the operator"},
	{"the operator's socket", "/run/wallproof, mode 0600, mounted into no sandbox", "operator; root of the host", "with the run"},
	{"what the sandboxes write", "memory of each sandbox", "code in that sandbox; root of the host", "with the sandbox"},
	{"requests and responses", "memory of the proxy, while they pass", "root of the host", "at once"},
}

// PlacesTable is the two tables in Markdown, as docs/what-lives-where.md has them.
func PlacesTable() string {
	var b strings.Builder
	b.WriteString("# What lives where\n\nGenerated from policy/proxy/roles.go; a test compares. That running sandboxes keep to it is shown by `Test5SystemB` in testdata/e2e.\n\n| what | where | who can read it | when it is destroyed |\n| --- | --- | --- | --- |\n")
	for _, p := range WhatLivesWhere {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.What, p.Where, p.Readers, p.Destroyed)
	}
	b.WriteString("\n# What a sandbox of a run may hold\n\n| |")
	for _, r := range Roles {
		fmt.Fprintf(&b, " %s |", r)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(Roles)) + "\n")
	for _, h := range Holdings {
		fmt.Fprintf(&b, "| %s |", h)
		for _, r := range Roles {
			word := "no"
			if r.May(h) {
				word = "yes"
			}
			fmt.Fprintf(&b, " %s |", word)
		}
		b.WriteString("\n")
	}
	return b.String()
}
