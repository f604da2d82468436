package witness

import (
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/probes/paths"
)

// routes tells which service an arrival belongs to.
type routes struct {
	exact      map[string]string // host to role
	wild       map[string]string // suffix with its leading dot, to role
	resolve    *zone
	trustNames bool
}

func newRoutes(cfg *Config, z *zone) *routes {
	r := &routes{exact: map[string]string{}, wild: map[string]string{}, resolve: z, trustNames: cfg.UnsafeTrustNames}
	for h, role := range cfg.Hosts {
		if suffix, ok := strings.CutPrefix(h, "*"); ok {
			r.wild[suffix] = role
		} else {
			r.exact[h] = role
		}
	}
	return r
}

// role is what a host of the configuration is; ok is false for any other name.
func (r *routes) role(host string) (role string, ok bool) {
	if role, ok = r.exact[host]; ok {
		return role, true
	}
	for i := 0; i < len(host); i++ { // the longest suffix first
		if host[i] == '.' {
			if role, ok = r.wild[host[i:]]; ok {
				return role, true
			}
		}
	}
	return "", false
}

// serviceOf names services by role.
var serviceOf = map[string]string{
	HostAllowed:  paths.ServiceAllowed,
	HostForge:    paths.ServiceForge,
	HostRegistry: paths.ServiceRegistry,
	HostModel:    paths.ServiceModel,
	HostPlatform: paths.ServicePlatform,
	HostPlain:    paths.ServiceCollector,
}

// service is where something that names host (and sni, over TLS) and went to dst
// arrived, and the role whose content it gets.
func (r *routes) service(dst netip.Addr, host, sni string, overTLS bool) (service, role string) {
	role, listed := r.role(host)
	if r.trustNames {
		if listed {
			return serviceOf[role], role
		}
		return paths.ServiceCollector, HostPlain
	}
	if s := special(dst); s != "" {
		return s, HostPlain
	}
	if !listed || !r.resolve.owns(host, dst) || overTLS && sni != "" && sni != host {
		return paths.ServiceCollector, HostPlain
	}
	return serviceOf[role], role
}

// special is the service of an address that is no host's, "" for a public one.
func special(dst netip.Addr) string {
	switch addr.Classify(dst) {
	case addr.Public:
		return ""
	case addr.Metadata:
		return paths.ServiceMetadata
	}
	return paths.ServicePrivate
}

// hostName takes the port off an authority and folds the rest: "[::1]:80" is
// "::1", "Example.COM.:443" is "example.com".
func hostName(authority string) string {
	h := authority
	if strings.HasPrefix(h, "[") {
		if end := strings.IndexByte(h, ']'); end > 0 {
			h = h[1:end]
		}
	} else if i := strings.LastIndexByte(h, ':'); i >= 0 && strings.IndexByte(h, ':') == i {
		h = h[:i]
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}
