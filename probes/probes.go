// Package probes is what runs inside the sandbox and how its word gets out: the
// facts an attempt is given, the shape of an attempt, the protocol in which
// results are reported, and the runner. The attempts themselves live one vector
// a folder below, listed in probes/attempts; what each technique means is data
// in probes/catalog.
//
// # Protocol
//
// Standard input of `wallproof-probe run` (and `wallproof-agent run`) is one
// line of JSON, a Plan. Standard output is a sequence of lines
//
//	wp1 SEQ PAYLOAD MAC
//
// with single spaces and a final LF, where SEQ is a decimal number without
// leading zeros that grows by one from 1, PAYLOAD is the unpadded base64url of a
// JSON observation (attest/manifest.Observation), and MAC is the lower-case hex
// HMAC-SHA-256, under the plan's key, of SEQ "." PAYLOAD. The key never appears
// on the output. One line is at most MaxLine bytes; a Reader ignores and counts
// everything else that it finds.
package probes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
)

// Attempt is the one function of a technique: it tries, and says what it saw.
// It returns soon after ctx is done, decides no verdict, and reports only what
// belongs to its own nonce. The runner fills in side, nonce, time and duration.
type Attempt func(ctx context.Context, env *Env) manifest.Observation

// Env is what an attempt is given.
type Env struct {
	Facts     *Facts
	Technique string
	Variant   string
	Nonce     string
	Args      map[string]string
}

// Plan is the input of a run inside the sandbox.
type Plan struct {
	Key   string `json:"key"` // hex, at least 32 bytes; authenticates every result line
	Facts Facts  `json:"facts"`
	Items []Item `json:"items"`
	// Parallel bounds how many attempts run at once; 0 means DefaultParallel.
	Parallel int `json:"parallel,omitempty"`
	// Program, if given, runs beside the attempts.
	Program *Program `json:"program,omitempty"`
}

// First is what a sandbox's first process attempts before it does anything else. The
// attempts of the same nonces in a plan that runs later report what came of them.
type First struct {
	Outside Outside `json:"outside"`
	Items   []Item  `json:"items"`
}

// Program is a program of the image. One observation of the output has its nonce:
// what became of it (see package beside).
type Program struct {
	Nonce string   `json:"nonce"`
	Argv  []string `json:"argv"` // empty where the image names none
	Env   []string `json:"env"`  // the whole environment
	Dir   string   `json:"dir"`
}

// Item is one attempt to make. Items start in order and run in parallel, but one
// that is Alone starts when everything before it has ended, and ends before
// anything after it starts.
type Item struct {
	Technique string            `json:"technique"`
	Variant   string            `json:"variant"`
	Nonce     string            `json:"nonce"`
	Args      map[string]string `json:"args,omitempty"`
	TimeoutMs int64             `json:"timeoutMs,omitempty"` // 0 means DefaultTimeout
	Alone     bool              `json:"alone,omitempty"`
}

// Heartbeats: items that exercise an allowed path. They are no techniques.
const (
	HeartbeatID      = "HB"       // GET of Facts.Allowed through the proxy
	AgentHeartbeatID = "HB-AGENT" // the agent's benign twins: fetch, and a push to the allowed ref

	HeartbeatBefore  = "before"
	HeartbeatBetween = "between"
	HeartbeatAfter   = "after"
)

// Bounds of the protocol and of a run.
const (
	MaxPlan         = 4 << 20
	MaxItems        = 4096
	MaxLine         = 16 << 10
	MaxOutput       = 16 << 20
	MaxDetail       = 256
	MaxObtained     = 64
	MaxLocal        = 32
	MinKeyBytes     = 32
	DefaultParallel = 16
	MaxParallel     = 256
	DefaultTimeout  = 20 * time.Second
	MaxTimeout      = 2 * time.Minute
)

// ReadPlan reads and checks a plan. Unknown members are refused.
func ReadPlan(r io.Reader) (*Plan, error) {
	var p Plan
	if err := ReadJSON(r, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return &p, nil
}

// ReadJSON reads one line, or all there is, of at most MaxPlan bytes, and decodes
// the one JSON value in it. Unknown members are refused. What follows the line is
// not read: the sender may keep its end open.
func ReadJSON(r io.Reader, value any) error {
	line, err := bufio.NewReader(io.LimitReader(r, MaxPlan+1)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the plan: %w", err)
	}
	if len(line) > MaxPlan {
		return fmt.Errorf("read the plan: larger than %d bytes", MaxPlan)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(value); err != nil {
		return fmt.Errorf("parse the plan: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("parse the plan: data after its end")
	}
	return nil
}

func (p *Plan) check() error {
	if _, err := decodeKey(p.Key); err != nil {
		return err
	}
	if len(p.Items) > MaxItems {
		return fmt.Errorf("check the plan: %d items, at most %d", len(p.Items), MaxItems)
	}
	if p.Parallel < 0 || p.Parallel > MaxParallel {
		return fmt.Errorf("check the plan: parallel %d outside 0…%d", p.Parallel, MaxParallel)
	}
	if p.Program != nil && !nonce.Valid(p.Program.Nonce) {
		return fmt.Errorf("check the plan: the program's nonce: not a nonce: %q", p.Program.Nonce)
	}
	for i, item := range p.Items {
		if !nonce.Valid(item.Nonce) {
			return fmt.Errorf("check the plan: item %d: not a nonce: %q", i, item.Nonce)
		}
		if item.TimeoutMs < 0 || item.TimeoutMs > MaxTimeout.Milliseconds() {
			return fmt.Errorf("check the plan: item %d: timeout %d ms outside 0…%d", i, item.TimeoutMs, MaxTimeout.Milliseconds())
		}
	}
	return nil
}
