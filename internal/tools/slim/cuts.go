package main

// cut is what is left out of one module.
type cut struct {
	module    string
	browser   bool                // made for the browser alone
	files     []string            // patterns of files that are left out
	only      map[string][]string // of a folder's Go files only these stay
	functions map[string][]string // functions, methods and types that are left out of a file
	instead   map[string]string   // what stands in a file's place
	added     map[string]string   // files that are added
	imports   map[string]string   // import paths that become others, in the whole module
}

// cuts are all of them. Each names code that reaches for a network, a terminal, a
// file system or another process, or that takes long to start for nothing.
var cuts = []cut{
	{
		// Everything but the types of statements: running commands, reading layouts,
		// keys in files, access(2).
		module:    "github.com/in-toto/in-toto-golang",
		only:      map[string][]string{"in_toto": {"attestations.go"}},
		functions: map[string][]string{"in_toto/attestations.go": {"LinkStatement"}},
		added:     map[string]string{"in_toto/payload.go": "package in_toto\n\n// PayloadType is the payload type of statements.\nconst PayloadType = \"application/vnd.in-toto+json\"\n"},
	},
	{
		// Signatures over image names, and asking for a password.
		module:    "github.com/sigstore/sigstore",
		functions: map[string][]string{"pkg/signature/util.go": {"SignImage", "VerifyImageSignature"}},
	},
	{
		// The log's service, as client, server and gateway.
		module: "github.com/sigstore/rekor-tiles/v2",
		files:  []string{"pkg/generated/protobuf/rekor_service*.go"},
	},
	{
		// Asking a log for proofs.
		module:    "github.com/sigstore/rekor",
		functions: map[string][]string{"pkg/verify/verify.go": {"ProveConsistency", "VerifyCurrentCheckpoint"}},
		instead:   map[string]string{"pkg/util/fetch.go": fetchNothing},
	},
	{
		// Fetching roots and signing configurations by TUF.
		module: "github.com/sigstore/sigstore-go",
		functions: map[string][]string{
			"pkg/root/trusted_root.go":   {"FetchTrustedRoot", "FetchTrustedRootWithOptions", "GetTrustedRoot", "NewLiveTrustedRoot", "NewLiveTrustedRootFromTarget", "NewLiveTrustedRootFromTargetWithPeriod"},
			"pkg/root/signing_config.go": {"FetchSigningConfig", "FetchSigningConfigWithOptions", "GetSigningConfig"},
		},
	},
	{
		// Asking a certificate log.
		module:    "github.com/google/certificate-transparency-go",
		files:     []string{"ctutil/loginfo.go"},
		functions: map[string][]string{"x509util/files.go": {"ReadPossiblePEMURL", "ReadFileOrURL", "GetIssuer"}},
	},
	{
		// Validation of whole API descriptions; of values alone stays.
		module: "github.com/go-openapi/validate",
		only:   map[string][]string{".": {"values.go", "context.go", "rexp.go", "helpers.go"}},
		functions: map[string][]string{
			"values.go":  {"IsValueValidAgainstRange"},
			"helpers.go": {"errorHelper.sErr", "errorHelper.addPointerError", "paramHelper.safeExpandedParamsFor", "paramHelper.resolveParam", "paramHelper.checkExpandedParam", "responseHelper.expandResponseRef", "responseHelper.responseMsgVariants"},
		},
	},
	{
		// Clients, servers and the formats of bodies that are not JSON.
		module:    "github.com/go-openapi/runtime",
		only:      map[string][]string{".": {"json.go", "interfaces.go", "constants.go"}},
		functions: map[string][]string{"interfaces.go": {"AuthorizerFunc", "AuthorizerFunc.Authorize", "Authorizer"}},
	},
	{
		// A packet's policy is canonical JSON; YAML is what people write.
		module:  "go.yaml.in/yaml/v3",
		browser: true,
		only:    map[string][]string{".": {}},
		instead: map[string]string{"yaml.go": noYAML},
	},
	{
		// Loading from files and addresses, and YAML.
		module: "github.com/go-openapi/swag",
		only:   map[string][]string{".": {"jsonutils_iface.go", "typeutils_iface.go"}},
	},
	{
		// The tables of the world's currencies and countries, in which no log entry is.
		module:  "github.com/go-openapi/strfmt",
		instead: map[string]string{"currency.go": noCurrency, "country.go": noCountry},
	},
	{
		// Eighty patterns that are compiled at the start, for one function.
		module:  "github.com/asaskevich/govalidator",
		only:    map[string][]string{".": {}},
		instead: map[string]string{"validator.go": isEmail},
	},
	{
		// A test that starts openssl, in a file that is not named as one.
		module: "github.com/digitorus/pkcs7",
		files:  []string{"verify_test_dsa.go"},
	},
	{
		// Answering requests. The status codes of error values stay.
		module:    "github.com/go-openapi/errors",
		functions: map[string][]string{"api.go": {"ServeError"}},
		imports:   map[string]string{"net/http": "github.com/go-openapi/errors/http"},
		added:     map[string]string{"http/http.go": statusCodes},
	},
}

