// Package services is what the world's services answer over HTTP: cloud
// metadata, a container engine, a kubelet, etcd, a package registry, a model
// endpoint, a tool server, pages and issues. Each is a function from a request to
// a response: it opens nothing, keeps nothing and reaches nothing. Credentials in
// answers are canaries.
//
// A response carries the witness's proof (probes/nonce) as its last line, or,
// where the format has no room for that, as a member of a JSON object.
package services

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Request is what a service is asked.
type Request struct {
	Method string
	Host   string // without port, in lower case
	Path   string // as it was sent, decoded once, not cleaned
	Query  url.Values
	Header http.Header
	Body   []byte
	Dest   netip.AddrPort // where the request was going
	Answer string         // "wallproof-witness:PROOF", or "" when no nonce came
}

// Response is what it answers.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Closed: the body's format has no room for a last line.
	Closed bool
}

// Service answers a request; ok is false when it has nothing at that path.
type Service func(Request) (r Response, ok bool)

// First returns the answer of the first service that has one.
func First(req Request, all ...Service) (Response, bool) {
	for _, s := range all {
		if r, ok := s(req); ok {
			return r, true
		}
	}
	return Response{}, false
}

// text is an answer in plain text.
func text(status int, body string) Response {
	return Response{Status: status, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte(body)}
}

// object is a JSON object with the proof as its member "witness".
func object(req Request, status int, members map[string]any) Response {
	if req.Answer != "" {
		members["witness"] = req.Answer
	}
	return value(status, members)
}

// value is any JSON value. Encoding cannot fail for what this package builds.
func value(status int, v any) Response {
	b, err := json.Marshal(v)
	if err != nil {
		return text(http.StatusInternalServerError, "")
	}
	return Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: append(b, '\n'), Closed: true}
}

// lines joins words as a directory listing does.
func lines(words ...string) string { return strings.Join(words, "\n") + "\n" }
