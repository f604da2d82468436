package kit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxFrames bounds how many HTTP/2 frames are read for one answer.
const maxFrames = 256

// H2 makes one HTTP/2 request on an open connection. The fields are sent in the
// order given and as they are, pseudo-header fields first, so that they may
// contradict one another. A peer that answers in HTTP/1 is understood as well.
func H2(c net.Conn, fields ...hpack.HeaderField) (*Answer, error) {
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
	if err := w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: !tunnels(fields)}); err != nil {
		return nil, err
	}
	if _, err := c.Write(out.Bytes()); err != nil {
		return nil, err
	}
	br := bufio.NewReader(c)
	if head, err := br.Peek(5); err == nil && string(head) == "HTTP/" {
		return ReadAnswer(br, http.MethodGet)
	}
	return readH2(c, br)
}

func tunnels(fields []hpack.HeaderField) bool {
	for _, f := range fields {
		if f.Name == ":method" && f.Value == http.MethodConnect {
			return true
		}
	}
	return false
}

func readH2(c net.Conn, br *bufio.Reader) (*Answer, error) {
	fr := http2.NewFramer(c, br)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a := &Answer{Header: http.Header{}}
	for range maxFrames {
		f, err := fr.ReadFrame()
		if err != nil {
			return finishH2(a, err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				a.Header.Add(h.Name, h.Value)
			}
			a.Status, _ = strconv.Atoi(f.PseudoValue("status"))
		case *http2.DataFrame:
			a.Body = append(a.Body, f.Data()...)
		case *http2.RSTStreamFrame:
			return nil, &Refusal{What: "h2 stream", Status: int(f.ErrCode), Reason: f.ErrCode.String()}
		case *http2.GoAwayFrame:
			if a.Status == 0 {
				return nil, &Refusal{What: "h2 connection", Status: int(f.ErrCode), Reason: f.ErrCode.String()}
			}
		}
		if err != nil {
			return finishH2(a, err)
		}
		if f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream) || len(a.Body) > maxAnswer {
			break
		}
	}
	return finishH2(a, nil)
}

func finishH2(a *Answer, err error) (*Answer, error) {
	if a.Status == 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	a.Seen = seen(&http.Response{Header: a.Header}, a.Body)
	return a, nil
}