// fetchNothing takes the content that it is given and refuses an address.
const fetchNothing = `package util

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// FileOrURLReadCloser returns the content. There is no network here.
func FileOrURLReadCloser(_ context.Context, url string, content []byte) (io.ReadCloser, error) {
	if url != "" {
		return nil, errors.New("there is no network to fetch from")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}
`

// noYAML reads nothing.
const noYAML = `package yaml

import (
	"errors"
	"io"
)

// Kind is a node's kind.
type Kind uint32

// The kinds.
const (
	DocumentNode Kind = 1 << iota
	SequenceNode
	MappingNode
	ScalarNode
	AliasNode
)

// Style is how a node is written.
type Style uint32

// TaggedStyle marks a node with a tag.
const TaggedStyle Style = 1

// Node is a part of a document.
type Node struct {
	Kind               Kind
	Style              Style
	Tag, Value, Anchor string
	Content            []*Node
	Line, Column       int
}

// ShortTag returns no tag.
func (n *Node) ShortTag() string { return n.Tag }

// Decoder reads no document.
type Decoder struct{}

// NewDecoder returns a Decoder.
func NewDecoder(io.Reader) *Decoder { return &Decoder{} }

// Decode refuses.
func (*Decoder) Decode(interface{}) error { return errors.New("yaml: not read here") }
`

// noCurrency knows no currency, so that every text is refused as one.
const noCurrency = `package strfmt

import "errors"

// Currency would be a currency's code.
type Currency struct{ code string }

// IsCurrency refuses every text.
func IsCurrency(string) bool { return false }

// ParseCurrency refuses every text.
func ParseCurrency(string) (Currency, error) { return Currency{}, errors.New("no currency is known here") }

// MarshalText returns the code.
func (u Currency) MarshalText() ([]byte, error) { return []byte(u.code), nil }

// UnmarshalText refuses every text.
func (u *Currency) UnmarshalText([]byte) error { return errors.New("no currency is known here") }

// String returns the code.
func (u Currency) String() string { return u.code }
`

// noCountry knows no country, so that every text is refused as one.
const noCountry = `package strfmt

import "errors"

// Country would be a country's code.
type Country struct{ code string }

// IsCountry refuses every text.
func IsCountry(string) bool { return false }

// ParseCountry refuses every text.
func ParseCountry(string) (Country, error) { return Country{}, errors.New("no country is known here") }

// MarshalText returns the code.
func (u Country) MarshalText() ([]byte, error) { return []byte(u.code), nil }

// UnmarshalText refuses every text.
func (u *Country) UnmarshalText([]byte) error { return errors.New("no country is known here") }

// String returns the code.
func (u Country) String() string { return u.code }
`

// isEmail is the one function of its module that is used: for the index of a log,
// which nobody keeps here.
const isEmail = `package govalidator

import "net/mail"

// IsEmail tells whether a text is an address and nothing else.
func IsEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
`

// statusCodes are the numbers of RFC 9110 that error values carry.
const statusCodes = `package http

const (
	StatusBadRequest           = 400
	StatusUnauthorized         = 401
	StatusNotFound             = 404
	StatusMethodNotAllowed     = 405
	StatusNotAcceptable        = 406
	StatusUnsupportedMediaType = 415
	StatusUnprocessableEntity  = 422
	StatusInternalServerError  = 500
	StatusNotImplemented       = 501
)
`

// wanted lists what must be met while copying.
func (c cut) wanted() []string {
	var out []string
	out = append(out, c.files...)
	for dir, keep := range c.only {
		for _, k := range keep {
			out = append(out, dir+"/"+k)
		}
	}
	for f := range c.functions {
		out = append(out, f)
	}
	for f := range c.instead {
		out = append(out, f)
	}
	return out
}
