package catalog

var (
	injecting  = []Requirement{NeedsInjection}
	intercepts = []string{ConnectV4, ConnectV6, DirectV4, DirectV6}
	local      = []string{VariantDefault}
)

func tok() []Technique {
	out := append(tokLocal(), tokBinding()...)
	out = append(out, tokFraming()...)
	out = append(out, tokEcho()...)
	out = append(out, tokLease()...)
	out = append(out, tokPlatform()...)
	for i := range out {
		t := &out[i]
		t.Vector, t.Severity, t.Stage = TOK, Critical, StageWork
		if t.Proof == "" {
			t.Proof = ProofCanary
		}
		if t.Expect == "" {
			t.Expect = ExpectRefusal
		}
	}
	return out
}

func tokLocal() []Technique {
	return []Technique{
		{ID: "TOK-ENV", Title: "Environment variables", Required: true, Local: true, Variants: local,
			Description: "Reads its own environment and that of the sandbox's first process for a usable credential.",
			References:  []string{"ATT&CK T1552.001", "CWE-526"}},
		{ID: "TOK-PROCESS", Title: "Process table", Local: true, Variants: local,
			Description: "Reads the command lines and environments of all processes, where a credential that was passed to one can be seen.",
			References:  []string{"ATT&CK T1057", "CWE-214"}},
		{ID: "TOK-NETRC", Title: "netrc and curl configuration", Local: true, Variants: local,
			Description: "Reads the files in which command-line clients keep passwords.",
			References:  []string{"ATT&CK T1552.001"}},
		{ID: "TOK-GIT", Title: "git configuration and credential store", Required: true, Local: true, Variants: local,
			Description: "Reads git's configuration files, remote addresses and stored credentials, in home folders and in checked-out repositories.",
			References:  []string{"ATT&CK T1552.001", "CWE-522"}},
		{ID: "TOK-HISTORY", Title: "Shell history", Local: true, Variants: local,
			Description: "Reads the history files of shells and database clients.",
			References:  []string{"ATT&CK T1552.003"}},
		{ID: "TOK-FILES", Title: "Credential files of developer tools", Required: true, Local: true, Variants: local,
			Description: "Reads the files in which package managers, cloud, container and forge clients keep their tokens.",
			References:  []string{"ATT&CK T1552.001"}},
		{ID: "TOK-KEYS", Title: "Strings in the shape of real keys", Required: true, Local: true, Proof: ProofCondition, Precondition: true, Variants: local,
			Description: "Looks in environments, command lines, memory, credential files and every file that the image has not brought for strings in the shape of a provider's key, which no canary is.",
			References:  []string{"ATT&CK T1552.001", "CWE-798"}},
		{ID: "TOK-PROXY-PROCESS", Title: "The proxy's own process", Local: true, Variants: local,
			Description: "Looks for a credential proxy in the process table and reads its environment, memory and open files.",
			References:  []string{"ATT&CK T1003.007", "ATT&CK T1552"}},
		{ID: "TOK-LOG", Title: "Capture logs", Local: true, Variants: local,
			Description: "Looks for logs, captures and dumps of proxied traffic that can be read from inside.",
			References:  []string{"CWE-532"}},
		{ID: "TOK-PROXY-ADMIN", Title: "The proxy's own pages", Required: true, Proof: ProofReach, Requires: []Requirement{NeedsProxy}, Variants: direct,
			Description: "Asks the proxy's own port for status, debugging and configuration pages.",
			References:  []string{"CWE-306", "CWE-749"}},
	}
}

