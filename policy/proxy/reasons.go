package proxy

// Reason codes of refusals that are the proxy's own, beside those of packages
// policy (the decision) and httpx (malformed messages). They are stable.
const (
	ReasonBadAuthority     = "bad-authority"         // CONNECT target or Host that is not one host with a port
	ReasonHostMismatch     = "host-mismatch"         // Host or :authority differs from CONNECT target, SNI, or absolute form
	ReasonSNIMismatch      = "sni-mismatch"          // SNI differs from CONNECT target
	ReasonSNIMissing       = "sni-missing"           // TLS to a name without SNI
	ReasonSNIAddress       = "sni-address"           // SNI that is an address
	ReasonNotTLS           = "not-tls"               // something else than TLS where TLS is due
	ReasonBadHello         = "bad-client-hello"      //
	ReasonTLSPinned        = "tls-pinned"            // the client does not trust the run's authority
	ReasonTLSClient        = "tls-client"            // the client's handshake failed otherwise
	ReasonOriginalDst      = "original-destination"  // the dialled address is none of the name's
	ReasonNoOriginal       = "no-original"           // not a redirected connection
	ReasonResolveFailed    = "resolve-failed"        // allowed, but the look-up failed
	ReasonNoAddress        = "no-address"            // allowed, but the name has no address
	ReasonDialFailed       = "dial-failed"           // allowed, but nobody answered
	ReasonUpstreamTLS      = "upstream-tls"          // the upstream's certificate or handshake is bad
	ReasonUpstreamResponse = "upstream-malformed"    // a response that cannot be read exactly
	ReasonUpstreamClosed   = "upstream-closed"       // closed before a response came
	ReasonEncoding         = "encoding-unknown"      // a content coding that redaction cannot look into
	ReasonRangeUnasked     = "range-unasked"         // part of a body that was asked for whole
	ReasonMethodRefused    = "method-refused"        // TRACE, CONNECT within a connection
	ReasonNotProxyRequest  = "not-a-proxy-request"   // origin form at the explicit listener, or the other way round
	ReasonEarlyData        = "early-data"            // bytes after CONNECT before its answer
	ReasonPlaceholder      = "placeholder-unbound"   // a placeholder goes where its secret may not
	ReasonOverride         = "request-override"      // a field says another method or path, and a credential depends on it
	ReasonSecretMissing    = "secret-missing"        // a rule names a secret that this run does not have
	ReasonUpgrade          = "bad-upgrade"           // a malformed WebSocket upgrade
	ReasonConnections      = "too-many-connections"  //
	ReasonTimeout          = "timeout"               //
	ReasonDNSType          = "dns-type"              // a query type that is never answered
	ReasonDNSMalformed     = "dns-malformed"         //
	ReasonSOCKS            = "bad-socks"             //
	ReasonSOCKSCommand     = "socks-command"         // BIND or UDP ASSOCIATE
	ReasonClient           = "client-unknown"        // not one of Config.Clients
	ReasonInternal         = "internal"              // a contained failure of the proxy itself
	ReasonLimit            = "limit"                 // a limit of the policy is used up
	ReasonPin              = "pin-mismatch"          // an artefact that is not pinned
	ReasonLeaseRepository  = "lease-repository"      // a brokered host, another repository
	ReasonLeaseRef         = "lease-ref"             // a push outside the ref pattern
	ReasonLeaseDelete      = "lease-delete"          // a push that deletes a ref
	ReasonLeaseForce       = "lease-force"           // a push that is not known to be a fast-forward
	ReasonLeaseExpired     = "lease-expired"         //
	ReasonLeaseMint        = "lease-mint-failed"     // the forge gave no token
	ReasonLeasePush        = "lease-push-malformed"  // a push that cannot be read exactly
	ReasonModelRequest     = "model-request"         // a request that the model's interface does not have
	ReasonModelDenied      = "model-denied"          // a model that the policy does not list
	ReasonModelSearch      = "model-hosted-search"   // asks for the provider's hosted search
	ReasonModelRemote      = "model-remote"          // names what the provider would fetch: an image or a document by its URL
	ReasonModelKey         = "model-key"             // without the run's proxy key
	ReasonShutdown         = "shutdown"              //
	ReasonReloadRouting    = "reload-routing"        // an edit that needs another routing
	ReasonReloadInvalid    = "reload-invalid"        // an edit that is no valid policy
	ReasonReloadSecret     = "reload-secret-missing" // an edit that needs a secret that was not given
)
