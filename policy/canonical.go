package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy/host"
)

// The canonical document. Its members are keys of the language; encoding/json
// writes them and package canon sorts them.
type (
	canonDocument struct {
		Version     int               `json:"version"`
		Evaluator   int               `json:"evaluator"`
		Mode        Mode              `json:"mode"`
		OnFailure   OnFailure         `json:"on-failure"`
		Allow       []json.RawMessage `json:"allow,omitempty"`
		Block       []json.RawMessage `json:"block,omitempty"`
		Secrets     []canonSecret     `json:"secrets,omitempty"`
		Broker      []canonBroker     `json:"broker,omitempty"`
		Model       *canonModel       `json:"model,omitempty"`
		Environment *canonEnvironment `json:"environment,omitempty"`
		Services    []canonService    `json:"services,omitempty"`
		Phases      canonPhases       `json:"phases"`
		Limits      *canonLimits      `json:"limits,omitempty"`
		Lingering   *canonLingering   `json:"lingering,omitempty"`
		Egress      *canonEgress      `json:"egress,omitempty"`
	}
	canonPhases struct {
		Setup    canonPhase `json:"setup"`
		Verifier canonPhase `json:"verifier"`
	}
	canonPhase struct {
		Mode  Mode              `json:"mode"`
		Allow []json.RawMessage `json:"allow,omitempty"`
		Block []json.RawMessage `json:"block,omitempty"`
	}
	canonSecret struct {
		Name        string      `json:"name"`
		Placeholder string      `json:"placeholder,omitempty"`
		Inject      []canonRule `json:"inject,omitempty"`
	}
	canonRule struct {
		Host        string          `json:"host"`
		Ports       json.RawMessage `json:"ports"`
		Paths       []string        `json:"paths"`
		ReplaceOnly bool            `json:"replace-only"`
		Cleartext   bool            `json:"cleartext"`
		Set         []canonSetting  `json:"set"`
	}
	canonSetting struct {
		Secret   string `json:"secret"`
		As       Kind   `json:"as"`
		Header   string `json:"header,omitempty"`
		Username string `json:"username,omitempty"`
		Prefix   string `json:"prefix,omitempty"`
		Param    string `json:"param,omitempty"`
	}
	canonBroker struct {
		Name         string            `json:"name"`
		Host         string            `json:"host"`
		Port         uint16            `json:"port"`
		API          string            `json:"api"`
		App          string            `json:"app"`
		Installation int64             `json:"installation"`
		Lease        string            `json:"lease"`
		Repositories []canonRepository `json:"repositories"`
	}
	canonRepository struct {
		Name string   `json:"name"`
		Push []string `json:"push,omitempty"`
	}
	canonModel struct {
		API          string   `json:"api"`
		URL          string   `json:"url"`
		Cleartext    bool     `json:"cleartext"`
		Secret       string   `json:"secret,omitempty"`
		Allow        []string `json:"allow"`
		HostedSearch string   `json:"hosted-search"`
		SelfSearch   []string `json:"self-search,omitempty"`
	}
	canonEnvironment struct {
		Set   map[string]string `json:"set,omitempty"`
		Pass  []string          `json:"pass,omitempty"`
		Ask   []string          `json:"ask,omitempty"`
		Login *canonLogin       `json:"login,omitempty"`
	}
	canonLogin struct {
		Agent string `json:"agent"`
		Path  string `json:"path"`
	}
	canonService struct {
		Name  string            `json:"name"`
		Image string            `json:"image"`
		Ports []uint16          `json:"ports"`
		Set   map[string]string `json:"set,omitempty"`
	}
	canonLimits struct {
		Duration    string `json:"duration,omitempty"`
		Connections int64  `json:"connections,omitempty"`
		Requests    int64  `json:"requests,omitempty"`
		Upload      int64  `json:"upload,omitempty"`
		Download    int64  `json:"download,omitempty"`
		Memory      int64  `json:"memory,omitempty"`
		Processes   int64  `json:"processes,omitempty"`
		Disk        int64  `json:"disk,omitempty"`
	}
	canonLingering struct {
		For  string `json:"for"`
		Idle string `json:"idle"`
	}
	canonEgress struct {
		Agent string `json:"agent"`
	}
)