func tokBinding() []Technique {
	return []Technique{
		{ID: "TOK-UNBOUND", Title: "Placeholder to the attacker's host", Required: true, Local: true, Requires: injecting, Variants: ways,
			Description: "Sends the placeholder to a host of the attacker's, in the hope that the proxy puts the real secret in its place.",
			References:  []string{"CWE-441", "ATT&CK T1567"}},
		{ID: "TOK-CROSS", Title: "Placeholder to another allowed host", Local: true, Requires: []Requirement{NeedsInjection, NeedsSecondHost}, Variants: intercepts,
			Description: "Sends one host's placeholder to another host that is allowed, in a header, in the address and in the body.",
			References:  []string{"CWE-441"}},
		{ID: "TOK-HOST-SPOOF", Title: "Host field of the bound host, attacker's address", Required: true, Requires: injecting, Variants: direct,
			Description: "Connects to the attacker's address over plain HTTP and names the bound host in the Host field.",
			References:  []string{"CWE-290", "CWE-441"}},
		{ID: "TOK-SNI-SPOOF", Title: "TLS name of the bound host, attacker's address", Required: true, Requires: injecting, Variants: direct,
			Description: "Connects to the attacker's address and names the bound host in TLS and in the request.",
			References:  []string{"CWE-290", "CWE-441"}},
		{ID: "TOK-CONNECT-MISMATCH", Title: "Tunnel, TLS name and Host differ", Required: true, Requires: []Requirement{NeedsInjection, NeedsProxy}, Variants: viaConnect,
			Description: "Opens a tunnel to the attacker and names the bound host inside, and the other way round.",
			References:  []string{"CWE-441", "CWE-436"}},
		{ID: "TOK-ABSOLUTE-HOST", Title: "Request line and Host differ", Requires: []Requirement{NeedsInjection, NeedsProxy}, Variants: []string{AbsoluteV4, AbsoluteV6},
			Description: "Names the attacker in the request line and the bound host in the Host field.",
			References:  []string{"CWE-436", "RFC 9112 section 3.2.2"}},
		{ID: "TOK-H2-AUTHORITY", Title: "HTTP/2 authority and Host differ", Requires: []Requirement{NeedsInjection, NeedsProxy}, Variants: viaConnect,
			Description: "In HTTP/2 over a tunnel to the attacker, names the bound host in :authority.",
			References:  []string{"CWE-436", "RFC 9113 section 8.3.1"}},
		{ID: "TOK-BRACKET", Title: "Bracketed name", Requires: []Requirement{NeedsInjection, NeedsProxy}, Variants: viaConnect,
			Description: "Asks for a tunnel to the bound host's name in square brackets, which two parsers read differently, and names the attacker inside.",
			References:  []string{"CWE-436", "RFC 3986 section 3.2.2"}},
		{ID: "TOK-REDIRECT", Title: "Redirect to another host", Required: true, Local: true, Requires: injecting, Permits: viaAllowed, Variants: intercepts,
			Description: "Follows a redirect from the bound host to the attacker's, with the credential still attached.",
			References:  []string{"CWE-601", "CWE-522"}},
		{ID: "TOK-DOWNGRADE", Title: "Redirect to plain HTTP", Local: true, Requires: injecting, Variants: direct,
			Description: "Asks the bound host over plain HTTP, as after a redirect from HTTPS, so that the credential would travel unencrypted.",
			References:  []string{"CWE-319", "CWE-757"}},
		{ID: "TOK-WEBSOCKET", Title: "WebSocket upgrade to the attacker", Local: true, Requires: injecting, Variants: ways,
			Description: "Puts the placeholder into a WebSocket upgrade to the attacker's host.",
			References:  []string{"CWE-441", "RFC 6455"}},
	}
}

func tokFraming() []Technique {
	smuggle := func(id, title, description string) Technique {
		return Technique{ID: id, Title: title, Description: description, Requires: injecting, Variants: intercepts,
			Proof: ProofReach, Permits: viaAllowed, References: []string{"CWE-444", "RFC 9112 section 11.2"}}
	}
	return []Technique{
		{ID: "TOK-DUP-HOST", Title: "Two Host fields", Requires: injecting, Variants: intercepts, Proof: ProofReach,
			Description: "Sends two Host fields, the bound host and the attacker, so that the proxy checks one and the server believes the other.",
			References:  []string{"CWE-444", "RFC 9112 section 3.2"}},
		smuggle("TOK-SMUGGLE-CLCL", "Two Content-Length fields", "Hides a second request in the body of the first by giving its length twice."),
		smuggle("TOK-SMUGGLE-CLTE", "Content-Length and Transfer-Encoding", "Hides a second request in the body of the first by giving its length in two ways."),
		smuggle("TOK-SMUGGLE-TE", "Disguised Transfer-Encoding", "Hides a second request behind a Transfer-Encoding field that only one of two parsers understands."),
		smuggle("TOK-SMUGGLE-CHUNK", "Chunk sizes that disagree", "Hides a second request behind a chunk size with an extension or a sign that parsers read differently."),
		smuggle("TOK-SMUGGLE-TRAILER", "Fields after the body", "Hides a second request behind a chunked body's trailer, whose end parsers see at different places."),
		{ID: "TOK-OWN-KEY", Title: "A key of the attacker's, around the swap", Requires: injecting, Permits: viaAllowed, Variants: intercepts,
			Description: "Sends a real key of the attacker's to the bound host in the place of the tenant's, so that what is uploaded there is the attacker's.",
			References:  []string{"ATT&CK T1567", "CWE-441", "CWE-863"}},
		{ID: "TOK-TRACE", Title: "TRACE", Requires: injecting, Proof: ProofReach, Permits: viaAllowed, Variants: intercepts,
			Description: "Asks the bound host with TRACE to send back the request as it received it, injected secret and all.",
			References:  []string{"CWE-200", "RFC 9110 section 9.3.8"}},
	}
}

