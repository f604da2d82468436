package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/internal/term"
	xterm "golang.org/x/term"
)

// splitWords splits a command line at white space. Quotes keep words together,
// a backslash outside single quotes the next character. There is no other
// meaning to anything: name a shell for more.
func splitWords(s string) ([]string, error) {
	var words []string
	var word []rune
	var quote rune
	in, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word, escaped = append(word, r), false
		case r == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word = append(word, r)
			}
		case r == '\'' || r == '"':
			in, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words, word, in = append(words, string(word)), nil, false
			}
		default:
			in, word = true, append(word, r)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed, or a backslash ends the command")
	}
	if in {
		words = append(words, string(word))
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("there is no command")
	}
	return words, nil
}

// lineWriter puts a name before each line, so that what runs side by side can be
// told apart. A line that is cut in two by another's stays whole.
type lineWriter struct {
	mu     *sync.Mutex // of the output
	out    io.Writer
	prefix string
	rest   []byte
}

// outputs keeps lines of different writers whole.
var outputs sync.Mutex

// maxLine is where a line without an end is broken.
const maxLine = 64 << 10

// lineWriters are all that there are, for flushLines.
var lineWriters []*lineWriter

func prefixed(out io.Writer, name string) io.Writer {
	w := &lineWriter{mu: &outputs, out: out, prefix: "[" + name + "] "}
	lineWriters = append(lineWriters, w)
	return w
}

// flushLines writes last lines that have no end.
func flushLines() {
	for _, w := range lineWriters {
		w.flush()
	}
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 && len(w.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 {
			i = maxLine - 1
		}
		line := w.rest[:i+1]
		if err := w.line(line); err != nil {
			return 0, err
		}
		w.rest = w.rest[i+1:]
	}
}

func (w *lineWriter) line(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.out.Write(append([]byte(w.prefix), line...))
	return err
}

// flush writes what has no end.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		_ = w.line(append(w.rest, '\n'))
		w.rest = nil
	}
}

// terminal gives the agent a terminal of its own where we have one: raw on our
// side, so that every key arrives inside, Ctrl-C too, and of the same size.
func terminal(ctx context.Context, c *sandbox.Command) (restore func(), err error) {
	if !term.IsTerminal(os.Stdin) || !term.IsTerminal(os.Stdout) {
		return func() {}, nil
	}
	c.TTY = true
	sizes := make(chan sandbox.Size, 1)
	c.Resize = sizes
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH // the size that it has
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if w, h, err := xterm.GetSize(int(os.Stdout.Fd())); err == nil {
				select {
				case sizes <- sandbox.Size{Rows: uint16(h), Cols: uint16(w)}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	state, err := xterm.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		signal.Stop(changed)
		return nil, err
	}
	return func() {
		signal.Stop(changed)
		_ = xterm.Restore(int(os.Stdin.Fd()), state)
	}, nil
}
