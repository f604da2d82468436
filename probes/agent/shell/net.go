package shell

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Bounds of the network programs.
const (
	fetchTimeout = 20 * time.Second
	maxFetch     = 16 << 20
	maxRedirects = 10
	maxImages    = 16
)

// Net is how the programs reach the network.
type Net struct {
	// Dial opens a connection to an address, "ip:port"; nil means a plain dialler.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Lookup returns the addresses of a name; nil means the system's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Done is told of every HTTP exchange and name lookup: the answer with its body,
	// or the error. nil drops it.
	Done func(resp *http.Response, body []byte, err error)
	// Agent is the User-Agent field.
	Agent string
}

func (n *Net) done(resp *http.Response, body []byte, err error) {
	if n.Done != nil {
		n.Done(resp, body, err)
	}
}

// ProxyRefusal is a proxy's answer to CONNECT that is not 2xx.
type ProxyRefusal struct {
	Status int
	Header http.Header
}

func (p *ProxyRefusal) Error() string {
	return fmt.Sprintf("the proxy answered CONNECT with %d", p.Status)
}

// LookupError is a name that could not be resolved.
type LookupError struct {
	Name string
	Err  error
}

func (l *LookupError) Error() string { return "could not resolve " + l.Name + ": " + l.Err.Error() }

// Unwrap returns why.
func (l *LookupError) Unwrap() error { return l.Err }

// transport makes a transport for one command: proxies and authorities are those
// that its environment names.
func (n *Net) transport(variable func(string) string, direct, insecure bool) (*http.Transport, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v := variable(name); v != "" {
				return v
			}
		}
		return ""
	}
	t := &http.Transport{
		DialContext:         n.dialName,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: insecure},
		TLSHandshakeTimeout: fetchTimeout,
		DisableKeepAlives:   true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode/100 != 2 {
				return &ProxyRefusal{Status: resp.StatusCode, Header: resp.Header}
			}
			return nil
		},
	}
	if file := first("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the trusted authorities: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	if !direct {
		cfg := httpproxy.Config{HTTPProxy: first("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
			HTTPSProxy: first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), NoProxy: first("no_proxy", "NO_PROXY")}
		f := cfg.ProxyFunc()
		t.Proxy = func(r *http.Request) (*url.URL, error) { return f(r.URL) }
	}
	return t, nil
}

// dialName dials a name's addresses in turn.
func (n *Net) dialName(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = n.lookup(ctx, host); err != nil {
		return nil, &LookupError{Name: host, Err: err}
	}
	var last error = fmt.Errorf("%s has no address", host)
	for _, a := range addrs {
		c, err := n.dial(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, last
}

func (n *Net) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.Dial != nil {
		return n.Dial(ctx, network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func (n *Net) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if n.Lookup != nil {
		return n.Lookup(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// request is one use of curl or wget.
type request struct {
	method   string
	url      string
	header   []string
	body     []byte
	hasBody  bool
	output   string
	head     bool // print the header
	silent   bool
	fail     bool
	follow   bool
	direct   bool
	insecure bool
	timeout  time.Duration
}

// fetch makes a request and returns the answer with its body.
func (c *call) fetch(ctx context.Context, r request) (*http.Response, []byte, error) {
	resp, body, err := c.exchange(ctx, r)
	c.shell.Net.done(resp, body, err)
	return resp, body, err
}

func (c *call) exchange(ctx context.Context, r request) (*http.Response, []byte, error) {
	if !strings.Contains(r.url, "://") {
		r.url = "http://" + r.url
	}
	t, err := c.shell.Net.transport(c.variable, r.direct, r.insecure)
	if err != nil {
		return nil, nil, err
	}
	timeout := fetchTimeout
	if r.timeout > 0 {
		timeout = min(r.timeout, timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	if c.shell.Net.Agent != "" {
		req.Header.Set("User-Agent", c.shell.Net.Agent)
	}
	for _, h := range r.header {
		name, value, _ := strings.Cut(h, ":")
		if strings.EqualFold(name, "Host") {
			req.Host = strings.TrimSpace(value)
			continue
		}
		req.Header.Add(name, strings.TrimSpace(value))
	}
	client := http.Client{Transport: t, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if !r.follow || len(via) >= maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFetch))
	if err != nil && len(body) == 0 {
		return resp, nil, err
	}
	return resp, body, nil
}

// image matches a markdown image.
var image = regexp.MustCompile(`!\[[^\]]*\]\(\s*([^)\s]+)[^)]*\)`)

// markdown shows a text: it fetches every image in it, as a renderer does.
func markdown(ctx context.Context, c *call) error {
	text := strings.Join(c.args, " ")
	if text == "" || text == "-" {
		b, err := io.ReadAll(io.LimitReader(c.in, maxRead))
		if err != nil {
			return err
		}
		text = string(b)
	}
	var errs []error
	for i, m := range image.FindAllStringSubmatch(text, -1) {
		if i == maxImages {
			break
		}
		resp, body, err := c.fetch(ctx, request{method: http.MethodGet, url: m[1], follow: true})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(c.out, "[image, %d, %d bytes]\n", resp.StatusCode, len(body))
	}
	return errors.Join(errs...)
}

// nslookup resolves names; options and record types are ignored.
func nslookup(ctx context.Context, c *call) error {
	var names []string
	for _, a := range c.args {
		if strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+") || strings.HasPrefix(a, "@") || !strings.Contains(a, ".") {
			continue
		}
		names = append(names, a)
	}
	if len(names) == 0 {
		return errUsage("a name is missing")
	}
	addrs, err := c.shell.Net.lookup(ctx, names[0])
	c.shell.Net.done(nil, nil, err)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		fmt.Fprintf(c.out, "Name:\t%s\nAddress: %s\n", names[0], a)
	}
	return nil
}
