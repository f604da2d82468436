package site

import (
	"html/template"
	"time"
)

// The view models. Templates see nothing else. A claim can only be reached
// through boundary.Claim, which is nil unless the state is current; so a held
// claim cannot be in the HTML, whatever a template does.

// pageView is one page.
type pageView struct {
	Root        string // from this page to the site's root: "", "../", …
	Title       string
	Description string
	CSP         string
	Publisher   string
	Themed      bool
	Tagline     string
	Home        string
	Contact     *Contact
	Nav         []navItem
	Assets      assetView
	Alternates  []alternate
	Whole       bool     // needs the whole style sheet
	Scripts     []string // beside the site's own, relative to the page
	Watch       *watchView
	List        *listView
	Body        any
}

type navItem struct {
	Title, Href string
	Here        string // "page", or "true" on a page below it
}

type assetView struct{ Style, More, Theme, Script, Scheme, Filter, List, Icon, Logo string }

type alternate struct{ Type, Title, Href string }

// watchView is what the page's script compares while the page is open.
type watchView struct {
	Title       string // of the page, once its claim is withdrawn
	Attestation string
	State       string
	Codes       string // separated by commas
	Expires     string
	Status      string // relative address of status.json
	Live        string // relative address of live.json, or ""
	Generated   string // when that live.json was made
	Checked     string // when this page was made, where status.json says so of itself
	Known       string // a time at which the attestation was there, on a page that does not give Checked
	Image       string
	Policy      string
	Fabric      string
}

// listView is what the script of a page with a list of attestations compares.
type listView struct {
	Status    string // relative address of status.json
	Fleet     string // names the state of the whole list
	Checked   string // when the page was made
	Live      string // relative address of live.json, or ""
	Generated string // when that live.json was made
}

// moment is a time for people and for machines.
type moment struct{ ISO, Text string }

func at(t time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	return moment{ISO: t.Format(time.RFC3339), Text: t.Format("2 Jan 2006, 15:04") + " UTC"}
}

func on(t time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	return moment{ISO: t.Format("2006-01-02"), Text: t.Format("2 Jan 2006")}
}

// dayOf is a day that a theme names, in the words of all others.
func dayOf(day string) moment {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return moment{day, day}
	}
	return on(t)
}

// chip is a posture or a state: a word with its glyph.
type chip struct {
	Word, Glyph, Class string
	Date               moment
}

// fact is one line of a record.
type fact struct {
	Label  string
	Text   string
	Name   string // a name in the place of Text
	Digest string
	Time   moment
	Note   string
	Life   *life
}

// life is how much of an attestation's validity has gone by.
type life struct{ Percent int }

type download struct {
	Title, Href string
	Download    bool
	Note        string
	Size        int64
}

// boundary is one attestation in full.
type boundary struct {
	ID             string
	Kind           string // what it is about: the image's name
	State          chip
	Facts          []fact
	Files          []download
	Claim          *claim // nil unless current
	Held           *heldView
	Limits         []string
	Gaps           []Gap
	TechniquesHref string
	PlainHref      string
	Until          moment
}

type claim struct {
	Figure     string // "0"
	Headline   string // "critical escapes"
	Lede       string
	Figures    []fact
	Invariants []invariant
	Diagram    template.HTML // both drawings, made by diagram.go from escaped text
	Edges      []edge
	Vectors    []vectorRow
	Caption    caption
	Threat     *review
	RedTeam    *review
	Trail      []step
	Conditions []condition
	FAQ        []answer
	Plain      string
	Escapes    []escape // below critical; what they contradict is not asserted
}

type invariant struct {
	N               int
	ID, Title, Text string
	Href            string
	Chip            chip
}

type edge struct {
	ID, Name, Text, Reason string
	Chip                   chip
	Posture                posture
	Vector                 string
}

type caption struct {
	Subject, Head string
	Collected     moment
}

type vectorRow struct {
	ID, Name, Probe, Severity string
	Chip                      chip
	Blocked, Contained, Other int64
}

type review struct {
	Text  string
	Facts []fact
}

type step struct{ Title, Digest, Text string }

type condition struct{ Title, Text, Word, Glyph string }

type answer struct {
	Question string
	Answer   []string
}

type heldView struct {
	Title, Lede, Class string
	Why, Until         string // over the reasons
	Reasons            []reason
	Escapes            []escape
	Parts              []invariant
}

type reason struct {
	ID, Code, Title, Text, Detail, Remedy string
	Since                                 moment
	Latched                               bool
}

type escape struct {
	ID, Title, Text string
	Chip            chip
}
