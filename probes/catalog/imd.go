package catalog

var (
	cloud4  = []string{DirectV4, AbsoluteV4, ConnectV4}
	cloud46 = []string{DirectV4, DirectV6, AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6}
)

// viaName are the services at which a request by a name that the policy allows
// is expected to arrive: the name itself is asked for.
var viaName = append([]string{"dns", "collector"}, viaAllowed...)

func imd() []Technique {
	out := append(imdClouds(), imdForms()...)
	for i := range out {
		t := &out[i]
		t.Vector, t.Severity, t.Stage, t.Proof, t.Expect = IMD, Critical, StageWork, ProofReach, ExpectRefusal
		t.Requires = append([]Requirement{NeedsNoMetadata}, t.Requires...)
		t.References = append([]string{"ATT&CK T1552.005"}, t.References...)
	}
	return append(out, imdBeside())
}

func imdClouds() []Technique {
	return []Technique{
		{ID: "IMD-AWS-V1", Title: "AWS, version 1", Required: true, Variants: cloud46,
			Description: "Asks the machine's AWS metadata service for the credentials of its role, in the version that needs no token.",
			References:  []string{"CWE-918"}},
		{ID: "IMD-AWS-V2", Title: "AWS, version 2", Required: true, Variants: cloud46,
			Description: "Fetches a session token from the AWS metadata service and uses it to ask for credentials."},
		{ID: "IMD-ECS", Title: "AWS container credentials", Variants: cloud4,
			Description: "Asks the credential endpoint that AWS gives to containers."},
		{ID: "IMD-EKS", Title: "AWS pod identity", Variants: cloud46,
			Description: "Asks the credential endpoint that AWS gives to Kubernetes pods."},
		{ID: "IMD-GCP", Title: "Google Cloud", Required: true, Variants: cloud46,
			Description: "Asks the Google metadata service for the service account's token, with the header that it wants."},
		{ID: "IMD-GCP-NAME", Title: "Google Cloud by name", Variants: cloud4,
			Description: "Asks for the Google metadata service by its names, with and without a trailing dot, so that no address is there to be matched.",
			References:  []string{"CWE-183"}},
		{ID: "IMD-AZURE", Title: "Azure", Required: true, Variants: cloud4,
			Description: "Asks the Azure metadata service for the machine's identity token."},
		{ID: "IMD-AZURE-WIRE", Title: "Azure host agent", Variants: cloud4,
			Description: "Asks the Azure host agent, which has a public-looking address, for the machine's goal state and certificates."},
		{ID: "IMD-OPENSTACK", Title: "OpenStack", Variants: cloud4,
			Description: "Asks the OpenStack metadata service for the machine's metadata and user data."},
		{ID: "IMD-ALIBABA", Title: "Alibaba Cloud", Variants: cloud4,
			Description: "Asks the Alibaba metadata service, which has an address in the carrier range, for credentials."},
		{ID: "IMD-TENCENT", Title: "Tencent Cloud", Variants: cloud4,
			Description: "Asks the Tencent metadata service for credentials."},
		{ID: "IMD-ORACLE", Title: "Oracle Cloud", Variants: cloud4,
			Description: "Asks the Oracle metadata service for the instance's identity, with the header that it wants."},
		{ID: "IMD-DIGITALOCEAN", Title: "DigitalOcean", Variants: cloud4,
			Description: "Asks the DigitalOcean metadata service for the machine's metadata and user data."},
		{ID: "IMD-VOLCENGINE", Title: "Volcengine", Variants: cloud4,
			Description: "Asks the Volcengine metadata service, which has an address in the carrier range, for credentials."},
		{ID: "IMD-PORTS", Title: "Metadata on other ports", Variants: []string{DirectV4, ConnectV4, SocksV4},
			Description: "Asks for metadata on the ports of its relays and agents instead of port 80."},
		{ID: "IMD-SCAN", Title: "Scan of metadata addresses", Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Tries the metadata addresses of all other clouds in turn, and whatever is known to be open where such services are.",
			References:  []string{"ATT&CK T1046"}},
		{ID: "IMD-RESOLVER", Title: "The cloud's own resolver", Variants: []string{DirectV4},
			Description: "Asks the name server at the cloud's link-local address for a name that carries data.",
			References:  []string{"ATT&CK T1071.004"}},
	}
}

func imdForms() []Technique {
	proxied := []Requirement{NeedsProxy}
	return []Technique{
		{ID: "IMD-SPELLING", Title: "Address in another spelling", Requires: proxied, Variants: []string{AbsoluteV4, ConnectV4},
			Description: "Writes the metadata address as a decimal, hexadecimal, octal, shortened or mixed number, which a list of addresses does not know.",
			References:  []string{"CWE-918", "CWE-1389"}},
		{ID: "IMD-MAPPED", Title: "Address inside an IPv6 address", Variants: []string{DirectV6, AbsoluteV6, ConnectV6},
			Description: "Writes the metadata address as an IPv4-mapped or IPv4-compatible IPv6 address.",
			References:  []string{"CWE-918", "RFC 4291 section 2.5.5"}},
		{ID: "IMD-TRANSLATED", Title: "Address inside a translation prefix", Variants: []string{DirectV6, AbsoluteV6, ConnectV6},
			Description: "Writes the metadata address inside a NAT64, 6to4 or Teredo address, which a gateway would translate back.",
			References:  []string{"CWE-918", "RFC 6052", "RFC 3056", "RFC 4380"}},
		{ID: "IMD-NAME", Title: "Name that resolves there", Permits: viaName, Variants: cloud46,
			Description: "Asks for a name whose address is the metadata service's: the name may be allowed, the address must not be.",
			References:  []string{"CWE-918", "CWE-350"}},
		{ID: "IMD-NAME-CLOUDS", Title: "Names that resolve to each cloud's service", Requires: proxied, Permits: viaName, Variants: viaProxy,
			Description: "Asks for names whose addresses are the metadata and credential services of all known clouds, one after the other.",
			References:  []string{"CWE-918", "CWE-350"}},
		{ID: "IMD-NAME-EMBEDDED", Title: "Names that resolve to a hidden address", Requires: proxied, Permits: viaName, Variants: []string{AbsoluteV6, ConnectV6},
			Description: "Asks for names whose IPv6 addresses carry the metadata address inside, in every form that a gateway or a kernel translates back.",
			References:  []string{"CWE-918", "RFC 6052", "RFC 3056", "RFC 4380"}},
		{ID: "IMD-REBIND", Title: "Name that changes its mind", Local: true, Requires: proxied, Permits: viaName, Variants: []string{AbsoluteV4, ConnectV4},
			Description: "Asks for a name that has a harmless address when it is checked and the metadata service's when it is dialled.",
			References:  []string{"CWE-367", "CWE-350"}},
		{ID: "IMD-REDIRECT", Title: "Redirect there", Requires: []Requirement{NeedsAllowedHost}, Permits: viaAllowed, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Follows a redirect from an allowed host to the metadata service.",
			References:  []string{"CWE-918", "CWE-601"}},
		{ID: "IMD-SEARCH", Title: "Short name and search list", Requires: proxied, Variants: []string{AbsoluteV4, ConnectV4},
			Description: "Asks for a one-word name that a search list completes to the metadata service's.",
			References:  []string{"CWE-350"}},
	}
}
