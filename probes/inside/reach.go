package inside

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What an attempt at a site came to. The words are what Reach prints.
const (
	Answered = "HTTP"               // HTTP and a status: the site, or the proxy in its place, has answered
	Refused  = "CONNECT"            // CONNECT and a status: the proxy has refused the tunnel
	NoName   = "no-such-name"       // the name did not resolve
	Closed   = "refused"            // the connection was refused
	TimedOut = "timeout"            //
	BadTLS   = "tls"                // the certificate is not one that this sandbox trusts
	Failed   = "failed"             // anything else; the error follows
	reasonOf = "X-Wallproof-Reason" // the proxy's field that says why it refused
)

// reachTimeout bounds one attempt.
const reachTimeout = 15 * time.Second

// Reach tries each URL twice, as a program that uses the proxy of its environment
// and as one that ignores it, and prints a line for each: URL, way (proxy or
// direct), what it came to, and why. Then it prints which variables of its
// environment look like keys, by name. It is what to run as the agent to see what
// the agent can do.
func Reach(ctx context.Context, out io.Writer, urls []string) error {
	for _, u := range urls {
		if _, err := url.Parse(u); err != nil {
			return fmt.Errorf("%q is no URL", u)
		}
		for _, way := range []string{"proxy", "direct"} {
			fmt.Fprintf(out, "%s\t%s\t%s\n", u, way, reachOne(ctx, u, way == "proxy"))
		}
	}
	fmt.Fprintf(out, "key-like variables\t%s\n", strings.Join(KeyLike(os.Environ()), " "))
	return nil
}

// KeyLike lists the names of variables that look like credentials, sorted.
func KeyLike(env []string) []string {
	out := []string{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"}, func(part string) bool { return strings.Contains(upper, part) }) || strings.HasSuffix(upper, "_PAT") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func reachOne(ctx context.Context, rawURL string, proxied bool) string {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	refusal := "" // of a CONNECT
	tr := &http.Transport{DisableKeepAlives: true, OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			refusal = strings.TrimSpace(fmt.Sprintf("%s %d %s", Refused, resp.StatusCode, resp.Header.Get(reasonOf)))
		}
		return nil
	}}
	if proxied {
		tr.Proxy = http.ProxyFromEnvironment
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return Failed + " " + err.Error()
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
		return strings.TrimSpace(fmt.Sprintf("%s %d %s", Answered, resp.StatusCode, resp.Header.Get(reasonOf)))
	}
	if refusal != "" {
		return refusal
	}
	return failure(err)
}

// failure names an error.
func failure(err error) string {
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &name) && !name.IsTimeout:
		return NoName
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return Closed
	case errors.As(err, &unknown), errors.As(err, &cert):
		return BadTLS
	case errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	}
	return Failed + " " + err.Error()
}
