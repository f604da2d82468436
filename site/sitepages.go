package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/site/history"
)

func httpURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// rootPath is the path part of the base URL, with a slash at the end.
func rootPath(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "/"
	}
	return "/" + strings.TrimPrefix(strings.TrimSuffix(u.EscapedPath(), "/")+"/", "/")
}

// writePrimary writes the pages about the primary attestation: trust boundary
// and procurement room, with the machine-readable files at the site's root.
func (b *builder) writePrimary() error {
	r := b.primaryRecord()
	e, err := b.reopen(r)
	if err != nil {
		return err
	}
	return b.writePrimaryOf(r, e)
}

func (b *builder) writePrimaryOf(r *record, e *evidence) error {
	stem := ""
	if r.ID != "" {
		stem = attestationStem(r.ID)
	}
	view := func(root string) *boundary {
		if e == nil {
			return b.unverified(r, b.history.Attestations[r.Digest])
		}
		return e.boundaryOf(root+stem, b.in.Theme, b.now)
	}
	return errors.Join(b.writeIndex(r, e, view("")), b.writeProcurement(r, e, view("../")), b.writeRootFiles(r, e, stem))
}

func (b *builder) writeIndex(r *record, e *evidence, view *boundary) error {
	heading := r.chip().Word
	description := "The claim about this boundary is not shown at present."
	if e != nil && e.shown() {
		heading = r.Claim
		description = fmt.Sprintf("%s, attested over %s, valid until %s.", title(r.Claim), r.Name, at(e.expires).Text)
	}
	title := "Trust boundary · " + b.publisher()
	v := b.page("index.html", heading+" · "+title, description, view)
	v.Whole = r.State != StateCurrent // reasons are in the second sheet
	v.Watch = b.watch(e, "", fileStatus, title)
	v.Alternates = []alternate{{"application/json", "Status", fileStatus}, {"application/ld+json", "Claim", fileJSONLD}}
	return b.put("index.html", pageIndex, v)
}

func (b *builder) writeRootFiles(r *record, e *evidence, stem string) error {
	g := badgeOf(r)
	bj, err1 := g.json()
	ld, err2 := b.jsonLD(r, e, stem)
	if e != nil && e.shown() {
		if err := b.tree.put(filePlain, []byte(e.plain())); err != nil {
			return err
		}
	}
	s := statusOf(r, e, b.history.Since(r.Digest), stem)
	s.Checked, s.Next, s.Fleet = history.Stamp(b.now), b.next(), b.fleetState()
	st, err3 := compact(s)
	return errors.Join(err1, err2, err3, b.tree.put(fileStatus, st), b.tree.put(fileBadgeJSON, bj), b.tree.put(fileBadgeSVG, g.svg()), b.tree.put(fileJSONLD, ld))
}

// answersSchema names the format of procurement/answers.json.
const answersSchema = "wallproof.answers/v1"

func (b *builder) writeProcurement(r *record, e *evidence, view *boundary) error {
	p := procurementView{Boundary: view, Command: b.command(), AnswersHref: "answers.json", Documents: b.documents(r, e)}
	p.Lede = "Everything that a review asks for about this boundary, with the evidence to check it. Nothing here has to be believed."
	p.Scope = view.Facts
	if e != nil {
		p.Packet = "../" + attestationStem(r.ID) + endPacket
	}
	var errs []error
	if e != nil && e.shown() {
		p.Answers, p.Mapping = e.questions(), e.mappingRows()
		errs = append(errs, b.putJSON("procurement/answers.json", map[string]any{
			"schema": answersSchema, "attestation": e.digest, "subject": e.subject, "state": r.State, "codes": append([]string{}, r.Codes...), "expires": r.Expires, "answers": p.Answers,
		}))
	}
	v := b.page("procurement/index.html", "Procurement room · "+b.publisher(), "Documents, dates, scope, mapping and answers about this trust boundary.", p)
	v.Watch = b.watch(e, "../", "../"+fileStatus, v.Title)
	return errors.Join(append(errs, b.put("procurement/index.html", pageProcurement, v))...)
}