// Canonical returns the canonical form; see the package comment.
func (p *Policy) Canonical() ([]byte, error) {
	doc := canonDocument{
		Version: Version, Evaluator: EvaluatorVersion,
		Mode: p.Mode, OnFailure: p.OnFailure,
		Secrets: canonSecrets(p.Secrets), Broker: canonBrokers(p.Broker), Model: p.canonModel(),
		Environment: canonEnv(p.Environment), Services: canonServices(p.Services), Limits: canonLim(p.Limits),
	}
	var err error
	for _, phase := range []struct {
		of           Phase
		allow, block *[]json.RawMessage
	}{
		{PhaseAgent, &doc.Allow, &doc.Block},
		{PhaseSetup, &doc.Phases.Setup.Allow, &doc.Phases.Setup.Block},
		{PhaseVerifier, &doc.Phases.Verifier.Allow, &doc.Phases.Verifier.Block},
	} {
		pp := p.Phase(phase.of)
		if *phase.allow, err = p.canonEntries(pp.Allowed(), true); err != nil {
			return nil, err
		}
		if *phase.block, err = p.canonEntries(pp.Block, false); err != nil {
			return nil, err
		}
	}
	doc.Phases.Setup.Mode, doc.Phases.Verifier.Mode = p.Setup.Mode, p.Verifier.Mode
	if p.Lingering.For > 0 {
		doc.Lingering = &canonLingering{seconds(p.Lingering.For), seconds(p.Lingering.Idle)}
	}
	if p.Egress != nil {
		doc.Egress = &canonEgress{p.Egress.Address}
	}
	out, err := canon.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("policy: canonical form: %w", err)
	}
	return out, nil
}

// Digest returns "sha256:<hex>" over the canonical form.
func (p *Policy) Digest() (string, error) {
	data, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return digestOf(data), nil
}

func digestOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int64(d/time.Second)) }

// canonEntries splits entries by their paths, sorts them by their canonical
// text, bytewise, and drops repeated ones. Entries that another one makes
// redundant stay.
func (p *Policy) canonEntries(in []Entry, allow bool) ([]json.RawMessage, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]json.RawMessage, 0, len(in))
	var all []byte // the texts, one behind the other
	for i := range in {
		e := &in[i]
		if e.Pin != nil && e.Pin.Lockfile != "" && !e.Pin.loaded {
			return nil, lockfileError(p.Source, e.Pin)
		}
		paths := e.Paths
		if len(paths) == 0 {
			paths = []string{""}
		}
		for _, path := range paths {
			start := len(all)
			all = appendEntry(all, e, path, allow)
			out = append(out, json.RawMessage(all[start:len(all):len(all)]))
		}
	}
	slices.SortFunc(out, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	return slices.CompactFunc(out, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), nil
}

// appendEntry writes the canonical text of an entry with one path. All texts in
// an entry are printable ASCII, so Go's quoting is JSON's.
func appendEntry(out []byte, e *Entry, path string, allow bool) []byte {
	out = append(out, '{')
	key := func(name string) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, name...)
		out = append(out, '"', ':')
	}
	if e.Match == MatchCIDR {
		key("cidr")
		out = strconv.AppendQuote(out, e.Prefix.String())
	} else {
		if e.Match == MatchExact && !allow {
			key("exact")
			out = append(out, "true"...)
		}
		key("host")
		out = append(out, '"')
		if e.Match == MatchSubdomains {
			out = append(out, "*."...)
		}
		out = append(out, e.Host...)
		out = append(out, '"')
	}
	if len(e.Methods) > 0 {
		key("methods")
		out = appendStrings(out, e.Methods)
	}
	if path != "" {
		key("paths")
		out = append(out, '[')
		out = strconv.AppendQuote(out, host.EncodePath(path))
		out = append(out, ']')
	}
	if e.Pin != nil {
		key("pin")
		out = append(out, '{')
		if len(e.Pin.Artefacts) > 0 {
			key("artefacts")
			out = appendStrings(out, e.Pin.Artefacts)
		}
		key("digests")
		out = append(appendStrings(out, e.Pin.Digests), '}')
	}
	if len(e.Ports) > 0 {
		key("ports")
		out = appendPorts(out, e.Ports)
	}
	return append(out, '}')
}

