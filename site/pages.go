package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/site/history"
)

// defaultPublisher is the name of a site without a theme.
const defaultPublisher = "Wallproof"

func (b *builder) publisher() string {
	if b.in.Theme.Name != "" {
		return b.in.Theme.Name
	}
	return defaultPublisher
}

// writeAssets writes style sheet, scripts, icon and logo, named by content.
func (b *builder) writeAssets() error {
	for name, to := range map[string]*string{
		"site.css": &b.assets.Style, "more.css": &b.assets.More, "site.js": &b.assets.Script, "scheme.js": &b.assets.Scheme, "filter.js": &b.assets.Filter, "list.js": &b.assets.List, "icon.svg": &b.assets.Icon,
	} {
		a, err := builtinAsset(name)
		if err != nil {
			return err
		}
		*to = a.path
		if err := b.tree.put(a.path, a.content); err != nil {
			return err
		}
	}
	t := &b.in.Theme
	if css := t.Colors.css(); css != "" {
		a := newAsset("theme.css", []byte(css))
		b.assets.Theme = a.path
		if err := b.tree.put(a.path, a.content); err != nil {
			return err
		}
	}
	if len(t.Logo) > 0 {
		a := newAsset("logo."+t.logo.ext, t.Logo)
		b.assets.Logo = a.path
		return b.tree.put(a.path, a.content)
	}
	return nil
}

// css sets the accents. Both values were checked to be colours and nothing else.
func (c Colors) css() string {
	var s strings.Builder
	if c.Accent != "" {
		fmt.Fprintf(&s, ":root { --accent: %s; }\n", c.Accent)
	}
	if c.AccentDark != "" {
		fmt.Fprintf(&s, "@media (prefers-color-scheme: dark) { :root:not([data-scheme=\"light\"]) { --accent: %s; } }\n:root[data-scheme=\"dark\"] { --accent: %s; }\n", c.AccentDark, c.AccentDark)
	}
	if c.Accent != "" {
		fmt.Fprintf(&s, "@media print { :root:root:root { --accent: %s; } }\n", c.Accent)
	}
	return s.String()
}

// sections of the navigation, with the page that each leads to.
var sections = []struct{ title, href string }{
	{"Trust boundary", "index.html"},
	{"Procurement", "procurement/index.html"},
	{"Attestations", "fleet/index.html"},
	{"Verify", "verify/index.html"},
	{"History", "history/index.html"},
}

// page is the frame of a page at a path.
func (b *builder) page(path, title, description string, body any) pageView {
	root := strings.Repeat("../", strings.Count(path, "/"))
	v := pageView{
		Root: root, Title: title, Description: description, CSP: cspBase, Publisher: b.publisher(), Themed: b.in.Theme.Name != "", Tagline: b.in.Theme.Tagline,
		Home: safeURL(b.in.Theme.Home), Assets: b.assets, Whole: path != "index.html", Body: body,
	}
	if c := b.in.Theme.Contact; c != (Contact{}) {
		c.URL = safeURL(c.URL)
		v.Contact = &c
	}
	for _, s := range sections {
		v.Nav = append(v.Nav, navItem{Title: s.title, Href: root + s.href, Here: here(path, s.href)})
	}
	return v
}

// here says where the reader is, as aria-current has it: on the page that an entry
// of the navigation leads to, or on one below it. The attestations, and the other
// pages of their list, are below that list.
func here(path, entry string) string {
	switch {
	case path == entry:
		return "page"
	case entry == "fleet/index.html" && (strings.HasPrefix(path, "fleet/") || strings.HasPrefix(path, attestationFolder+"/")):
		return "true"
	}
	return ""
}

func (b *builder) put(path, template string, v pageView) error {
	html, err := render(template, v)
	if err != nil {
		return err
	}
	if len(v.Scripts) == 0 { // others draw signs by script
		html = unused(html)
	}
	return b.tree.put(path, unbroken(html))
}

// putJSON writes a value as JSON.
func (b *builder) putJSON(path string, v any) error {
	j, err := pretty(v)
	if err != nil {
		return err
	}
	return b.tree.put(path, j)
}

// watch is what the script of a page with a claim compares. title is that of the
// page without its claim.
func (b *builder) watch(e *evidence, root, status, title string) *watchView {
	if e == nil || !e.shown() {
		return nil
	}
	w := &watchView{
		Attestation: e.digest, State: string(e.state), Codes: strings.Join(e.codes(), ","), Expires: at(e.expires).ISO, Status: status, Policy: clean(e.boundary.Policy.Digest),
		Image: clean(e.subject), Title: title,
	}
	if b.in.Live != nil && e.name() == b.primary {
		w.Live, w.Generated = root+"live.json", generated(b.in.Live)
	}
	if status == root+fileStatus {
		w.Checked = history.Stamp(b.now)
	} else {
		w.Known = at(e.collected).ISO
	}
	w.Fabric = pairs(e.fabric())
	return w
}

// generated is the time that a live.json gives for itself, or "".
func generated(live []byte) string {
	l, err := predicate.ParseLive(live)
	if err != nil {
		return ""
	}
	return at(parseTime(l.Generated)).ISO
}

// usual is the value of most facts of isolation.
const usual = "yes"

