package kit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/wallproof/wallproof/probes/nonce"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxFrames bounds how many HTTP/2 frames are read for one answer.
const maxFrames = 256

// H2 makes one HTTP/2 request on an open connection. The fields are sent in the
// order given and as they are, pseudo-header fields first, so that they may
// contradict one another. Through a tunnel (the method CONNECT) that opens,
// inner is sent, and the answer's body is what comes back. A peer that answers
// in HTTP/1 is understood as well.
func H2(ctx context.Context, c net.Conn, inner []byte, fields ...hpack.HeaderField) (*Answer, error) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := enc.WriteField(f); err != nil {
			return nil, fmt.Errorf("encode a header block: %w", err)
		}
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	w := http2.NewFramer(&out, nil)
	if err := w.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return nil, err
	}
	if err := w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: inner == nil}); err != nil {
		return nil, err
	}
	if _, err := c.Write(out.Bytes()); err != nil {
		return nil, err
	}
	br := bufio.NewReader(c)
	if head, err := br.Peek(5); err == nil && string(head) == "HTTP/" {
		return ReadAnswer(br, http.MethodGet)
	}
	x := &h2Exchange{c: c, fr: http2.NewFramer(c, br), inner: inner, answer: &Answer{Header: http.Header{}}}
	x.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return x.read(ctx)
}

// h2Exchange is one stream being read.
type h2Exchange struct {
	c      net.Conn
	fr     *http2.Framer
	inner  []byte
	answer *Answer
}

func (x *h2Exchange) read(ctx context.Context) (*Answer, error) {
	for range maxFrames {
		f, err := x.fr.ReadFrame()
		if err != nil {
			return x.finish(err)
		}
		done, err := x.take(ctx, f)
		if err != nil || done {
			return x.finish(err)
		}
	}
	return x.finish(nil)
}

// take handles one frame and reports whether it was the last that matters.
func (x *h2Exchange) take(ctx context.Context, frame http2.Frame) (done bool, err error) {
	a := x.answer
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return false, x.fr.WriteSettingsAck()
		}
	case *http2.MetaHeadersFrame:
		for _, h := range f.Fields {
			a.Header.Add(h.Name, h.Value)
		}
		a.Status, _ = strconv.Atoi(f.PseudoValue("status"))
		if x.inner != nil && a.Status/100 == 2 && !f.StreamEnded() {
			Shorten(x.c, ctx, Silence)
			return false, x.fr.WriteData(1, false, x.inner)
		}
		return f.StreamEnded(), nil
	case *http2.DataFrame:
		a.Body = append(a.Body, f.Data()...)
		tunnelled := x.inner != nil && nonce.FindProof(a.Body) != ""
		return f.StreamEnded() || tunnelled || len(a.Body) > maxAnswer, nil
	case *http2.RSTStreamFrame:
		return true, &Refusal{What: "h2 stream", Status: int(f.ErrCode), Reason: f.ErrCode.String()}
	case *http2.GoAwayFrame:
		if a.Status == 0 {
			return true, &Refusal{What: "h2 connection", Status: int(f.ErrCode), Reason: f.ErrCode.String()}
		}
	}
	return false, nil
}

// finish returns the answer, if there was one, or why not.
func (x *h2Exchange) finish(err error) (*Answer, error) {
	if x.answer.Status == 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	x.answer.Seen = seen(&http.Response{Header: x.answer.Header}, x.answer.Body)
	return x.answer, nil
}
