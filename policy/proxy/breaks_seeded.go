//go:build breaks

package proxy

import (
	"bufio"
	"io"
	"reflect"
	"strings"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Breaks switches off one protection each, so that the battery can show that
// it notices. The type has no fields in a build without the tag "breaks".
type Breaks struct {
	NoHostAgreement      bool   `json:"noHostAgreement,omitempty"`      // inner Host or :authority is not compared with CONNECT target and SNI
	NoSNIAgreement       bool   `json:"noSNIAgreement,omitempty"`       // SNI is not compared with CONNECT target
	NoAddressGate        bool   `json:"noAddressGate,omitempty"`        // a resolved address is not classified
	NoOriginalDst        bool   `json:"noOriginalDst,omitempty"`        // the original destination is dialled without being among the name's addresses
	ForwardHost          bool   `json:"forwardHost,omitempty"`          // dials what the inner Host says instead of the pinned target
	LookupBeforePolicy   bool   `json:"lookupBeforePolicy,omitempty"`   // names are looked up before they are allowed
	AllowEveryName       bool   `json:"allowEveryName,omitempty"`       // the first gate always says yes
	PlainHTTPUnpoliced   bool   `json:"plainHTTPUnpoliced,omitempty"`   // http:// is forwarded without the first gate
	AnyPort              bool   `json:"anyPort,omitempty"`              // a host that is allowed at some port is allowed at all
	InjectByHost         bool   `json:"injectByHost,omitempty"`         // injection follows the Host header, whatever was dialled
	InjectEverywhere     bool   `json:"injectEverywhere,omitempty"`     // a placeholder is swapped for any host
	AcceptSmuggling      bool   `json:"acceptSmuggling,omitempty"`      // repeated Host, Content-Length and CL with TE are let through
	AllowTrace           bool   `json:"allowTrace,omitempty"`           //
	NoRedaction          bool   `json:"noRedaction,omitempty"`          //
	SkipEncoding         string `json:"skipEncoding,omitempty"`         // one form is not redacted: raw, base64, hex, percent, json, html, encoded, headers, chunks
	NoRepositoryScope    bool   `json:"noRepositoryScope,omitempty"`    // broker: other repositories are served
	NoRefScope           bool   `json:"noRefScope,omitempty"`           // broker: any ref may be pushed
	NoLeaseExpiry        bool   `json:"noLeaseExpiry,omitempty"`        // broker: an expired lease is still injected
	AllowForcePush       bool   `json:"allowForcePush,omitempty"`       //
	DNSAnswersAnything   bool   `json:"dnsAnswersAnything,omitempty"`   // every name is looked up for the sandbox
	DNSAnswersAnyAddress bool   `json:"dnsAnswersAnyAddress,omitempty"` // answers in special ranges are returned
	DNSTypesUnpoliced    bool   `json:"dnsTypesUnpoliced,omitempty"`    // queries for anything but addresses are passed on unseen
	WavePinned           bool   `json:"wavePinned,omitempty"`           // a client that does not trust the run's authority is passed on unread the next time
	ModelUnpoliced       bool   `json:"modelUnpoliced,omitempty"`       // the declared model's host may be asked for anything
	SearchPassed         bool   `json:"searchPassed,omitempty"`         // a request for the provider's hosted search is passed on
	WriteSinks           bool   `json:"writeSinks,omitempty"`           // broker: writes to the forge's interface get a lease, too
	OwnCredential        bool   `json:"ownCredential,omitempty"`        // broker: a credential that the sandbox sends is passed on

	SkipNormalisation  string `json:"skipNormalisation,omitempty"`  // one step of reading a host is left out: see normalisations
	NameMatch          string `json:"nameMatch,omitempty"`          // names are compared wrongly: see nameMatches
	SkipPathStep       string `json:"skipPathStep,omitempty"`       // one step of reading a path is left out: see pathSteps
	OpenRange          string `json:"openRange,omitempty"`          // a range that the second gate does not look at
	ResolveTwice       bool   `json:"resolveTwice,omitempty"`       // what is dialled is looked up once more after it was judged
	FollowRedirects    string `json:"followRedirects,omitempty"`    // redirects are followed by the proxy: "keep" or "strip" credentials
	AdminPage          string `json:"adminPage,omitempty"`          // a page of the proxy's own that shows its secrets
	NoMethodGate       bool   `json:"noMethodGate,omitempty"`       // a method that is refused is let through
	NoPathGate         bool   `json:"noPathGate,omitempty"`         // a path that is refused is let through
	OnlyFirstRequest   bool   `json:"onlyFirstRequest,omitempty"`   // of a connection's requests only the first is policed
	ExpectUnpoliced    bool   `json:"expectUnpoliced,omitempty"`    // a request with Expect is forwarded before it is judged
	WebSocketUnpoliced bool   `json:"webSocketUnpoliced,omitempty"` // an upgrade is not policed
	UnpolicedListener  string `json:"unpolicedListener,omitempty"`  // a listener without the first gate: explicit, socks, transparent
	UnpolicedPort      uint16 `json:"unpolicedPort,omitempty"`      // a port at which every host is allowed

	// Neighbour are another tenant's secrets, which this proxy must not know.
	Neighbour       []Secret `json:"neighbour,omitempty"`
	NeighbourHeader string   `json:"neighbourHeader,omitempty"`
}

// set counts what is switched off.
func (b Breaks) set() int {
	n := 0
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			n++
		}
	}
	return n
}

