package site

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds on a theme.
const (
	maxThemeBytes = 1 << 20
	maxLogoBytes  = 256 << 10
	maxThemeText  = 4000 // characters of one text
	maxThemeItems = 100  // entries of one list
)

// Theme is what a publisher sets: name, logo, colours, contact and texts. It
// never changes a verdict. Every text is plain text; it is escaped, never
// interpreted.
type Theme struct {
	Name      string     `yaml:"name"`      // the publisher, "Example Labs"
	Tagline   string     `yaml:"tagline"`   // one line below the name
	Home      string     `yaml:"home"`      // the publisher's own site
	LogoFile  string     `yaml:"logo"`      // path of a PNG, JPEG, WebP or plain SVG, relative to the theme file
	Colors    Colors     `yaml:"colors"`    //
	Contact   Contact    `yaml:"contact"`   //
	FAQ       []QA       `yaml:"faq"`       // added to the five that ship
	KnownGaps []Gap      `yaml:"knownGaps"` // added to the limits that the attestation itself states
	Documents []Document `yaml:"documents"` // added to the procurement room
	Logo      []byte     `yaml:"-"`         // content of LogoFile
	logo      logoForm   // what Logo was found to be
}

// Colors are the accents, one a scheme, as "#rrggbb". Each must be readable
// on the background of its scheme (contrast of at least 4.5 to 1).
type Colors struct {
	Accent     string `yaml:"accent"`     // light scheme and print
	AccentDark string `yaml:"accentDark"` // dark scheme
}

// Contact is whom a reader asks.
type Contact struct {
	Text  string `yaml:"text"`
	Email string `yaml:"email"`
	URL   string `yaml:"url"`
}

// QA is one question with its answer.
type QA struct {
	Question string `yaml:"question"`
	Answer   string `yaml:"answer"`
}

// Gap is one known gap that the publisher admits.
type Gap struct {
	Title string `yaml:"title"`
	Text  string `yaml:"text"`
}

// Document is something for the procurement room that is not evidence of
// Wallproof's: a policy, a certificate, a report.
type Document struct {
	Title string `yaml:"title"`
	URL   string `yaml:"url"`
	Date  string `yaml:"date"` // "2026-01-31"
	Note  string `yaml:"note"`
}

// LoadTheme reads a theme file and the logo that it names.
func LoadTheme(path string) (Theme, error) {
	b, err := readBounded(path, maxThemeBytes)
	if err != nil {
		return Theme{}, fmt.Errorf("theme: %w", err)
	}
	t, err := ParseTheme(b)
	if err != nil {
		return Theme{}, fmt.Errorf("%w (in %s)", err, path)
	}
	if t.LogoFile == "" {
		return t, nil
	}
	if !filepath.IsLocal(t.LogoFile) {
		return Theme{}, fmt.Errorf("theme: logo %q must lie below the theme file's folder", t.LogoFile)
	}
	if t.Logo, err = readBounded(filepath.Join(filepath.Dir(path), t.LogoFile), maxLogoBytes); err != nil {
		return Theme{}, fmt.Errorf("theme: logo: %w", err)
	}
	if err := t.check(); err != nil {
		return Theme{}, err
	}
	return t, nil
}

// ParseTheme reads a theme without its logo. An unknown key is refused.
func ParseTheme(b []byte) (Theme, error) {
	if len(b) > maxThemeBytes {
		return Theme{}, fmt.Errorf("theme: %d bytes, more than the limit of %d", len(b), maxThemeBytes)
	}
	var t Theme
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&t); err != nil {
		return Theme{}, fmt.Errorf("theme: %w", err)
	}
	if err := t.check(); err != nil {
		return Theme{}, err
	}
	return t, nil
}

var (
	colorForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#[0-9a-fA-F]{6}$`) })
	dateForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`) })
	emailForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$`)
	})
)