// pairs writes the fabric for the page's script: name=value, percent-encoded,
// separated by spaces, as live.json names its members; a fact of isolation has a
// dot before its name. Most have the usual value, which is left out.
func pairs(f *predicate.LiveFabric) string {
	values := map[string]string{"driver": f.Driver, "version": f.Version, "configDigest": f.ConfigDigest, "kernel": f.Kernel, "arch": f.Arch}
	for k, v := range f.Isolation {
		values["."+k] = v
	}
	var out []string
	for _, k := range sortedKeys(values) {
		if values[k] == usual {
			out = append(out, url.PathEscape(k))
			continue
		}
		out = append(out, url.PathEscape(k)+"="+url.PathEscape(values[k]))
	}
	return strings.Join(out, " ")
}

// writePages writes what is about the whole site.
func (b *builder) writePages(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(b.workers())
	g.Go(b.writePrimary)
	g.Go(b.writeFleet)
	g.Go(b.writeCommon)
	g.Go(func() error { return b.cache.encode(b.in.Cache) })
	return g.Wait()
}

// writeCommon writes what does not need the evidence of any attestation.
func (b *builder) writeCommon() error {
	changes := b.changes()
	linked := map[string]string{}
	for _, r := range b.records {
		if r.ID != "" {
			linked[r.Digest] = r.ID
		}
	}
	feed, err := b.feed(changes, linked)
	if err != nil {
		return err
	}
	past, err := b.history.Bytes()
	if err != nil {
		return err
	}
	hosts, err := headerFiles()
	if err != nil {
		return err
	}
	errs := []error{
		b.tree.put("feed.xml", feed), b.tree.put(historyFile, past),
		b.writeHistory(changes, linked), b.writeVerify(), b.writeMissing(),
	}
	for _, name := range sortedKeys(hosts) {
		errs = append(errs, b.tree.put(name, hosts[name]))
	}
	if b.in.Live != nil {
		errs = append(errs, b.tree.put("live.json", b.in.Live))
	}
	return errors.Join(errs...)
}

// writeMissing writes 404.html. It is served at any depth, so its links start at
// the site's root.
func (b *builder) writeMissing() error {
	v := b.page("404.html", "Not found · "+b.publisher(), "There is no page at this address.", nil)
	v.Root = "/"
	if b.in.BaseURL != "" {
		v.Root = rootPath(b.in.BaseURL)
	}
	for i := range v.Nav {
		v.Nav[i].Href = v.Root + v.Nav[i].Href
	}
	return b.put("404.html", pageMissing, v)
}

// historyView is the page of state changes.
type historyView struct {
	Events []eventRow
	More   string
}

type eventRow struct {
	Time         moment
	Chip         chip
	Name, Digest string
	Href         string
	Codes        []string
}

// historyLength is how many changes the page has.
const historyLength = 500

func (b *builder) writeHistory(changes []change, linked map[string]string) error {
	view := historyView{}
	if len(changes) > historyLength {
		view.More = fmt.Sprintf("The newest %d of %d.", historyLength, len(changes))
	}
	for _, c := range changes[:min(historyLength, len(changes))] {
		row := eventRow{Time: at(parseTime(c.event.Time)), Chip: c.chip(), Name: c.name(), Digest: c.digest, Codes: c.event.Codes}
		if id := linked[c.digest]; id != "" {
			row.Href = "../" + attestationStem(id) + endPage
		}
		view.Events = append(view.Events, row)
	}
	return b.put("history/index.html", pageHistory, b.page("history/index.html", "History · "+b.publisher(), "Every change of state of the attestations on this site.", view))
}

func eventRows(e *history.Entry) []eventRow {
	var out []eventRow
	for i := len(e.Events) - 1; i >= 0; i-- {
		c := change{entry: e, event: e.Events[i]}
		out = append(out, eventRow{Time: at(parseTime(c.event.Time)), Chip: c.chip(), Codes: c.event.Codes})
	}
	return out
}

// reopen examines the primary packet once more, for the pages that show it in
// full.
func (b *builder) reopen(r *record) (*evidence, error) {
	for _, p := range b.in.Packets {
		if p.Name != r.packet || r.State == StateInvalid {
			continue
		}
		files, closer, err := p.Open()
		if err != nil {
			return nil, err
		}
		e, err := b.reexamine(job{packet: p, glimpse: peek(files)}, files, r)
		return e, errors.Join(err, closer.Close())
	}
	return nil, nil
}

func (b *builder) reexamine(j job, files fs.FS, r *record) (*evidence, error) {
	if j.attestation != r.Digest {
		return nil, fmt.Errorf("site: %s changed while the site was being built", j.packet.Name)
	}
	a := &attempt{job: j}
	if contains(r.Codes, codeContradicted) {
		a.doubt = laterDoubt
	}
	latched := b.latched(j.attestation, j.run)
	a.report = examine(b.verifier, files, b.verifyInput(j), latched, b.now)
	e := b.judge(a, files, latched)
	if e == nil {
		return nil, fmt.Errorf("site: %s changed while the site was being built", j.packet.Name)
	}
	e.reasons = holdings(a.record.Codes, a.messages, b.history.Attestations[r.Digest], e.expires, b.now)
	return e, nil
}
