package site

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// posture is what the boundary does with an edge.
type posture string

const (
	allowed  posture = "allowed"
	brokered posture = "brokered"
	denied   posture = "denied"
)

// maxDrawn bounds the boxes on one side of the picture; the list has them all.
const maxDrawn = 7

// drawing collects SVG. Everything that is text goes through text, which
// escapes it; everything else is numbers and constants.
type drawing struct{ b strings.Builder }

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) text(class string, x, y int, anchor, s string) {
	d.add(`<text class="%s" x="%d" y="%d"`, class, x, y)
	if anchor != "" {
		d.add(` text-anchor="%s"`, anchor)
	}
	d.add(`>%s</text>`, html.EscapeString(s))
}

// diagram draws the sandbox, the wall around it and one edge a destination:
// what is let through on one side, what is refused on the other. There are two
// drawings, one for wide and one for narrow screens; the style sheet shows one.
func diagram(edges []edge) template.HTML {
	open, shut := sides(edges)
	var d drawing
	d.tags(open, shut)
	d.wide(open, shut)
	d.tall(open, shut)
	return template.HTML(d.b.String()) //nolint:gosec // built from constants, numbers and escaped text
}

// sides parts the edges and abridges each side to what can be drawn.
func sides(edges []edge) (open, shut []edge) {
	for _, e := range edges {
		if e.Posture == denied {
			shut = append(shut, e)
		} else {
			open = append(open, e)
		}
	}
	return abridge(open), abridge(shut)
}

func abridge(es []edge) []edge {
	if len(es) <= maxDrawn {
		return es
	}
	more := es[maxDrawn-1]
	more.Name = fmt.Sprintf("and %d more, listed below", len(es)-maxDrawn+1)
	return append(es[:maxDrawn-1:maxDrawn-1], more)
}

// describe says the picture in words for those who do not see it.
func describe(open, shut []edge) string {
	var b strings.Builder
	b.WriteString("The sandbox in the middle, a wall around it. ")
	for _, e := range append(open[:len(open):len(open)], shut...) {
		fmt.Fprintf(&b, "%s: %s. ", e.Name, e.Chip.Word)
	}
	return strings.TrimSpace(b.String())
}

