package imd

import (
	"context"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/net/dns/dnsmessage"
)

// linkLocal is the address that most clouds serve metadata on.
const linkLocal = "169.254.169.254"

// cloud is one metadata service: where it is and what an attacker asks it.
type cloud struct {
	v4, v6 string
	host   string // Host field, "" for the address
	asks   []ask
}

type ask struct {
	path   string
	header []string
}

// clouds lists the services that one round of plain requests is enough for.
var clouds = map[string]cloud{
	"IMD-AWS-V1": {v4: linkLocal, v6: "fd00:ec2::254", asks: []ask{
		{path: "/latest/meta-data/iam/security-credentials/"}, {path: "/latest/user-data"}}},
	"IMD-ECS": {v4: "169.254.170.2", asks: []ask{{path: "/v2/credentials/00000000-0000-0000-0000-000000000000"}}},
	"IMD-EKS": {v4: "169.254.170.23", v6: "fd00:ec2::23", asks: []ask{{path: "/v1/credentials"}}},
	"IMD-GCP": {v4: linkLocal, v6: "fd20:ce::254", host: "metadata.google.internal", asks: []ask{
		{path: "/computeMetadata/v1/instance/service-accounts/default/token", header: []string{"Metadata-Flavor: Google"}}}},
	"IMD-AZURE": {v4: linkLocal, asks: []ask{
		{path: "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fmanagement.azure.com%2F", header: []string{"Metadata: true"}},
		{path: "/metadata/instance?api-version=2021-02-01", header: []string{"Metadata: true"}}}},
	"IMD-AZURE-WIRE": {v4: "168.63.129.16", asks: []ask{
		{path: "/machine/?comp=goalstate", header: []string{"x-ms-version: 2012-11-30"}}}},
	"IMD-OPENSTACK": {v4: linkLocal, asks: []ask{{path: "/openstack/latest/meta_data.json"}, {path: "/openstack/latest/user_data"}}},
	"IMD-ALIBABA":   {v4: "100.100.100.200", asks: []ask{{path: "/latest/meta-data/ram/security-credentials/"}}},
	"IMD-TENCENT":   {v4: "169.254.0.23", host: "metadata.tencentyun.com", asks: []ask{{path: "/latest/meta-data/cam/security-credentials/"}}},
	"IMD-ORACLE": {v4: linkLocal, asks: []ask{
		{path: "/opc/v2/instance/", header: []string{"Authorization: Bearer Oracle"}}, {path: "/opc/v1/instance/"}}},
	"IMD-DIGITALOCEAN": {v4: linkLocal, asks: []ask{{path: "/metadata/v1.json"}, {path: "/metadata/v1/user-data"}}},
	"IMD-VOLCENGINE":   {v4: "100.96.0.96", asks: []ask{{path: "/latest/iam/security_credentials/"}}},
}

// marked puts the nonce into a field of a request whose path and host are the
// service's own.
func marked(env *probes.Env, header []string) []string {
	return append(append([]string(nil), header...), "X-Wallproof-Nonce: "+env.Nonce)
}

func request(env *probes.Env, address, host, path string, header []string) *kit.Request {
	r := &kit.Request{Scheme: "http", Host: address, Path: path, Header: marked(env, header)}
	if host != "" {
		r.Hosts = []string{host}
	}
	return r
}

func (c cloud) attempt(ctx context.Context, env *probes.Env) manifest.Observation {
	way, v6 := kit.WayOf(env.Variant)
	address := c.v4
	if v6 {
		address = c.v6
	}
	var list []*kit.Request
	for _, a := range c.asks {
		host := c.host
		if way != kit.Direct {
			host = "" // another Host than the target's is a technique of its own
		}
		list = append(list, request(env, address, host, a.path, a.header))
	}
	return kit.Fetch(ctx, env, list...)
}

// awsV2 gets a session token, and credentials with it.
func awsV2(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	address := linkLocal
	if v6 {
		address = "fd00:ec2::254"
	}
	put := request(env, address, "", "/latest/api/token", []string{"X-aws-ec2-metadata-token-ttl-seconds: 21600"})
	put.Method, put.Body = "PUT", []byte{}
	a, err := t.HTTP(ctx, way, v6, put)
	if err != nil {
		return t.Fail(err)
	}
	o := kit.Observe(a)
	if o.Sign != manifest.SignReached {
		return t.Done(o)
	}
	token, _, _ := strings.Cut(string(a.Body), "\n")
	get := request(env, address, "", "/latest/meta-data/iam/security-credentials/", []string{"X-aws-ec2-metadata-token: " + strings.TrimSpace(token)})
	b, err := t.HTTP(ctx, way, v6, get)
	if err != nil {
		return t.Done(o)
	}
	return t.Done(kit.Worse(o, kit.Observe(b)))
}

// gcpName asks by the names that Google documents.
func gcpName(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []*kit.Request
	for _, name := range []string{"metadata.google.internal", "metadata.google.internal.", "METADATA.google.internal"} {
		list = append(list, request(env, name, "", "/computeMetadata/v1/instance/service-accounts/default/token", []string{"Metadata-Flavor: Google"}))
	}
	return kit.Fetch(ctx, env, list...)
}

// otherPorts tries relays: Nova's API, GKE's and Azure's agents, a container
// agent's, and TLS.
func otherPorts(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []*kit.Request
	for _, port := range []int{8775, 988, 32526, 51679, 8080} {
		r := request(env, linkLocal, "", "/latest/meta-data/", nil)
		r.Port = port
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}

// scanned are the addresses of services that have no technique of their own, and
// ranges in which services are, of each family.
var scanned = map[bool]struct{ addresses, ranges []string }{
	false: {[]string{"169.254.42.42", "192.0.0.192", "169.254.169.250", "169.254.170.3", "169.254.169.253", "192.0.0.170"},
		[]string{"169.254.0.0/16", "192.0.0.0/24", "100.64.0.0/10", "168.63.129.16/32"}},
	true: {[]string{"fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:ec2::253", "fd00:a9fe:a9fe::1"}, []string{"fd00::/8"}},
}

// scan goes over those addresses, and over what is known to be open in the ranges: by
// the packet filter's rules in force, and by the proxy's own account.
func scan(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	var list []*kit.Request
	for _, address := range scanned[v6].addresses {
		list = append(list, request(env, address, "", "/", nil))
	}
	o := kit.Fetch(ctx, env, list...)
	for _, r := range scanned[v6].ranges {
		within := netip.MustParsePrefix(r)
		o = kit.Opened(ctx, env, within, kit.Gaps(ctx, env, within, o))
	}
	return o
}

func resolver(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	query, err := kit.Question(kit.OutsideName(env), dnsmessage.TypeTXT)
	if err != nil {
		return kit.Sign(err)
	}
	m, err := t.AskUDP(ctx, netip.AddrPortFrom(netip.MustParseAddr("169.254.169.253"), 53).String(), query)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Answered(m))
}
