package httpx

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
)

// WriteRequestLine begins a request.
func WriteRequestLine(w *bufio.Writer, method, target string) {
	w.WriteString(method)
	w.WriteByte(' ')
	w.WriteString(target)
	w.WriteString(" HTTP/1.1\r\n")
}

// WriteStatusLine begins a response with the code's own phrase: what the
// server called it is not passed on.
func WriteStatusLine(w *bufio.Writer, status int) {
	w.WriteString("HTTP/1.1 ")
	var code [4]byte
	w.Write(strconv.AppendInt(code[:0], int64(status), 10))
	w.WriteByte(' ')
	w.WriteString(http.StatusText(status))
	w.WriteString("\r\n")
}

// WriteField writes one header field.
func WriteField(w *bufio.Writer, name, value string) {
	w.WriteString(name)
	w.WriteString(": ")
	w.WriteString(value)
	w.WriteString("\r\n")
}

// WriteFields writes fields in their order.
func WriteFields(w *bufio.Writer, h Header) {
	for i := range h {
		WriteField(w, h[i].Name, h[i].Value)
	}
}

// WriteLength writes the framing of a body of known length, or Chunked.
func WriteLength(w *bufio.Writer, length int64) {
	if length == Chunked {
		w.WriteString("Transfer-Encoding: chunked\r\n")
		return
	}
	var num [20]byte
	w.WriteString("Content-Length: ")
	w.Write(strconv.AppendInt(num[:0], length, 10))
	w.WriteString("\r\n")
}

// ChunkWriter frames what is written to it as chunks.
type ChunkWriter struct{ W *bufio.Writer }

// Write writes p as one chunk; an empty p writes nothing.
func (c ChunkWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var num [20]byte
	c.W.Write(strconv.AppendInt(num[:0], int64(len(p)), 16))
	c.W.WriteString("\r\n")
	n, err := c.W.Write(p)
	if err != nil {
		return n, err
	}
	_, err = c.W.WriteString("\r\n")
	return n, err
}

// Close writes the last chunk and the trailers.
func (c ChunkWriter) Close(trailer Header) error {
	c.W.WriteString("0\r\n")
	WriteFields(c.W, trailer)
	_, err := c.W.WriteString("\r\n")
	return err
}

var _ io.Writer = ChunkWriter{}