func (b Breaks) skip(p protection) bool {
	switch p {
	case hostAgreement:
		return b.NoHostAgreement || b.ForwardHost || b.InjectByHost
	case sniAgreement:
		return b.NoSNIAgreement
	case addressGate:
		return b.NoAddressGate
	case originalDst:
		return b.NoOriginalDst
	case pinnedAddress:
		return b.ForwardHost
	case policyBeforeLookup:
		return b.LookupBeforePolicy
	case nameGate:
		return b.AllowEveryName
	case plainHTTPGate:
		return b.PlainHTTPUnpoliced
	case portGate:
		return b.AnyPort
	case injectionBinding:
		return b.InjectByHost
	case placeholderBinding:
		return b.InjectEverywhere
	case strictFraming:
		return b.AcceptSmuggling
	case traceRefusal:
		return b.AllowTrace
	case redaction:
		return b.NoRedaction
	case redactHeaders, redactAcrossChunks, redactEncoded, redactTrailers, redactErrors:
		return b.SkipEncoding == map[protection]string{redactHeaders: "headers", redactAcrossChunks: "chunks", redactEncoded: "encoded",
			redactTrailers: "trailers", redactErrors: "errors"}[p]
	case repositoryScope:
		return b.NoRepositoryScope
	case refScope:
		return b.NoRefScope
	case leaseExpiry:
		return b.NoLeaseExpiry
	case forceRefusal:
		return b.AllowForcePush
	case dnsNames:
		return b.DNSAnswersAnything
	case dnsAddresses:
		return b.DNSAnswersAnyAddress
	case dnsTypes:
		return b.DNSTypesUnpoliced
	case pinnedRefusal:
		return b.WavePinned
	case modelHostGate:
		return b.ModelUnpoliced
	case hostedSearch:
		return b.SearchPassed
	case strangersCredential:
		return b.OwnCredential
	case apiReadOnly:
		return b.WriteSinks
	}
	return false
}

// relax reads framing as careless parsers do.
func (b Breaks) relax(r *httpx.RequestReader) { r.Lax = b.AcceptSmuggling }

// framing is how a body's length is written when that is seeded to be wrong.
type framing string

func (f framing) write(w *bufio.Writer) bool {
	_, _ = w.WriteString(string(f))
	return f != ""
}

// misframe passes on what was ambiguous: the last of several Host and
// Content-Length fields, and Transfer-Encoding beside Content-Length.
func (b Breaks) misframe(req *httpx.Request, q *request) {
	if b.NeighbourHeader != "" && req.Header.Has(b.NeighbourHeader) {
		req.Header.Set(believedField, "1") // also where the field is one that goes no further
	}
	if !b.AcceptSmuggling {
		return
	}
	for _, f := range req.Header {
		switch {
		case strings.EqualFold(f.Name, "Host"):
			if t, err := parseAuthority(f.Value, defaultPort(q.scheme)); err == nil {
				q.claimed = t
			}
		case strings.EqualFold(f.Name, "Content-Length") && req.Header.Count("Content-Length") > 1:
			q.framing = framing("Content-Length: " + f.Value + "\r\n")
		case strings.EqualFold(f.Name, "Transfer-Encoding") && req.Header.Has("Content-Length"):
			q.framing = "Transfer-Encoding: chunked\r\n"
		}
	}
}

// bodyMasker masks each read by itself.
func (b Breaks) bodyMasker(live *redact.Live, src io.Reader) io.Reader {
	if b.SkipEncoding != "chunks" {
		return nil
	}
	return readFunc(func(p []byte) (int, error) {
		n, err := src.Read(p)
		live.Get().Bytes(p[:n])
		return n, err
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func redactForms(cfg *Config) redact.Forms {
	skipped := map[string]redact.Forms{
		"raw": redact.Raw, "base64": redact.Base64, "hex": redact.Hex,
		"percent": redact.Percent, "json": redact.JSON, "html": redact.HTML,
	}
	forms := redact.AllForms &^ skipped[cfg.Breaks.SkipEncoding]
	if cfg.Breaks.NoRedaction {
		forms = 0
	}
	return forms
}

// swapAnywhere puts values in the place of placeholders whatever the target is.
func (b Breaks) swapAnywhere(r *rules, q *request) []string {
	var names []string
	for name, sec := range r.secrets {
		if b.InjectEverywhere && sec.placeholder != "" {
			q.path, q.query = strings.ReplaceAll(q.path, sec.placeholder, sec.value), strings.ReplaceAll(q.query, sec.placeholder, sec.value)
		}
		for i := range q.header {
			if b.InjectEverywhere && sec.placeholder != "" && strings.Contains(q.header[i].Value, sec.placeholder) {
				q.header[i].Value = strings.ReplaceAll(q.header[i].Value, sec.placeholder, sec.value)
				names = append(names, name)
			}
		}
	}
	return names
}
