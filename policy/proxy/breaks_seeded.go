//go:build breaks

package proxy

import (
	"bufio"
	"io"
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
	case redactHeaders, redactAcrossChunks, redactEncoded:
		return b.SkipEncoding == map[protection]string{redactHeaders: "headers", redactAcrossChunks: "chunks", redactEncoded: "encoded"}[p]
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
		for i := range q.header {
			if b.InjectEverywhere && sec.placeholder != "" && strings.Contains(q.header[i].Value, sec.placeholder) {
				q.header[i].Value = strings.ReplaceAll(q.header[i].Value, sec.placeholder, sec.value)
				names = append(names, name)
			}
		}
	}
	return names
}
