package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/site/history"
)

// change is one event of the history with what it is about.
type change struct {
	digest string
	entry  *history.Entry
	event  history.Event
	seq    int
}

// changes lists all events, newest first.
func (b *builder) changes() []change {
	var out []change
	for digest, e := range b.history.Attestations {
		for i, ev := range e.Events {
			out = append(out, change{digest, e, ev, i})
		}
	}
	slices.SortFunc(out, func(x, y change) int {
		return cmp.Or(strings.Compare(y.event.Time, x.event.Time), strings.Compare(x.digest, y.digest), y.seq-x.seq)
	})
	return out
}

// chip says what happened. It does not use the words of a claim, because what
// was shown once may be held now.
func (c change) chip() chip {
	if c.event.State == StateHeld && onlyLesserEscapes(c.event.Codes) {
		return chip{Word: "Held in part", Glyph: "held", Class: "hold"}
	}
	if c.event.State == StateCurrent {
		return chip{Word: "Claim shown", Glyph: "signed", Class: "good"}
	}
	return stateWord(c.event.State, c.event.Codes)
}

func (c change) name() string {
	if c.entry.Name == "" {
		return "unnamed image"
	}
	return clean(c.entry.Name)
}

// feedLength is how many changes the feed has.
const feedLength = 50

type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  atomAuthor  `xml:"author"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomAuthor struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    atomLink `xml:"link"`
	Content string   `xml:"content"`
}

// feed is the Atom feed (RFC 4287) of state changes. Its ids are derived from
// what they name, so that a rebuild repeats them.
func (b *builder) feed(changes []change, linked map[string]string) ([]byte, error) {
	f := atomFeed{
		ID: uuid("feed", b.in.BaseURL, b.publisher()), Title: b.publisher() + ": changes of state", Updated: history.Stamp(b.now),
		Author: atomAuthor{b.publisher()}, Links: []atomLink{{"self", b.absolute("feed.xml")}, {"alternate", b.absolute("index.html")}},
	}
	if len(changes) > 0 {
		f.Updated = changes[0].event.Time
	}
	for _, c := range changes[:min(feedLength, len(changes))] {
		page := "history/index.html"
		if id := linked[c.digest]; id != "" {
			page = attestationStem(id) + endPage
		}
		text := fmt.Sprintf("Attestation %s.", c.digest)
		if len(c.event.Codes) > 0 {
			text += " Reason codes: " + strings.Join(c.event.Codes, ", ") + "."
		}
		f.Entries = append(f.Entries, atomEntry{
			ID: uuid("event", c.digest, fmt.Sprint(c.seq)), Title: c.name() + ": " + c.chip().Word, Updated: c.event.Time,
			Link: atomLink{"alternate", b.absolute(page)}, Content: text,
		})
	}
	var w bytes.Buffer
	w.WriteString(xml.Header)
	enc := xml.NewEncoder(&w)
	enc.Indent("", "  ")
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("site: feed: %w", err)
	}
	w.WriteByte('\n')
	return w.Bytes(), nil
}

// absolute joins an address with the base URL; without one it stays relative to
// the site's root.
func (b *builder) absolute(page string) string {
	if b.in.BaseURL == "" {
		return page
	}
	return strings.TrimSuffix(b.in.BaseURL, "/") + "/" + page
}

// uuid derives a name-based UUID in the form of RFC 9562, version 8.
func uuid(parts ...string) string {
	s := sha256.Sum256([]byte("wallproof.site\x00" + strings.Join(parts, "\x00")))
	s[6], s[8] = s[6]&0x0f|0x80, s[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", s[0:4], s[4:6], s[6:8], s[8:10], s[10:16])
}
