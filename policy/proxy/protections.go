package proxy

// protection names one thing that a build with the tag "breaks" can switch off.
// In a release build Breaks.skip is constantly false.
type protection uint8

const (
	hostAgreement protection = iota
	sniAgreement
	addressGate
	originalDst
	pinnedAddress
	policyBeforeLookup
	nameGate
	plainHTTPGate
	portGate
	injectionBinding
	placeholderBinding
	strictFraming
	traceRefusal
	redaction
	redactHeaders
	redactAcrossChunks
	redactEncoded
	redactTrailers
	redactErrors
	repositoryScope
	refScope
	leaseExpiry
	forceRefusal
	dnsNames
	dnsTypes
	dnsAddresses
	pinnedRefusal
	modelHostGate
	hostedSearch
	apiReadOnly
	strangersCredential
)
