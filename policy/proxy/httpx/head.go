package httpx

import (
	"bufio"
	"io"
	"strings"
)

// Limits bound a head.
type Limits struct {
	HeadBytes int // from the first byte to the empty line
	Headers   int // number of fields
}

// readHead reads up to and with the empty line and returns it as one string.
// io.EOF means that nothing at all was sent.
func readHead(br *bufio.Reader, lim Limits, scratch *[]byte) (string, error) {
	buf := (*scratch)[:0]
	defer func() { *scratch = buf[:0] }()
	partial := false // the line began in an earlier slice
	for {
		line, err := br.ReadSlice('\n')
		buf = append(buf, line...)
		if len(buf) > lim.HeadBytes {
			return "", refuse(431, ReasonHeadTooLarge, "the head is larger than allowed")
		}
		switch {
		case err == bufio.ErrBufferFull:
			partial = true
			continue
		case err == io.EOF && len(buf) > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		}
		if n := len(buf); n >= 4 && buf[n-2] == '\r' && buf[n-3] == '\n' && buf[n-4] == '\r' {
			return string(buf), nil
		}
		if !partial && (len(line) == 1 || len(line) == 2 && line[0] == '\r') {
			return "", refuse(400, ReasonRequestLine, "empty line that does not end a head")
		}
		partial = false
	}
}

// cutLine splits a head at its next CRLF. It refuses a bare CR or LF.
func cutLine(head string) (line, rest string, ok bool) {
	i := strings.IndexByte(head, '\n')
	if i < 1 || head[i-1] != '\r' {
		return "", "", false
	}
	line = head[:i-1]
	return line, head[i+1:], strings.IndexByte(line, '\r') < 0
}

// parseFields reads header or trailer fields up to the empty line.
func parseFields(head string, lim Limits, into Header) (Header, *Error) {
	for {
		line, rest, ok := cutLine(head)
		if !ok {
			return into, refuse(400, ReasonHeader, "line that does not end in CRLF")
		}
		if line == "" {
			return into, nil
		}
		head = rest
		if line[0] == ' ' || line[0] == '\t' {
			return into, refuse(400, ReasonObsFold, "obsolete line folding")
		}
		if len(into) >= lim.Headers {
			return into, refuse(431, ReasonHeadTooLarge, "too many header fields")
		}
		colon := strings.IndexByte(line, ':')
		if colon < 1 || !IsToken(line[:colon]) {
			return into, refuse(400, ReasonHeader, "header name that is not a token")
		}
		value := strings.Trim(line[colon+1:], " \t")
		if !IsFieldValue(value) {
			return into, refuse(400, ReasonHeader, "control character in a header value")
		}
		if MasksFraming(line[:colon]) {
			return into, refuse(400, ReasonHeader, "header name that some servers read as a framing field")
		}
		into = append(into, Field{line[:colon], value})
	}
}

// MasksFraming finds names such as Content_Length, which CGI-like servers
// cannot tell from the real field.
func MasksFraming(name string) bool {
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "content-length", "transfer-encoding", "host", "proxy-authorization", "x-wallproof-reason":
		return true
	}
	return false
}

// tokenTable marks the characters of an RFC 9110 token.
var tokenTable = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 && c != 0
	}
	return t
}()

// IsToken says whether s is an RFC 9110 token.
func IsToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if !tokenTable[s[i]] {
			return false
		}
	}
	return s != ""
}

// IsFieldValue says whether s may stand as a field's value: no control
// character but tab.
func IsFieldValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// parseVersion reads "HTTP/1.0" or "HTTP/1.1".
func parseVersion(s string) (minor int, ok bool) {
	switch s {
	case "HTTP/1.1":
		return 1, true
	case "HTTP/1.0":
		return 0, true
	}
	return 0, false
}
