package imd

import (
	"context"
	"net/netip"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// services are the addresses at which clouds offer metadata or credentials.
var services = []string{linkLocal, "169.254.170.2", "169.254.170.23", "169.254.42.42", "169.254.0.23", "100.100.100.200", "100.96.0.96", "168.63.129.16", "192.0.0.192"}

var services6 = []string{"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42", "fe80::a9fe:a9fe"}

// everyCloud asks for a name that leads to each of the services in turn.
func everyCloud(ctx context.Context, env *probes.Env) manifest.Observation {
	list := services
	if _, v6 := kit.WayOf(env.Variant); v6 {
		list = services6
	}
	var names []string
	for _, address := range list {
		names = append(names, kit.NameFor(env.Nonce, env.Facts.Names.Metadata, netip.MustParseAddr(address)))
	}
	return fetchNames(ctx, env, names...)
}

// embeddedName asks for names that lead to IPv6 addresses in which the metadata
// address is hidden.
func embeddedName(ctx context.Context, env *probes.Env) manifest.Observation {
	var names []string
	for _, a := range kit.Embeddings(netip.MustParseAddr(linkLocal)) {
		names = append(names, kit.NameFor(env.Nonce, env.Facts.Names.Metadata, a))
	}
	return fetchNames(ctx, env, names...)
}
