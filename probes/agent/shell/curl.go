package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// curlOption tells what an option of curl does with a request. value is "" for
// those that take none.
type curlOption struct {
	takes bool
	apply func(c *call, r *request, value string) error
}

func flag(set func(r *request)) curlOption {
	return curlOption{apply: func(_ *call, r *request, _ string) error { set(r); return nil }}
}

func option(set func(c *call, r *request, v string) error) curlOption {
	return curlOption{takes: true, apply: set}
}

// curlOptions are the options that are understood, short and long.
func curlOptions() map[string]curlOption {
	method := option(func(_ *call, r *request, v string) error { r.method = v; return nil })
	header := option(func(_ *call, r *request, v string) error { r.header = append(r.header, v); return nil })
	data := option((*call).curlData)
	form := option((*call).curlForm)
	output := option(func(_ *call, r *request, v string) error { r.output = v; return nil })
	silent := flag(func(r *request) { r.silent = true })
	include := flag(func(r *request) { r.head = true })
	follow := flag(func(r *request) { r.follow = true })
	fail := flag(func(r *request) { r.fail = true })
	insecure := flag(func(r *request) { r.insecure = true })
	agent := option(func(_ *call, r *request, v string) error { r.header = append(r.header, "User-Agent: "+v); return nil })
	timeout := option(func(_ *call, r *request, v string) error {
		seconds, err := strconv.ParseFloat(v, 64)
		r.timeout = time.Duration(seconds * float64(time.Second))
		return err
	})
	user := option(func(_ *call, r *request, v string) error {
		name, password, _ := strings.Cut(v, ":")
		var q http.Request
		q.Header = http.Header{}
		q.SetBasicAuth(name, password)
		r.header = append(r.header, "Authorization: "+q.Header.Get("Authorization"))
		return nil
	})
	direct := option(func(_ *call, r *request, v string) error { r.direct = v == "*"; return nil })
	headOnly := flag(func(r *request) { r.method, r.head = http.MethodHead, true })
	upload := option(func(c *call, r *request, v string) error {
		if r.method == "" {
			r.method = http.MethodPut
		}
		return c.curlData(r, "@"+v)
	})
	return map[string]curlOption{
		"-X": method, "--request": method, "-H": header, "--header": header, "-d": data, "--data": data, "--data-binary": data, "--data-raw": data,
		"-F": form, "--form": form, "-o": output, "--output": output, "-s": silent, "--silent": silent, "-S": silent, "--show-error": silent,
		"-i": include, "--include": include, "-L": follow, "--location": follow, "-f": fail, "--fail": fail, "-k": insecure, "--insecure": insecure,
		"-A": agent, "--user-agent": agent, "-m": timeout, "--max-time": timeout, "--connect-timeout": timeout, "-u": user, "--user": user,
		"--noproxy": direct, "-I": headOnly, "--head": headOnly, "-T": upload, "--upload-file": upload,
	}
}

// curlData adds a body: the text, or with "@" a file's content.
func (c *call) curlData(r *request, v string) error {
	body := []byte(v)
	if name, ok := strings.CutPrefix(v, "@"); ok {
		var err error
		if name == "-" {
			body, err = io.ReadAll(io.LimitReader(c.in, maxRead))
		} else {
			body, err = os.ReadFile(c.path(name))
		}
		if err != nil {
			return err
		}
	}
	if r.hasBody {
		r.body = append(r.body, '&')
	}
	r.body, r.hasBody = append(r.body, body...), true
	return nil
}

// curlForm adds a field, of which the content is what matters here.
func (c *call) curlForm(r *request, v string) error {
	_, value, _ := strings.Cut(v, "=")
	return c.curlData(r, value)
}

