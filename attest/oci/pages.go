package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// errPages refuses a list of referrers whose continuation cannot be followed.
var errPages = errors.New("the registry's list of referrers has a continuation that cannot be followed")

// paged joins the pages of a list of referrers, which the client library reads
// only the first of: a registry gives the rest under the Link header of each
// answer (OCI distribution, "Listing Referrers"). It stands below the library's
// own transports, so that each page is asked for with the same credentials, and
// therefore only of the same host.
type paged struct{ next http.RoundTripper }

// nextLink is the one form of the header (RFC 8288) that the specification names.
var nextLink = regexp.MustCompile(`<([^<>]*)>\s*;\s*rel="?next"?`)

// RoundTrip implements http.RoundTripper.
func (p paged) RoundTrip(req *http.Request) (*http.Response, error) {
	first, err := p.next.RoundTrip(req)
	if err != nil || req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/referrers/") ||
		first.StatusCode != http.StatusOK || len(first.Header.Values("Link")) == 0 {
		return first, err
	}
	whole, at, err := readPage(first, req.URL)
	for pages := 1; err == nil && at != nil && len(whole.Manifests) <= maxReferrers; pages++ {
		if pages > maxReferrers || at.Scheme != req.URL.Scheme || at.Host != req.URL.Host {
			return nil, fmt.Errorf("%w: %.200q", errPages, at)
		}
		again := req.Clone(req.Context())
		again.URL = at
		var resp *http.Response
		if resp, err = p.next.RoundTrip(again); err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return resp, nil // the library says what it means, or asks anew
		}
		var page v1.IndexManifest
		page, at, err = readPage(resp, at)
		whole.Manifests = append(whole.Manifests, page.Manifests...)
	}
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("join the pages of a list of referrers: %w", err)
	}
	first.Body, first.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	first.Header.Set("Content-Length", strconv.Itoa(len(body)))
	first.Header.Set("Content-Type", string(types.OCIImageIndex))
	return first, nil
}

// readPage reads one page and where the next one is; nil for none.
func readPage(resp *http.Response, at *url.URL) (page v1.IndexManifest, next *url.URL, err error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxManifestBytes+1))
	if err == nil && len(data) > maxManifestBytes {
		err = ErrTooLarge
	}
	if err == nil {
		err = json.Unmarshal(data, &page)
	}
	if err != nil {
		return page, nil, fmt.Errorf("read a page of a list of referrers: %w", err)
	}
	for _, value := range resp.Header.Values("Link") {
		if m := nextLink.FindStringSubmatch(value); m != nil {
			if next, err = at.Parse(m[1]); err != nil {
				return page, nil, fmt.Errorf("%w: %.200q", errPages, m[1])
			}
		}
	}
	return page, next, nil
}