func (d *drawing) open(class string, w, h int, open, shut []edge) {
	d.add(`<svg class="%s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, class, w, h, html.EscapeString(describe(open, shut)))
}

// Geometry of the wide drawing.
const (
	wideW   = 1120
	boxW    = 252 // as in site.css
	boxH    = 52
	pitch   = 68
	wallT   = 26  // thickness of the wall
	wallL   = 391 // whole bricks wide, like the tall drawing's
	wallR   = 729
	coreL   = 468
	coreR   = 652
	tagW    = 122 // as in site.css
	tagH    = 30
	margin  = 14
	minRows = 4
)

func (d *drawing) wide(open, shut []edge) {
	rows := max(len(open), len(shut), minRows)
	h := courses(rows*pitch+24) + 2*margin
	top, bottom := margin, h-margin
	d.open("wide", wideW, h, open, shut)
	d.wall(wallL, top, wallR-wallL, bottom-top)
	mid := h / 2
	coreH := min(bottom-top-2*wallT-36, 150)
	d.add(`<rect class="d-core" x="%d" y="%d" width="%d" height="%d"/>`, coreL, mid-coreH/2, coreR-coreL, coreH)
	d.text("d-text", (coreL+coreR)/2, mid-4, "middle", "Sandbox")
	d.text("d-note", (coreL+coreR)/2, mid+16, "middle", "untrusted code")
	for i, e := range open {
		y := rowAt(i, len(open), mid)
		d.box(margin, y, e)
		d.leave(coreL, spread(i, len(open), mid, coreH), wallL, y, margin+boxW, e)
	}
	for i, e := range shut {
		y := rowAt(i, len(shut), mid)
		d.box(wideW-margin-boxW, y, e)
		d.stop(coreR, spread(i, len(shut), mid, coreH), wallR, y, wideW-margin-boxW, e)
	}
	d.add(`</svg>`)
}

// courses rounds a height up to whole courses of the wall.
func courses(h int) int { return (h + wallT - 1) / wallT * wallT }

func rowAt(i, n, mid int) int { return mid + (2*i-n+1)*pitch/2 }

// spread places where an edge leaves the sandbox.
func spread(i, n, mid, h int) int { return mid + (2*i-n+1)*(h-36)/(2*max(n, 2)) }

// wall draws a ring of masonry. The pattern is in the page's sprite; a drawing of
// its own starts it at the ring's corner.
func (d *drawing) wall(x, y, w, h int) {
	d.add(`<svg x="%d" y="%d" width="%d" height="%d"><path class="d-wall" fill-rule="evenodd" d="M0 0h%dv%dh-%dzM%d %dh%dv%dh-%dz"/></svg>`,
		x, y, w, h, w, h, w, wallT, wallT, w-2*wallT, h-2*wallT, w-2*wallT)
}

// box is a destination.
func (d *drawing) box(x, y int, e edge) {
	d.add(`<rect class="d-box" x="%d" y="%d"/>`, x, y-boxH/2)
	d.text("d-text", x+16, y+5, "", fit(e.Name, boxW-32))
}

// leave draws an edge that passes the wall through a gate, to the left.
func (d *drawing) leave(x0, y0, wall, y, x1 int, e edge) {
	gate := wall + wallT/2
	d.add(`<path class="d-line%s" d="M%d %dC%d %d %d %d %d %dH%dm8 -5l-8 5l8 5"/>`, lineClass(e), x0, y0, x0-24, y0, wall+wallT+26, y, wall+wallT, y, x1+1)
	d.tag(gate-tagW/2-34, y, e)
}

// stop draws an edge that ends at the wall, on the right.
func (d *drawing) stop(x0, y0, wall, y, x1 int, e edge) {
	face := wall - wallT
	d.add(`<path class="d-line" d="M%d %dC%d %d %d %d %d %d"/>`, x0, y0, x0+24, y0, face-26, y, face, y)
	d.add(`<path class="d-line ghost" d="M%d %dH%d"/>`, wall+40, y, x1-6)
	d.tag(wall-wallT/2+34-tagW/2, y, e)
}

// tags are the words that edges carry, each with its glyph: one for each posture, which
// both drawings use.
func (d *drawing) tags(open, shut []edge) {
	d.add(`<svg class="sprite" aria-hidden="true">`)
	seen := map[posture]bool{}
	for _, e := range append(open[:len(open):len(open)], shut...) {
		if seen[e.Posture] {
			continue
		}
		seen[e.Posture] = true
		d.add(`<g id="t-%s" class="%s"><rect/><use href="#g-%[1]s" x="12" y="7" width="16" height="16"/><text x="34" y="20">%[3]s</text></g>`,
			e.Posture, strings.TrimSpace("d-tag "+e.Chip.Class), html.EscapeString(e.Chip.Word))
	}
	d.add(`</svg>`)
}

// tag is the word and glyph of an edge, centred on its line.
func (d *drawing) tag(x, y int, e edge) {
	d.add(`<use href="#t-%s" x="%d" y="%d"/>`, e.Posture, x, y-tagH/2)
}

func lineClass(e edge) string {
	if e.Posture == brokered {
		return " broker"
	}
	return ""
}

// Geometry of the tall drawing.
const (
	tallW    = 364
	tallBoxW = 290 // as in site.css
	tallBoxH = 72
	tallStep = tallBoxH + 10
	tallBox  = 72 // left edge of the boxes; the gutter before it holds the lines
)

// tall draws the same from top to bottom: what is let through above the
// sandbox, what is refused below it.
func (d *drawing) tall(open, shut []edge) {
	const coreH = 88
	core := 4 + len(open)*tallStep + wallT + 16
	lower := core + coreH + wallT + 16
	d.open("tall", tallW, lower+len(shut)*tallStep+4, open, shut)
	wallTop, wallBottom := core-wallT-8, core+coreH+wallT+8
	d.wall(0, wallTop, tallW, wallBottom-wallTop)
	d.add(`<rect class="d-core" x="%d" y="%d" width="%d" height="%d"/>`, wallT+6, core+12, tallW-2*(wallT+6), coreH-24)
	d.text("d-text", tallW/2, core+coreH/2-1, "middle", "Sandbox")
	d.text("d-note", tallW/2, core+coreH/2+17, "middle", "untrusted code")
	for i, e := range open {
		x, y := gutter(len(open)-1-i, len(open)), 1+i*tallStep+tallBoxH/2
		d.add(`<path class="d-line%s" d="M%d %dV%dH%dm-7 -5l7 5l-7 5"/>`, lineClass(e), x, core+12, y, tallBox-1)
		d.tallEdge(y, e)
	}
	for i, e := range shut {
		x, y := gutter(i, len(shut)), lower+i*tallStep+tallBoxH/2
		d.add(`<path class="d-line" d="M%d %dV%d"/>`, x, core+coreH-12, wallBottom-wallT)
		d.add(`<path class="d-line ghost" d="M%d %dV%dH%d"/>`, x, wallBottom+5, y, tallBox-5)
		d.tallEdge(y, e)
	}
	d.add(`</svg>`)
}

// gutter is where a line of n runs, inside the wall's inner faces: the destination
// nearest to the wall has the innermost one, so that lines do not cross.
func gutter(i, n int) int { return tallBox - 14 - i*min(8, 20/max(n-1, 1)) }

// tallEdge draws a destination, its name above its tag: beside each other a
// name would have room for a few letters only.
func (d *drawing) tallEdge(y int, e edge) {
	d.add(`<rect class="d-box" x="%d" y="%d"/>`, tallBox, y-tallBoxH/2)
	d.text("d-text", tallBox+14, y-11, "", fit(e.Name, tallBoxW-28))
	d.tag(tallBox+9, y+14, e)
}

// fit shortens a name to a box that is px units wide; the list has it in full.
func fit(s string, px int) string {
	room := px * 1000
	cut, used := 0, 0 // where an ellipsis still has room
	for i, r := range s {
		w := advance(r)
		if used+advance('…') <= room {
			cut = i
		}
		if used += w; used > room {
			return strings.TrimRight(s[:cut], " ") + "…"
		}
	}
	return s
}

// advance is how wide a letter of class d-text is drawn at most, in thousandths
// of a unit: the reader's font is not known here, so this is that of a wide one.
func advance(r rune) int {
	const size = 15
	switch {
	case strings.ContainsRune(" iIjl.,:;!|'", r):
		return 390 * size
	case strings.ContainsRune("frt-()[]/", r):
		return 500 * size
	case strings.ContainsRune("mwMW@%…", r), r >= 0x1100:
		return 1100 * size
	case 'A' <= r && r <= 'Z':
		return 800 * size
	}
	return 700 * size
}