// documents lists the evidence and what the publisher adds.
func (b *builder) documents(r *record, e *evidence) []document {
	var out []document
	if e != nil {
		stem := "../" + attestationStem(r.ID)
		out = append(out,
			document{Title: "Signed attestation", Href: stem + endBundle, Form: "Sigstore bundle v0.3", Date: on(e.attested()), Download: true, Note: "in-toto statement over image, policy, fabric, battery, red team and threat model"},
			document{Title: "Evidence packet", Href: stem + endPacket, Form: "tar", Date: on(e.collected), Download: true, Note: "Manifest, policy, observations of both sides, redacted logs, redaction proof"},
			document{Title: "Evidence page", Href: stem + endPage, Form: "HTML", Date: on(e.collected), Note: "Every technique, or why the claim is held"},
		)
		if e.shown() {
			out = append(out, document{Title: "Plain-text summary", Href: "../" + filePlain, Form: "text", Date: on(e.collected), Claim: true})
		}
	}
	out = append(out, document{Title: "History of this site", Href: "../history/index.html", Form: "HTML, JSON, Atom", Note: "Every claim that was made and withdrawn"})
	for _, d := range b.in.Theme.Documents {
		out = append(out, document{Title: d.Title, Href: safeURL(d.URL), Note: d.Note, Form: "from the publisher", Date: dayOf(d.Date)})
	}
	return out
}

// command is how to verify the packet without this site.
func (b *builder) command() string {
	trust := "--key wallproof.pub"
	if id := b.in.Verify.Trust.Identity; id != nil {
		trust = fmt.Sprintf("--certificate-identity %s --certificate-oidc-issuer %s", shellWord(id.SAN+id.SANPattern), shellWord(id.Issuer+id.IssuerPattern))
	}
	return "wallproof verify packet.tar " + trust
}

// shellWord quotes an argument for a shell.
func shellWord(s string) string {
	return "'" + strings.ReplaceAll(clean(s), "'", `'\''`) + "'"
}

// fleetView is one page of the list of all attestations.
type fleetView struct {
	Count, Lede, Heading string
	Totals               []fact
	Rows                 []fleetRow
	Claims               bool // a row has one
	Page, Pages          int
	Prev, Next           string
}

type fleetRow struct {
	Name, Short, Href, Codes, Claim, Kind, Search string
	Chip                                          chip
	Collected, Until, Expires                     moment
}

// fleetPage is how many attestations one page of the list has.
const fleetPage = 100

func fleetPath(n int) string {
	if n == 1 {
		return "fleet/index.html"
	}
	return fmt.Sprintf("fleet/page-%d.html", n)
}

// fleetSchema names the format of fleet/fleet.json.
const fleetSchema = "wallproof.fleet/v1"

// fleetEntry is one attestation in fleet.json. Word, Glyph and Class are what the
// page shows for its state.
type fleetEntry struct {
	Name        string   `json:"name"`
	Subject     string   `json:"subject,omitempty"`
	Attestation string   `json:"attestation"`
	State       State    `json:"state"`
	Codes       []string `json:"codes,omitempty"`
	Claim       string   `json:"claim,omitempty"`
	Collected   string   `json:"collected,omitempty"`
	Expires     string   `json:"expires,omitempty"`
	Page        string   `json:"page"`
	Word        string   `json:"word"`
	Glyph       string   `json:"glyph"`
	Class       string   `json:"class"`
}

