package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/internal/term"
)

// progress tells how long work goes on: one redrawn line on a terminal, one
// plain line a step elsewhere. It is safe for use by several goroutines.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	style term.Style
	start time.Time
	live  bool // a line waits to be overwritten
}

func newProgress() *progress {
	return &progress{out: os.Stderr, style: term.StyleOf(os.Stderr), start: time.Now()}
}

// step reports that something has been reached. On a terminal it replaces the
// line before it.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%5.1fs  %s", time.Since(p.start).Seconds(), text)
	if !p.style.Live {
		fmt.Fprintln(p.out, line)
		return
	}
	if runes := []rune(line); len(runes) >= p.style.Width && p.style.Width > 1 {
		line = string(runes[:p.style.Width-1])
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", p.style.Paint(term.Dim, line))
	p.live = true
}

// done removes what waits to be overwritten.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.live = false
	}
}

// heading prints a numbered step of the demo.
func heading(w io.Writer, style term.Style, n int, text string) {
	fmt.Fprintf(w, "\n%s %s\n\n", style.Paint(term.Bold, fmt.Sprintf("%d.", n)), style.Paint(term.Bold, strings.ToUpper(text[:1])+text[1:]))
}