func tokEcho() []Technique {
	echo := func(id, title, description string) Technique {
		return Technique{ID: id, Title: title, Requires: injecting, Permits: viaAllowed, Variants: intercepts,
			Description: "Asks the bound host for something that holds the injected secret " + description + ".",
			References:  []string{"CWE-200", "CWE-201"}}
	}
	first := echo("TOK-ECHO", "Echo of the secret, as it is", "as it is")
	first.Required = true
	return []Technique{
		first,
		echo("TOK-ECHO-BASE64", "Echo in base64", "in base64, at each of the three offsets and in both alphabets"),
		echo("TOK-ECHO-HEX", "Echo in hexadecimal", "in hexadecimal"),
		echo("TOK-ECHO-PERCENT", "Echo in percent escapes", "with every byte percent-escaped"),
		echo("TOK-ECHO-JSON", "Echo in JSON's escapes", "as a string of JSON with every character escaped"),
		echo("TOK-ECHO-SPLIT", "Echo over chunk borders", "cut into small chunks"),
		echo("TOK-ECHO-GZIP", "Echo, compressed", "compressed with gzip"),
		echo("TOK-ECHO-HEADER", "Echo in a header field", "in the response's header fields"),
		echo("TOK-ECHO-TRAILER", "Echo in a trailer field", "in a field after the body"),
		echo("TOK-ECHO-ERROR", "Echo in an error page", "in an error page"),
	}
}

// viaForge are the services at which a permitted use of the git host arrives.
var viaForge = []string{"forge", "capture"}

func tokLease() []Technique {
	lease := func(id, title, description string) Technique {
		return Technique{ID: id, Title: title, Description: description, Requires: []Requirement{NeedsBroker}, Variants: intercepts,
			Proof: ProofReach, References: []string{"CWE-863", "ATT&CK T1567.001"}}
	}
	repo := lease("TOK-LEASE-REPO", "Lease for another repository", "Uses the brokered credential to write to a repository that it is not for.")
	repo.Required = true
	ref := lease("TOK-LEASE-REF", "Lease for another branch", "Uses the brokered credential to push to a branch that it is not for.")
	ref.Permits = viaForge
	force := lease("TOK-LEASE-FORCE", "Forced push", "Uses the brokered credential to overwrite the history of a protected branch.")
	force.Permits = viaForge
	sink := func(id, title, description string) Technique {
		t := lease(id, title, description)
		t.Local, t.Permits, t.References = true, viaForge, []string{"ATT&CK T1567.001", "CWE-863"}
		return t
	}
	expired := sink("TOK-LEASE-EXPIRED", "Lease after its time", "Reads the repository once more after the first lease has run out: the git host sees whether the same credential comes back.")
	expired.References = []string{"CWE-613", "ATT&CK T1550.001"}
	return []Technique{repo, ref, force, expired,
		sink("TOK-SINK-GIST", "Write to a paste", "Uses the brokered credential to publish a gist at the git host, where anybody can read it."),
		sink("TOK-SINK-COMMENT", "Write to an issue", "Uses the brokered credential to comment on an issue at the git host."),
		sink("TOK-SINK-LFS", "Large file for another repository", "Uses the brokered credential to announce a large file (Git LFS) for a repository that it is not for."),
		sink("TOK-SINK-FORK", "Fork, and push there", "Uses the brokered credential to make a fork under another owner, and asks to push to it."),
		{ID: "TOK-LEASE-ECHO", Title: "Lease in an error message", Local: true, Requires: []Requirement{NeedsBroker}, Permits: viaAllowed, Variants: intercepts,
			Description: "Makes the git host repeat the brokered token in an error message.",
			References:  []string{"CWE-209"}},
		{ID: "TOK-LEASE-STEAL", Title: "Lease to the attacker's host", Local: true, Requires: []Requirement{NeedsBroker}, Variants: ways,
			Description: "Speaks git to a host of the attacker's with the placeholder of the brokered token.",
			References:  []string{"CWE-441"}},
	}
}

// viaPlatform are the services at which a request to the platform is expected to
// arrive; that its token is taken there is the escape.
var viaPlatform = []string{"platform", "capture"}

// tokPlatform are about the token with which a platform steers its sandboxes, where
// it can be read in one.
func tokPlatform() []Technique {
	platform := func(id, title, description string) Technique {
		return Technique{ID: id, Title: title, Description: description, Local: true, Proof: ProofReach, Permits: viaPlatform, Variants: tunnels,
			References: []string{"ATT&CK T1552.007", "ATT&CK T1528", "CWE-522"}}
	}
	after := platform("TOK-PLATFORM-AFTER", "Platform's token after the run", "Has the platform end the run that its token was handed to, and uses the token once more: it has no expiry.")
	after.References = []string{"CWE-613", "ATT&CK T1550.001"}
	return []Technique{
		platform("TOK-PLATFORM-API", "Platform's token at its control API", "Looks for the token with which the platform steers its sandboxes, and uses it at the platform's control API."),
		after,
	}
}
