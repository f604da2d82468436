package attest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/rekor-tiles/v2/pkg/client/write"
)

// retrying repeats a request a bounded number of times when the connection
// fails or the server says that it is busy or broken. All requests to signing
// services may be repeated: a second certificate, timestamp or log entry of the
// same thing harms nobody.
type retrying struct{ next http.RoundTripper }

// firstDelay is doubled from one attempt to the next.
const firstDelay = 200 * time.Millisecond

// RoundTrip implements http.RoundTripper.
func (r retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	delay := firstDelay
	for attempt := 0; ; attempt++ {
		try := req
		if attempt > 0 {
			try = req.Clone(req.Context())
			if req.GetBody != nil {
				body, err := req.GetBody()
				if err != nil {
					return nil, err
				}
				try.Body = body
			}
		}
		resp, err := r.next.RoundTrip(try)
		if attempt >= serviceRetries || req.Context().Err() != nil || (req.Body != nil && req.GetBody == nil) {
			return resp, err
		}
		if err == nil && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
			return resp, nil
		}
		if err == nil {
			// The connection can be used again only when the body was read.
			_, drained := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
			if closed := errors.Join(drained, resp.Body.Close()); closed != nil {
				return nil, fmt.Errorf("read the answer of %s: %w", req.URL.Host, closed)
			}
		}
		timer := time.NewTimer(delay)
		select {
		case <-req.Context().Done():
			timer.Stop()
			return nil, req.Context().Err()
		case <-timer.C:
		}
		delay *= 2
	}
}

// retryingLog adds to a Rekor v2 log, whose client takes no transport, with as
// many repetitions. An entry that the log took although its answer was lost is
// refused as a conflict (409) the next time; the error then names both.
type retryingLog struct{ write.Client }

// refusedByLog matches the client's error for an answer that the same request
// would get again.
var refusedByLog = regexp.MustCompile(`^unexpected response: 4(?:[013-9]\d|2[0-8])\b`)

// Add implements write.Client.
func (r retryingLog) Add(ctx context.Context, entry any) (*protorekor.TransparencyLogEntry, error) {
	delay := firstDelay
	var last error
	for attempt := 0; ; attempt++ {
		e, err := r.Client.Add(ctx, entry)
		if err == nil {
			return e, nil
		}
		if last != nil && refusedByLog.MatchString(err.Error()) {
			return nil, fmt.Errorf("%w; before that: %w", err, last)
		}
		if last = err; attempt >= serviceRetries || refusedByLog.MatchString(err.Error()) {
			return nil, err
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
		delay *= 2
	}
}
