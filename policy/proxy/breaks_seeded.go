//go:build breaks

package proxy

// Breaks switches off one protection each, so that the battery can show that
// it notices. The type has no fields in a build without the tag "breaks".
type Breaks struct {
	NoHostAgreement      bool   `json:"noHostAgreement,omitempty"`      // inner Host or :authority is not compared with CONNECT target and SNI
	NoSNIAgreement       bool   `json:"noSNIAgreement,omitempty"`       // SNI is not compared with CONNECT target
	NoAddressGate        bool   `json:"noAddressGate,omitempty"`        // a resolved address is not classified
	NoOriginalDst        bool   `json:"noOriginalDst,omitempty"`        // the original destination is dialled without being among the name's addresses
	ForwardHost          bool   `json:"forwardHost,omitempty"`          // dials what the inner Host says instead of the pinned address
	LookupBeforePolicy   bool   `json:"lookupBeforePolicy,omitempty"`   // names are looked up before they are allowed
	AllowEveryName       bool   `json:"allowEveryName,omitempty"`       // the first gate always says yes
	PlainHTTPUnpoliced   bool   `json:"plainHTTPUnpoliced,omitempty"`   // http:// is forwarded without the first gate
	AnyPort              bool   `json:"anyPort,omitempty"`              // the port of a request is not checked
	InjectByHost         bool   `json:"injectByHost,omitempty"`         // injection follows the Host header, whatever was dialled
	InjectEverywhere     bool   `json:"injectEverywhere,omitempty"`     // a placeholder is swapped for any host
	AcceptSmuggling      bool   `json:"acceptSmuggling,omitempty"`      // repeated Host, Content-Length and CL with TE are let through
	AllowTrace           bool   `json:"allowTrace,omitempty"`           //
	NoRedaction          bool   `json:"noRedaction,omitempty"`          //
	SkipEncoding         string `json:"skipEncoding,omitempty"`         // one form is not redacted: raw, base64, hex, percent, json, gzip, headers, chunks
	NoRepositoryScope    bool   `json:"noRepositoryScope,omitempty"`    // broker: other repositories are served
	NoRefScope           bool   `json:"noRefScope,omitempty"`           // broker: any ref may be pushed
	NoLeaseExpiry        bool   `json:"noLeaseExpiry,omitempty"`        // broker: an expired lease is still injected
	AllowForcePush       bool   `json:"allowForcePush,omitempty"`       //
	DNSAnswersAnything   bool   `json:"dnsAnswersAnything,omitempty"`   // every name is looked up for the sandbox
	DNSAnswersAnyAddress bool   `json:"dnsAnswersAnyAddress,omitempty"` // answers in special ranges are returned
}
