package proxy

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// inject applies the one rule that the policy names for an allowed request
// whose target, Host, SNI and address agree. It returns the secrets' names.
func (r *rules) inject(q *request, rule *policy.Rule) ([]string, *refusal) {
	if rule == nil || q.scheme == "http" && !rule.Cleartext {
		return nil, nil
	}
	var names []string
	for i := range rule.Set {
		set := &rule.Set[i]
		sec := r.secrets[set.Secret]
		if sec == nil {
			return nil, deny(502, ReasonSecretMissing)
		}
		done := false
		switch {
		case set.As == policy.InjectQuery:
			done = q.injectQuery(set, sec, rule.ReplaceOnly)
		case rule.ReplaceOnly:
			done = q.swapHeader(set, sec)
		default:
			q.header.Set(set.Header, headerValue(set, sec.value))
			done = true
		}
		if done {
			names = append(names, set.Secret)
		}
	}
	return names, nil
}

func headerValue(set *policy.Setting, value string) string {
	switch set.As {
	case policy.InjectBearer:
		return "Bearer " + value
	case policy.InjectBasic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(set.Username+":"+value))
	}
	return set.Prefix + value
}

// swapHeader puts the value where the client put the placeholder, in this one
// field, and nowhere else.
func (q *request) swapHeader(set *policy.Setting, sec *secret) bool {
	if sec.placeholder == "" {
		return false
	}
	done := false
	for i := range q.header {
		f := &q.header[i]
		if !strings.EqualFold(f.Name, set.Header) {
			continue
		}
		if v, ok := swap(f.Value, set, sec); ok {
			f.Value, done = v, true
		}
	}
	return done
}

func swap(field string, set *policy.Setting, sec *secret) (string, bool) {
	if set.As != policy.InjectBasic {
		if !strings.Contains(field, sec.placeholder) {
			return field, false
		}
		return strings.ReplaceAll(field, sec.placeholder, sec.value), true
	}
	scheme, b64, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return field, false
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(b64))
	if err != nil || !strings.Contains(string(plain), sec.placeholder) {
		return field, false
	}
	plain = []byte(strings.ReplaceAll(string(plain), sec.placeholder, sec.value))
	return "Basic " + base64.StdEncoding.EncodeToString(plain), true
}

// injectQuery sets one parameter, or swaps the placeholder in it. The others
// stay as they were written.
func (q *request) injectQuery(set *policy.Setting, sec *secret, replaceOnly bool) bool {
	var kept []string
	done := false
	for _, pair := range strings.Split(q.query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(name); err != nil || n != set.Param {
			if pair != "" {
				kept = append(kept, pair)
			}
			continue
		}
		v, err := url.QueryUnescape(value)
		switch {
		case !replaceOnly: // ours comes instead
		case err == nil && sec.placeholder != "" && strings.Contains(v, sec.placeholder):
			kept = append(kept, name+"="+url.QueryEscape(strings.ReplaceAll(v, sec.placeholder, sec.value)))
			done = true
		default:
			kept = append(kept, pair)
		}
	}
	if !replaceOnly {
		kept = append(kept, url.QueryEscape(set.Param)+"="+url.QueryEscape(sec.value))
		done = true
	}
	if done {
		q.query, q.hasQuery = strings.Join(kept, "&"), true
	}
	return done
}

// holdsPlaceholder says whether a placeholder is anywhere in the head. Injection
// has replaced those that are where they belong.
func (r *rules) holdsPlaceholder(q *request) bool {
	if r.holders.Empty() {
		return false
	}
	if r.holders.ContainsString(q.path) || r.holders.ContainsString(q.query) {
		return true
	}
	for i := range q.header {
		if r.holders.ContainsString(q.header[i].Value) || r.holders.ContainsString(q.header[i].Name) {
			return true
		}
	}
	return false
}

// hostField is the Host field that goes upstream: the target's, whatever the
// client wrote.
func (q *request) hostField() string {
	if q.claimed.host.IsZero() {
		return q.authority(q.scheme)
	}
	return q.claimed.authority(q.scheme)
}