// fleetJSON is the whole list in one file, for machines and for the filter of a
// list that has several pages.
func fleetJSON(rows []*record, state string) ([]byte, error) {
	list := make([]fleetEntry, 0, len(rows))
	for _, r := range rows {
		c := r.chip()
		list = append(list, fleetEntry{r.Name, r.Subject, r.Digest, r.State, r.Codes, r.Claim, r.Collected, r.Expires, "../" + attestationStem(r.ID) + endPage, c.Word, c.Glyph, c.Class})
	}
	j, err := json.Marshal(map[string]any{"schema": fleetSchema, "fleet": state, "attestations": list})
	if err != nil {
		return nil, fmt.Errorf("site: fleet: %w", err)
	}
	return append(j, '\n'), nil
}

// listed are the attestations that the list has.
func (b *builder) listed() []*record {
	return slices.DeleteFunc(slices.Clone(b.records), func(r *record) bool { return r.ID == "" })
}

// fleetState names what the list says of all attestations.
func (b *builder) fleetState() string {
	h := sha256.New()
	for _, r := range b.listed() {
		fmt.Fprintf(h, "%s %s %s %s\n", r.Digest, r.State, strings.Join(r.Codes, ","), r.Expires)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// list is what the script of the list's pages compares.
func (b *builder) list() *listView {
	l := &listView{Status: "../" + fileStatus, Fleet: b.fleetState(), Checked: history.Stamp(b.now)}
	if b.in.Live != nil {
		l.Live, l.Generated = "../live.json", generated(b.in.Live)
	}
	return l
}

func (b *builder) writeFleet() error {
	rows, list := b.listed(), b.list()
	all, err := fleetJSON(rows, list.Fleet)
	if err != nil {
		return err
	}
	if err := b.tree.put("fleet/fleet.json", all); err != nil {
		return err
	}
	totals := fleetTotals(rows)
	pages := max(1, (len(rows)+fleetPage-1)/fleetPage)
	for n := 1; n <= pages; n++ {
		v := fleetView{
			Count: count(int64(len(rows)), "attestation", "attestations"), Totals: totals, Page: n, Pages: pages, Heading: "Newest first",
			Lede: "Every run that was published here, each with its own page, evidence and state.",
		}
		if n > 1 {
			v.Prev = strings.TrimPrefix(fleetPath(n-1), "fleet/")
		}
		if n < pages {
			v.Next = strings.TrimPrefix(fleetPath(n+1), "fleet/")
		}
		for _, r := range rows[(n-1)*fleetPage : min(n*fleetPage, len(rows))] {
			v.Rows = append(v.Rows, b.fleetRow(r))
			v.Claims = v.Claims || r.Claim != ""
		}
		path := fleetPath(n)
		page := b.page(path, "Attestations · "+b.publisher(), "Every attestation on this site, with its state.", v)
		page.Scripts, page.List = []string{page.Root + b.assets.List, page.Root + b.assets.Filter}, list
		if err := b.put(path, pageFleet, page); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) fleetRow(r *record) fleetRow {
	row := fleetRow{
		Name: r.Name, Short: shortDigest(r.Subject), Href: "../" + attestationStem(r.ID) + endPage, Codes: strings.Join(r.Codes, ", "), Claim: strings.TrimSuffix(strings.TrimSuffix(r.Claim, " critical escapes"), " critical escape"),
		Kind: string(r.State), Chip: r.chip(), Collected: on(r.collected()), Until: on(parseTime(r.Expires)),
	}
	if row.Name == "" {
		row.Name, row.Short = "Evidence that does not verify", shortDigest(r.Digest)
	}
	if r.Claim != "" {
		row.Expires = at(parseTime(r.Expires))
	}
	row.Search = strings.ToLower(strings.Join([]string{r.Name, r.Subject, r.Digest, row.Chip.Word, row.Codes}, " "))
	return row
}

func fleetTotals(rows []*record) []fact {
	n := map[string]int64{}
	for _, r := range rows {
		n[r.chip().Word]++
	}
	var out []fact
	for _, w := range sortedKeys(n) {
		out = append(out, fact{Label: w, Text: fmt.Sprint(n[w])})
	}
	return out
}
