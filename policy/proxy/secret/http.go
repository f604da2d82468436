package secret

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// call sends a request and decodes a JSON answer into out. A status that
// another attempt would not change is final.
func (r *Resolver) call(ctx context.Context, client *http.Client, req *http.Request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the URL may name what is nobody's business
		}
		return fmt.Errorf("ask %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", req.URL.Host, err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %s answered 404", ErrMissing, req.URL.Host)
	case resp.StatusCode/100 != 2:
		err := fmt.Errorf("%s answered %d", req.URL.Host, resp.StatusCode)
		if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout {
			return errFinal{err}
		}
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return errFinal{fmt.Errorf("the answer of %s is not the JSON that it should be", req.URL.Host)}
	}
	return nil
}

// client follows no redirect: it carries credentials.
func (r *Resolver) client(rootsPEM []byte) (*http.Client, error) {
	if r.Client != nil && rootsPEM == nil {
		return r.Client, nil
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if rootsPEM != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(rootsPEM) {
			return nil, errFinal{errors.New("the file of trusted certificates holds none")}
		}
		tr.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, nil
}

func newRequest(method, rawURL, contentType string, body []byte) (*http.Request, error) {
	req, err := http.NewRequest(method, rawURL, bytes.NewReader(body))
	if err != nil {
		return nil, errFinal{errors.New("the address is no URL")}
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req, nil
}