// check refuses what could not be shown safely or well.
func (t *Theme) check() error {
	var errs []error
	for _, f := range t.texts() {
		errs = append(errs, checkText(f.name, f.value))
	}
	for _, u := range t.urls() {
		if u.value != "" && safeURL(u.value) == "" {
			errs = append(errs, fmt.Errorf("theme: %s: %q is not an https, http or mailto address", u.name, u.value))
		}
	}
	if t.Contact.Email != "" && !emailForm().MatchString(t.Contact.Email) {
		errs = append(errs, fmt.Errorf("theme: contact.email: %q is not an address", t.Contact.Email))
	}
	for _, d := range t.Documents {
		if d.Date != "" && !dateForm().MatchString(d.Date) {
			errs = append(errs, fmt.Errorf("theme: documents: %q: date %q is not of the form 2026-01-31", d.Title, d.Date))
		}
	}
	for name, n := range map[string]int{"faq": len(t.FAQ), "knownGaps": len(t.KnownGaps), "documents": len(t.Documents)} {
		if n > maxThemeItems {
			errs = append(errs, fmt.Errorf("theme: %s: %d entries, more than the limit of %d", name, n, maxThemeItems))
		}
	}
	errs = append(errs, t.Colors.check(), t.checkLogo())
	return errors.Join(errs...)
}

// cleaned is the theme with every text made printable.
func (t Theme) cleaned() Theme {
	t.Name, t.Tagline, t.Contact.Text = clean(t.Name), clean(t.Tagline), clean(t.Contact.Text)
	t.FAQ, t.KnownGaps, t.Documents = slices.Clone(t.FAQ), slices.Clone(t.KnownGaps), slices.Clone(t.Documents)
	for i, q := range t.FAQ {
		t.FAQ[i] = QA{clean(q.Question), clean(q.Answer)}
	}
	for i, g := range t.KnownGaps {
		t.KnownGaps[i] = Gap{clean(g.Title), clean(g.Text)}
	}
	for i, d := range t.Documents {
		d.Title, d.Note = clean(d.Title), clean(d.Note)
		t.Documents[i] = d
	}
	return t
}

type field struct{ name, value string }

func (t *Theme) texts() []field {
	f := []field{{"name", t.Name}, {"tagline", t.Tagline}, {"contact.text", t.Contact.Text}}
	for _, q := range t.FAQ {
		f = append(f, field{"faq.question", q.Question}, field{"faq.answer", q.Answer})
	}
	for _, g := range t.KnownGaps {
		f = append(f, field{"knownGaps.title", g.Title}, field{"knownGaps.text", g.Text})
	}
	for _, d := range t.Documents {
		f = append(f, field{"documents.title", d.Title}, field{"documents.note", d.Note})
	}
	return f
}

func (t *Theme) urls() []field {
	f := []field{{"home", t.Home}, {"contact.url", t.Contact.URL}}
	for _, d := range t.Documents {
		f = append(f, field{"documents.url", d.URL})
	}
	return f
}

func checkText(name, s string) error {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxThemeText {
		return fmt.Errorf("theme: %s: not UTF-8, or longer than %d characters", name, maxThemeText)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return fmt.Errorf("theme: %s: contains control characters", name)
	}
	return nil
}

// minContrast is WCAG 2.2's ratio for text (success criterion 1.4.3).
const minContrast = 4.5

func (c Colors) check() error {
	for _, f := range []struct{ name, value, paper string }{
		{"colors.accent", c.Accent, paperLight}, {"colors.accentDark", c.AccentDark, paperDark},
	} {
		if f.value == "" {
			continue
		}
		if !colorForm().MatchString(f.value) {
			return fmt.Errorf("theme: %s: %q is not of the form #rrggbb", f.name, f.value)
		}
		if r := contrast(f.value, f.paper); r < minContrast {
			return fmt.Errorf("theme: %s: %s has a contrast of %.1f to 1 on %s; readable text needs %.1f", f.name, f.value, r, f.paper, minContrast)
		}
	}
	return nil
}
