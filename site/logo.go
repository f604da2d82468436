package site

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// logoForm is a picture format that a logo may have.
type logoForm struct{ name, ext string }

var logoForms = []struct {
	form   logoForm
	prefix string
	at     int
}{
	{logoForm{"PNG", "png"}, "\x89PNG\r\n\x1a\n", 0},
	{logoForm{"JPEG", "jpg"}, "\xff\xd8\xff", 0},
	{logoForm{"WebP", "webp"}, "WEBP", 8},
}

func (t *Theme) checkLogo() error {
	if len(t.Logo) == 0 {
		return nil
	}
	if len(t.Logo) > maxLogoBytes {
		return fmt.Errorf("theme: logo: %d bytes, more than the limit of %d", len(t.Logo), maxLogoBytes)
	}
	for _, f := range logoForms {
		if len(t.Logo) > f.at && bytes.HasPrefix(t.Logo[f.at:], []byte(f.prefix)) {
			t.logo = f.form
			return nil
		}
	}
	if err := plainSVG(t.Logo); err != nil {
		return fmt.Errorf("theme: logo is not a PNG, JPEG or WebP picture, nor a plain SVG: %w", err)
	}
	t.logo = logoForm{"SVG", "svg"}
	return nil
}

// An SVG is a document that may carry script, styles and references. A logo
// needs shapes only, so only these elements and attributes pass.
var (
	svgElements = words("svg g path rect circle ellipse line polyline polygon title desc defs linearGradient radialGradient stop clipPath mask")
	svgAttrs    = words(`xmlns viewBox width height x y x1 y1 x2 y2 cx cy r rx ry fx fy d points transform fill fill-rule fill-opacity
		stroke stroke-width stroke-linecap stroke-linejoin stroke-miterlimit stroke-dasharray stroke-opacity opacity id offset stop-color
		stop-opacity gradientUnits gradientTransform clip-path clip-rule mask role aria-label preserveAspectRatio version`)
)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

func plainSVG(b []byte) error {
	dec := xml.NewDecoder(bytes.NewReader(b))
	for first := true; ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			if first {
				return errors.New("no element")
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch e := tok.(type) {
		case xml.Directive:
			return errors.New("document type or entity declaration")
		case xml.ProcInst:
			if e.Target != "xml" {
				return fmt.Errorf("processing instruction %q", e.Target)
			}
		case xml.StartElement:
			if first && e.Name.Local != "svg" {
				return fmt.Errorf("outermost element is %q", e.Name.Local)
			}
			first = false
			if err := plainElement(e); err != nil {
				return err
			}
		}
	}
}

const svgSpace = "http://www.w3.org/2000/svg"

func plainElement(e xml.StartElement) error {
	if !svgElements[e.Name.Local] || (e.Name.Space != "" && e.Name.Space != svgSpace) {
		return fmt.Errorf("element %q is not one of plain shapes", e.Name.Local)
	}
	for _, a := range e.Attr {
		if !svgAttrs[a.Name.Local] || a.Name.Space != "" {
			return fmt.Errorf("attribute %q is not one of plain shapes", a.Name.Local)
		}
		if strings.Contains(strings.ReplaceAll(strings.ToLower(a.Value), "url(#", ""), "url(") {
			return fmt.Errorf("attribute %q refers to something outside", a.Name.Local)
		}
	}
	return nil
}
