package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
)

// The services of git smart HTTP.
const (
	GitFetch = "git-upload-pack"
	GitPush  = "git-receive-pack"
)

// Lease says which brokered repository a request is about.
type Lease struct {
	Broker     *Broker
	Repository *Repository // nil: none of the broker's; a push to it has to be refused
	Name       string      // "owner/name" as asked for, lower case
	Service    string      // GitFetch or GitPush
}

// AllowsPush reports whether a full ref name may be pushed.
func (l Lease) AllowsPush(ref string) bool {
	if l.Repository == nil || !isRefPattern(ref) || strings.HasSuffix(ref, "*") {
		return false
	}
	for _, pattern := range l.Repository.Push {
		if prefix, wild := strings.CutSuffix(pattern, "*"); wild && strings.HasPrefix(ref, prefix) && len(ref) > len(prefix) || ref == pattern {
			return true
		}
	}
	return false
}

func (e *Evaluator) brokersAt(id uint32, port uint16) bool {
	for _, b := range e.brokers[id] {
		if b.Port == port || port == 0 {
			return true
		}
	}
	return false
}

// forgeAt says whether the node is the host of a broker's REST interface at port.
func (e *Evaluator) forgeAt(id uint32, port uint16) bool {
	return port == 0 || slices.Contains(e.forges[id], port)
}

func (e *Evaluator) forgeAtAddress(a netip.Addr, port uint16) bool {
	for _, f := range e.forgesAt {
		if f.Addr() == a && (f.Port() == port || port == 0) {
			return true
		}
	}
	return false
}

// Repository returns the repository that a git smart HTTP request to a broker's
// host is about (gitprotocol-http). query is the raw query of the request
// ("service=git-receive-pack" of the first one). ok is false for every other
// request.
func (e *Evaluator) Repository(r Request, query string) (l Lease, ok bool) {
	id, n := e.set.names.Find(r.Host.Name())
	if r.Host.IsAddr() || n == nil || !e.brokersAt(id, r.Port) {
		return Lease{}, false
	}
	path, err := host.CleanPath(r.Path)
	if err != nil {
		return Lease{}, false
	}
	if _, after, ok := strings.Cut(r.Path, "?"); ok && query == "" {
		query = after
	}
	name, service := gitRequest(path, query)
	if service == "" {
		return Lease{}, false
	}
	l = Lease{Name: strings.TrimSuffix(strings.ToLower(name), ".git"), Service: service}
	for _, b := range e.brokers[id] {
		if b.Port != r.Port {
			continue
		}
		if l.Broker == nil {
			l.Broker = b
		}
		for i := range b.Repositories {
			if b.Repositories[i].Name == l.Name {
				l.Broker, l.Repository = b, &b.Repositories[i]
				return l, true
			}
		}
	}
	return l, true
}

// gitRequest splits a clean path into repository and service. A query that
// names a push anywhere makes it one: forges differ in which of two they read.
func gitRequest(path, query string) (name, service string) {
	if name, ok := strings.CutSuffix(path, "/info/refs"); ok {
		for _, pair := range strings.Split(query, "&") {
			switch pair {
			case "service=" + GitPush:
				return strings.TrimPrefix(name, "/"), GitPush
			case "service=" + GitFetch:
				service = GitFetch
			}
		}
		if service == "" && strings.Contains(query, "receive-pack") {
			service = GitPush
		}
		return strings.TrimPrefix(name, "/"), service
	}
	for _, s := range []string{GitFetch, GitPush} {
		if name, ok := strings.CutSuffix(path, "/"+s); ok {
			return strings.TrimPrefix(name, "/"), s
		}
	}
	return "", ""
}
