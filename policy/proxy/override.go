package proxy

import (
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// Some servers let a header field or a parameter overrule the method or the path
// of the request line, and so act on another request than the one that was
// decided on. A request that holds such fields is decided as everything that
// a server may take it for. A field in a body is not seen.

// maxOverrides is how many of such fields a request may hold.
const maxOverrides = 4

// methodOverrides and pathOverrides are the fields, in lower case and with '-'
// for '_', which CGI-like servers cannot tell apart.
var (
	methodOverrides = map[string]bool{
		"x-http-method-override": true, "x-http-method": true, "x-method-override": true, "x-original-method": true, "x-forwarded-method": true,
	}
	pathOverrides = map[string]bool{
		"x-original-url": true, "x-rewrite-url": true, "x-original-uri": true, "x-forwarded-uri": true, "x-override-url": true, "x-forwarded-path": true,
	}
)

// methodParam is the parameter that form helpers of frameworks read.
const methodParam = "_method"

// overrides is what a request says beside its request line.
type overrides struct {
	methods, paths []string
	unread         bool // a path that cannot be read, or too many fields
}

func (v *overrides) none() bool { return len(v.methods) == 0 && len(v.paths) == 0 && !v.unread }

// overridesOf collects the fields of q that say another method or path.
func overridesOf(q *request) overrides {
	var v overrides
	for i := range q.header {
		name := q.header[i].Name
		if len(name) < len("x-http-method") || name[0]|0x20 != 'x' {
			continue
		}
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		switch value := q.header[i].Value; {
		case methodOverrides[name]:
			v.addMethods(value, q.method)
		case pathOverrides[name]:
			v.addPath(value, q.path)
		}
	}
	if strings.Contains(q.query, "ethod") || strings.Contains(q.query, "%") {
		for pair := range strings.SplitSeq(q.query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if name, err := url.QueryUnescape(name); err != nil || name != methodParam {
				continue
			}
			if m, err := url.QueryUnescape(value); err == nil {
				v.addMethods(m, q.method)
			}
		}
	}
	v.unread = v.unread || len(v.methods)+len(v.paths) > maxOverrides
	return v
}

func (v *overrides) addMethods(list, method string) {
	for m := range strings.SplitSeq(list, ",") {
		m = strings.ToUpper(strings.Trim(m, " \t"))
		if m != "" && m != method && len(v.methods) <= maxOverrides {
			v.methods = append(v.methods, m)
		}
	}
}

func (v *overrides) addPath(value, path string) {
	p, _, _ := strings.Cut(value, "?")
	if !strings.HasPrefix(p, "/") {
		u, err := host.ParseURL(value)
		if err != nil {
			v.unread = true
			return
		}
		p = u.Path
	}
	if p = removeDotSegments(p); p != path && len(v.paths) <= maxOverrides {
		v.paths = append(v.paths, p)
	}
}

// agreeOverrides refuses a request that the policy denies in any of the ways in
// which it can be taken, and one whose credential depends on which it is.
func (o *origin) agreeOverrides(r *rules, q *request, ask policy.Request) *refusal {
	v := overridesOf(q)
	if v.none() {
		return nil
	}
	if v.unread {
		return deny(400, httpx.ReasonHeader)
	}
	_, leased := r.ev.Repository(ask, q.query)
	if leased && !o.s.breaks.skip(repositoryScope) {
		return deny(403, ReasonOverride)
	}
	rule := r.ev.Injection(ask)
	for _, m := range append([]string{ask.Method}, v.methods...) {
		for _, p := range append([]string{ask.Path}, v.paths...) {
			other := ask
			other.Method, other.Path = m, p
			if d := r.ev.Request(other); !d.Allowed() && !o.waived(q, d) {
				return denied(d)
			}
			if r.ev.Injection(other) != rule {
				return deny(403, ReasonOverride)
			}
		}
	}
	return nil
}