func curl(ctx context.Context, c *call) error {
	var r request
	options := curlOptions()
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		if len(a) < 2 || a[0] != '-' {
			r.url = a
			continue
		}
		words, err := expandShort(a, options)
		if err != nil {
			return err
		}
		for _, w := range words {
			o := options[w.name]
			if o.takes && w.value == "" {
				if i++; i == len(c.args) {
					return errUsage("a value is missing after " + a)
				}
				w.value = c.args[i]
			}
			if err := o.apply(c, &r, w.value); err != nil {
				return err
			}
		}
	}
	if r.url == "" {
		return errUsage("an address is missing")
	}
	return c.curl(ctx, r)
}

type word struct{ name, value string }

// expandShort takes an argument such as -sSfo, -XPOST or --data apart.
func expandShort(a string, options map[string]curlOption) ([]word, error) {
	if strings.HasPrefix(a, "--") {
		name, value, _ := strings.Cut(a, "=")
		if _, ok := options[name]; !ok {
			return nil, errUsage("unknown option " + name)
		}
		return []word{{name, value}}, nil
	}
	var out []word
	for i := 1; i < len(a); i++ {
		name := "-" + a[i:i+1]
		o, ok := options[name]
		if !ok {
			return nil, errUsage("unknown option " + name)
		}
		if o.takes {
			return append(out, word{name, a[i+1:]}), nil
		}
		out = append(out, word{name: name})
	}
	return out, nil
}

func (c *call) curl(ctx context.Context, r request) error {
	if r.method == "" {
		r.method = http.MethodGet
		if r.hasBody {
			r.method = http.MethodPost
		}
	}
	if r.hasBody && !hasField(r.header, "Content-Type") {
		r.header = append(r.header, "Content-Type: application/x-www-form-urlencoded")
	}
	resp, body, err := c.fetch(ctx, r)
	if err != nil {
		return fmt.Errorf("(%d) %w", curlStatus(err), err)
	}
	if r.fail && resp.StatusCode >= 400 {
		return fmt.Errorf("(22) the requested URL returned error: %d", resp.StatusCode)
	}
	out := c.out
	if r.output != "" && r.output != "-" {
		f, err := os.Create(c.path(r.output))
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	if r.head {
		fmt.Fprintf(out, "%s %s\r\n", resp.Proto, resp.Status)
		if err := resp.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprint(out, "\r\n")
	}
	_, err = out.Write(body)
	return err
}

func hasField(list []string, name string) bool {
	for _, h := range list {
		if n, _, _ := strings.Cut(h, ":"); strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// curlStatus is the number by which curl names an error.
func curlStatus(err error) int {
	var refused *ProxyRefusal
	var lookup *LookupError
	switch {
	case errors.As(err, &refused):
		return 56
	case errors.As(err, &lookup):
		return 6
	case errors.Is(err, context.DeadlineExceeded):
		return 28
	}
	return 7
}

// wget saves a page to a file, or prints it with -O -.
func wget(ctx context.Context, c *call) error {
	r := request{method: http.MethodGet, follow: true}
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a == "-O" && i+1 < len(c.args):
			i++
			r.output = c.args[i]
		case a == "-qO-" || a == "-O-":
			r.output = "-"
		case strings.HasPrefix(a, "--post-data="):
			r.method, r.hasBody, r.body = http.MethodPost, true, []byte(strings.TrimPrefix(a, "--post-data="))
		case strings.HasPrefix(a, "--header="):
			r.header = append(r.header, strings.TrimPrefix(a, "--header="))
		case a == "--no-check-certificate":
			r.insecure = true
		case strings.HasPrefix(a, "-"):
			// quiet and its like change nothing here
		default:
			r.url = a
		}
	}
	if r.url == "" {
		return errUsage("an address is missing")
	}
	if r.output == "" {
		r.output = "index.html"
		if u, err := url.Parse(r.url); err == nil && path.Base(u.Path) != "/" && path.Base(u.Path) != "." {
			r.output = path.Base(u.Path)
		}
	}
	r.fail = true
	return c.curl(ctx, r)
}
