package lenient

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// maxBuffered is how much of an answer is held back to learn its length.
const maxBuffered = 64 << 20

// Response writes the answer to one request. It is an http.ResponseWriter with
// Flush and Hijack. Finish must be called.
type Response struct {
	conn     net.Conn
	br       *bufio.Reader
	bw       *bufio.Writer
	req      *Request
	header   http.Header
	status   int
	body     bytes.Buffer
	chunked  bool // the head has been written, chunks follow
	hijacked bool
	trailers []string
}

// NewResponse returns the answer to a request that was read from br over conn.
func NewResponse(conn net.Conn, br *bufio.Reader, req *Request) *Response {
	return &Response{conn: conn, br: br, bw: bufio.NewWriter(conn), req: req, header: http.Header{}}
}

// Header is what WriteHeader will send.
func (w *Response) Header() http.Header { return w.header }

// WriteHeader sets the status, once.
func (w *Response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.trailers = w.header["Trailer"]
	}
}

// Write adds to the body.
func (w *Response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.hijacked:
		return 0, http.ErrHijacked
	case w.bodyless():
		return len(b), nil
	case w.chunked:
		return len(b), w.chunk(b)
	case w.body.Len()+len(b) > maxBuffered:
		return 0, ErrTooLarge
	}
	return w.body.Write(b)
}

// FlushError sends what there is so far as a chunk.
func (w *Response) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.hijacked {
		return http.ErrHijacked
	}
	if !w.chunked && !w.bodyless() {
		w.startChunks()
	}
	return w.bw.Flush()
}

// Flush is FlushError for http.Flusher.
func (w *Response) Flush() { _ = w.FlushError() }

// Hijack hands the connection over.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.chunked || w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	w.hijacked = true
	return w.conn, bufio.NewReadWriter(w.br, w.bw), nil
}

// Hijacked reports whether the connection was handed over.
func (w *Response) Hijacked() bool { return w.hijacked }

func (w *Response) bodyless() bool {
	return w.req.Method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified || w.status < 200
}

// Finish completes the answer. It reports whether the connection can take
// another request.
func (w *Response) Finish() (reusable bool, err error) {
	if w.hijacked {
		return false, nil
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case w.chunked:
		fmt.Fprint(w.bw, "0\r\n")
		w.fields(w.trailer())
		fmt.Fprint(w.bw, "\r\n")
	case len(w.trailers) > 0 && !w.bodyless():
		w.startChunks()
		return w.Finish()
	default:
		if !w.bodyless() || w.req.Method == http.MethodHead {
			w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
		}
		w.head()
		_, _ = w.bw.Write(w.body.Bytes()) // a failure shows in Flush
	}
	if err := w.bw.Flush(); err != nil {
		return false, err
	}
	return !w.req.Close, nil
}

// startChunks sends the head and what is buffered.
func (w *Response) startChunks() {
	w.chunked = true
	w.header.Del("Content-Length")
	w.header.Set("Transfer-Encoding", "chunked")
	w.head()
	if w.body.Len() > 0 {
		_ = w.chunk(w.body.Bytes()) // a failure shows in Flush
		w.body.Reset()
	}
}

func (w *Response) chunk(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	fmt.Fprintf(w.bw, "%x\r\n", len(b))
	_, _ = w.bw.Write(b)
	_, err := io.WriteString(w.bw, "\r\n")
	return err
}

// trailer takes the declared trailer fields out of the header.
func (w *Response) trailer() http.Header {
	out := http.Header{}
	for _, name := range w.trailers {
		if v, ok := w.header[name]; ok {
			out[name] = v
		}
	}
	return out
}

func (w *Response) head() {
	fmt.Fprintf(w.bw, "HTTP/1.1 %d %s\r\n", w.status, http.StatusText(w.status))
	if w.req.Close {
		w.header.Set("Connection", "close")
	}
	h := maps.Clone(w.header)
	if w.chunked {
		for _, name := range w.trailers {
			delete(h, name)
		}
	}
	w.fields(h)
	fmt.Fprint(w.bw, "\r\n")
}

func (w *Response) fields(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fmt.Fprintf(w.bw, "%s: %s\r\n", name, v)
		}
	}
}
