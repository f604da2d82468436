package parts

import (
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/probes/paths"
)

// Platform is what a policy says of the platform that runs the sandbox: which
// variable brings the platform's own token inside, and where its control API and
// its build cache are.
type Platform struct {
	Variable   string // that holds the token and enters; "" when none does
	API, Cache string // base URLs, without a final slash
	APIHost    string
	CacheHost  string
}

// platformOf reads the environment that a policy lets in. A token is known by its
// variable's name, as whoever looks for one inside would know it.
func platformOf(p *policy.Policy) Platform {
	t := Platform{API: "https://" + paths.PlatformHost, APIHost: paths.PlatformHost, Cache: "https://" + paths.CacheHost, CacheHost: paths.CacheHost}
	token := func(name string) {
		if t.Variable == "" && paths.HoldsPlatformToken(name) {
			t.Variable = name
		}
	}
	for _, name := range p.Environment.Pass {
		token(name)
	}
	for _, name := range p.Environment.Ask {
		token(name)
	}
	for _, v := range p.Environment.Set {
		u, err := host.ParseURL(v.Value)
		switch {
		case err != nil || u.Host.IsAddr() || u.Scheme != "https" || u.Port != 443:
			token(v.Name)
		case paths.LeadsToCache(v.Name):
			t.Cache, t.CacheHost = "https://"+u.Host.String(), u.Host.String()
		case paths.LeadsToPlatform(v.Name):
			t.API, t.APIHost = "https://"+u.Host.String(), u.Host.String()
		}
	}
	return t
}
