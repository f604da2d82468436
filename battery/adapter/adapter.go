// Package adapter lets the battery attack somebody else's proxy in place of
// Wallproof's own: it starts it behind the same packet filter, waits until it
// answers, and reads its log. One file is one kind of proxy.
//
// # What is taken on whose word
//
// A foreign proxy's log is read for one thing: which attempt a refusal belongs to.
// What the log does not tie to an attempt, by the nonce in a name or by the
// attempt's own source port and time, counts for nothing: where the probe was not
// told no either, the outcome is inconclusive. That the proxy lets something
// through is never read in its log but seen at the witness.
package adapter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy/host"
)

// Record is what one line of a foreign proxy's log says of a request.
type Record struct {
	Time    time.Time      // when the request began, as well as the log knows it
	Client  netip.AddrPort // port 0 where the log has none
	Method  string
	Scheme  string // http, https
	Host    string // normalised, or quoted where it is none
	Port    int
	URL     string // as logged: a nonce in it says whose request it was. It is not kept
	Dialled string // address, with its port where the log has it, "" if nothing was dialled
	Status  int    // that the client got, 0 if none
	Verdict Verdict
	Reason  string // why, in the proxy's own word, with the adapter's name before it
}

// Verdict is what the proxy did with a request.
type Verdict string

// The verdicts. A failure (a dead upstream, a name that does not resolve) is no
// refusal.
const (
	Allowed Verdict = "allow"
	Denied  Verdict = "deny"
	Failed  Verdict = "failed"
)

// Adapter is one kind of proxy.
type Adapter struct {
	Name string
	// Line reads one line of the log. ok is false for a line that is about no
	// request; an error is a line that this adapter does not understand.
	Line func(line []byte) (r Record, ok bool, err error)
	// Format says in one sentence what the log must look like.
	Format string
}

// All lists the adapters in the order in which they are shown.
func All() []Adapter { return []Adapter{squid, mitmproxy} }

// Names lists the adapters' names.
func Names() []string {
	var out []string
	for _, a := range All() {
		out = append(out, a.Name)
	}
	return out
}

// Lookup finds an adapter. The error for an unknown name lists the known ones.
func Lookup(name string) (Adapter, error) {
	for _, a := range All() {
		if a.Name == name {
			return a, nil
		}
	}
	return Adapter{}, fmt.Errorf("there is no adapter for a proxy called %q; there are: %s", name, strings.Join(Names(), ", "))
}

// Bounds of a log.
const (
	MaxLogBytes = 256 << 20
	MaxLogLine  = 64 << 10
	MaxRecords  = 1 << 17
)

// Log is what was read of a log.
type Log struct {
	Records []Record
	Unread  int    // lines that were not understood, or too long
	First   string // why the first of them was not, with its line number
	Cut     bool   // there was more than the bounds allow
}

// ErrFormat: a log of which no line could be read is another format's.
var ErrFormat = errors.New("not a line of it could be read")

// Read reads a log. A line that is not understood, as an attacker can write into a
// log what he likes, is counted and ties nothing to anybody.
func (a Adapter) Read(src io.Reader) (Log, error) {
	var out Log
	lr := &io.LimitedReader{R: src, N: MaxLogBytes}
	br := bufio.NewReaderSize(lr, MaxLogLine)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			out.note(n, fmt.Errorf("it has more than %d bytes", MaxLogLine))
			if err = skipLine(br); err == nil {
				continue
			}
		}
		if err == io.EOF {
			break // what is left is a line that was cut short
		}
		if err != nil {
			return out, fmt.Errorf("read the proxy's log, line %d: %w", n, err)
		}
		if len(out.Records) >= MaxRecords {
			out.Cut = true
			break
		}
		r, ok, err := a.Line(bytes.TrimRight(line, "\r\n"))
		if err != nil {
			out.note(n, err)
		} else if ok {
			out.Records = append(out.Records, r)
		}
	}
	out.Cut = out.Cut || lr.N == 0
	if out.Unread > 0 && len(out.Records) == 0 {
		return out, fmt.Errorf("%w (%s); %s's log must be: %s", ErrFormat, out.First, a.Name, a.Format)
	}
	return out, nil
}

func (l *Log) note(n int, err error) {
	if l.Unread++; l.First == "" {
		l.First = fmt.Sprintf("line %d: %v", n, err)
	}
}

func skipLine(br *bufio.Reader) error {
	for {
		_, err := br.ReadSlice('\n')
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// setHost takes a host in, normalised where it is one.
func (r *Record) setHost(raw string) {
	if h, err := host.Parse(raw); err == nil {
		r.Host = h.String()
		return
	}
	if len(raw) > maxRawHost {
		raw = raw[:maxRawHost]
	}
	r.Host = strconv.QuoteToASCII(raw)
}

const maxRawHost = 128

// setAuthority takes in "host", "host:port" or "[address]:port"; def is the port
// where none is named.
func (r *Record) setAuthority(s string, def int) {
	name, port := s, ""
	switch {
	case strings.HasPrefix(s, "["):
		if end := strings.IndexByte(s, ']'); end > 0 {
			name, port = s[1:end], strings.TrimPrefix(s[end+1:], ":")
		}
	case strings.Count(s, ":") == 1:
		name, port, _ = strings.Cut(s, ":")
	}
	r.Port = def
	if p, err := strconv.ParseUint(port, 10, 16); err == nil {
		r.Port = int(p)
	}
	r.setHost(name)
}

// setURL takes in what a request asked for: the target of a CONNECT, or a URL.
func (r *Record) setURL(method, raw string) {
	r.Method, r.URL = plainWord(method), raw
	if r.Method == "CONNECT" {
		r.Scheme = "https"
		r.setAuthority(raw, 443)
		return
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return // no URL: what could not be parsed has no host
	}
	def := 80
	if r.Scheme = plainWord(strings.ToLower(scheme)); r.Scheme == "https" {
		def = 443
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	r.setAuthority(rest, def)
}

// plainWord is a short word of letters, digits and a few signs, or "".
func plainWord(s string) string {
	if len(s) > 32 {
		return ""
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return ""
		}
	}
	return s
}