func appendStrings(out []byte, list []string) []byte {
	out = append(out, '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendQuote(out, s)
	}
	return append(out, ']')
}

func appendPorts(out []byte, list []PortRange) []byte {
	out = append(out, '[')
	for i, r := range list {
		if i > 0 {
			out = append(out, ',')
		}
		if r.From == r.To {
			out = strconv.AppendUint(out, uint64(r.From), 10)
		} else {
			out = strconv.AppendQuote(out, r.String())
		}
	}
	return append(out, ']')
}

// canonSecrets writes each rule under the first of its secrets by name,
// whichever it stands under in the document.
func canonSecrets(in []Secret) []canonSecret {
	rules := map[string][]canonRule{}
	for _, s := range in {
		for _, r := range s.Inject {
			rule := canonRule{Host: r.Host, Ports: appendPorts(nil, r.Ports), Paths: []string{host.EncodePath(r.Path)}, ReplaceOnly: r.ReplaceOnly, Cleartext: r.Cleartext}
			if r.Match == MatchSubdomains {
				rule.Host = "*." + r.Host
			}
			owner := r.Set[0].Secret
			for _, set := range r.Set {
				owner = min(owner, set.Secret)
				if set.As != InjectHeader { // bearer and basic imply it
					set.Header = ""
				}
				rule.Set = append(rule.Set, canonSetting(set))
			}
			rules[owner] = append(rules[owner], rule)
		}
	}
	var out []canonSecret
	for _, s := range in {
		slices.SortFunc(rules[s.Name], func(a, b canonRule) int {
			return strings.Compare(a.Host+" "+a.Paths[0]+" "+string(a.Ports), b.Host+" "+b.Paths[0]+" "+string(b.Ports))
		})
		out = append(out, canonSecret{Name: s.Name, Placeholder: s.Placeholder, Inject: rules[s.Name]})
	}
	slices.SortFunc(out, func(a, b canonSecret) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func canonBrokers(in []Broker) []canonBroker {
	var out []canonBroker
	for _, b := range in {
		c := canonBroker{Name: b.Name, Host: b.Host, Port: b.Port, API: b.API, App: b.App, Installation: b.Installation, Lease: seconds(b.Lease)}
		for _, r := range b.Repositories {
			c.Repositories = append(c.Repositories, canonRepository{r.Name, r.Push})
		}
		slices.SortFunc(c.Repositories, func(a, b canonRepository) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b canonBroker) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *Policy) canonModel() *canonModel {
	m := p.Model
	if m == nil {
		return nil
	}
	return &canonModel{
		API: m.API, URL: m.URL, Cleartext: strings.HasPrefix(m.URL, "http:"), Secret: m.Secret,
		Allow: m.Allow, HostedSearch: p.searchRule(), SelfSearch: m.SelfSearch,
	}
}

func canonEnv(e Environment) *canonEnvironment {
	c := canonEnvironment{Set: canonVariables(e.Set), Pass: e.Pass, Ask: e.Ask}
	if e.Login != nil {
		c.Login = &canonLogin{e.Login.Agent, e.Login.Path}
	}
	if c.Set == nil && c.Pass == nil && c.Ask == nil && c.Login == nil {
		return nil
	}
	return &c
}

func canonVariables(in []Variable) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, v := range in {
		out[v.Name] = v.Value
	}
	return out
}

func canonServices(in []Service) []canonService {
	var out []canonService
	for _, s := range in {
		out = append(out, canonService{s.Name, s.Image, s.Ports, canonVariables(s.Set)})
	}
	slices.SortFunc(out, func(a, b canonService) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func canonLim(l Limits) *canonLimits {
	if l == (Limits{}) {
		return nil
	}
	c := canonLimits{
		Connections: l.Connections, Requests: l.Requests, Upload: l.Upload, Download: l.Download,
		Memory: l.Memory, Processes: l.Processes, Disk: l.Disk,
	}
	if l.Duration > 0 {
		c.Duration = seconds(l.Duration)
	}
	return &c
}
