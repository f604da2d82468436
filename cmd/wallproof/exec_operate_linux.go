package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/secret"
	"github.com/wallproof/wallproof/policy/proxy/standalone"
	"github.com/wallproof/wallproof/policy/proxy/watch"
)

// operations is the socket by which a run's operator asks for its state, halts
// it for a review and lets it go on. No sandbox mounts it.
type operations struct {
	halt chan bool
	srv  *http.Server
	path string
}

func newOperations(ctx context.Context, run string, rec *record.Recorder) (*operations, error) {
	o := &operations{halt: make(chan bool), path: battery.OperatorSocket(run)}
	if err := os.MkdirAll(filepath.Dir(o.path), 0o711); err != nil {
		return nil, fmt.Errorf("make the folder of the operator's socket: %w", err)
	}
	l, err := standalone.ListenPrivate(o.path)
	if err != nil {
		return nil, fmt.Errorf("open the operator's socket: %w", err)
	}
	mux := http.NewServeMux()
	if rec != nil {
		mux.Handle("/", rec.Handler())
	}
	for name, stop := range map[string]bool{"halt": true, "resume": false} {
		mux.HandleFunc("POST /v1/runs/"+run+"/"+name, func(w http.ResponseWriter, q *http.Request) {
			select {
			case o.halt <- stop:
				w.WriteHeader(http.StatusNoContent)
			case <-q.Context().Done():
			case <-ctx.Done():
				w.WriteHeader(http.StatusGone)
			}
		})
	}
	o.srv = &http.Server{Handler: mux, ReadHeaderTimeout: operatorTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = o.srv.Serve(l) }()
	return o, nil
}

func (o *operations) close() {
	_ = o.srv.Close()
	_ = os.Remove(o.path)
}

// haltCommands are halt and resume.
func haltCommands() []*cli.Command {
	make := func(name, usage string) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, ArgsUsage: "[RUN]",
			Description: "RUN is the run's id, as its log names it; it may be left out where one alone is running. Halts are in the record of a\n" +
				"run of exec, and in the manifest of a run of the battery, which tries again what a halt interrupted. Needs root.\n\nExamples:\n   wallproof " + name + "\n   wallproof " + name + " 1f2e3d4c",
			Action: func(c *cli.Context) error {
				run, err := runningRun(c.Args().First())
				if err != nil {
					return err
				}
				return postOperator(c.Context, battery.OperatorSocket(run), "/v1/runs/"+run+"/"+name)
			}}
	}
	return []*cli.Command{make("halt", "halt everything inside a run, for a review"), make("resume", "let a halted run go on")}
}

// runningRun is the run that was named, or the only one that runs.
func runningRun(id string) (string, error) {
	if id != "" {
		if len(id) != 8 || strings.Trim(id, "0123456789abcdef") != "" {
			return "", fmt.Errorf("%q is no run's id, which has 8 hex characters", id)
		}
		return id, nil
	}
	sockets, err := filepath.Glob(battery.OperatorSocket("????????"))
	if err != nil {
		return "", fmt.Errorf("look for runs: %w", err)
	}
	var ids []string
	for _, s := range sockets {
		id := strings.TrimSuffix(filepath.Base(s), ".sock")
		if boundary.Alive(id) {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return "", errors.New("no run is running here")
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("several runs are running; name one: %s", strings.Join(ids, ", "))
}

func postOperator(ctx context.Context, socket, path string) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://operator"+path, nil)
	if err != nil {
		return fmt.Errorf("ask the run: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the run at %s: %w; is it running?", socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("ask the run: it answers %s", resp.Status)
	}
	return nil
}

// watchPolicy tells of edits of the policy's file, each with its secrets. One
// that cannot be read or resolved is said, and changes nothing.
func watchPolicy(ctx context.Context, path string, o *battery.ExecOptions) <-chan battery.ExecEdit {
	edits := make(chan battery.ExecEdit)
	if path == "-" {
		return edits
	}
	first, err := files.Read(path, policy.MaxBytes)
	if err != nil {
		return edits
	}
	self := o.Policy.Model // with the operator's overrides
	held, current := o.Secrets, o.Policy
	go func() {
		err := watch.File(ctx, path, first, func([]byte) {
			p, err := command.ReadPolicy(path)
			if err == nil && p.Model != nil && self != nil {
				p.Model.SelfSearch = self.SelfSearch
			}
			var secrets []proxy.Secret
			if err == nil {
				secrets, err = editedSecrets(ctx, current, p, held)
			}
			if err != nil {
				execNote(fmt.Sprintf("the edit is not in force, the policy before it is: %v", err))
				return
			}
			done := make(chan error, 1)
			select {
			case edits <- battery.ExecEdit{Policy: p, Secrets: secrets, Done: func(err error) { done <- err }}:
			case <-ctx.Done():
				return
			}
			select {
			case err := <-done:
				if err == nil {
					held, current = secrets, p
				}
			case <-ctx.Done():
			}
		})
		if err != nil && ctx.Err() == nil {
			execNote(fmt.Sprintf("edits of the policy are no longer seen: %v", err))
		}
	}()
	return edits
}

// editedSecrets fetches only what an edit adds or refers to elsewhere: an edit
// of a host must not wait for a vault.
func editedSecrets(ctx context.Context, old, edited *policy.Policy, held []proxy.Secret) ([]proxy.Secret, error) {
	values := map[string]string{}
	for _, s := range edited.Secrets {
		if v, ok := unchanged(old, s, held); ok {
			values[s.Name] = v
			continue
		}
		v, err := new(secret.Resolver).Resolve(ctx, s.From)
		if err != nil {
			return nil, fmt.Errorf("secret %q: %w", s.Name, err)
		}
		values[s.Name] = v
	}
	return heldSecrets(edited, values, held), nil
}

func unchanged(old *policy.Policy, s policy.Secret, held []proxy.Secret) (string, bool) {
	for _, o := range old.Secrets {
		a, b := o.From, s.From
		a.Pos, b.Pos = policy.Pos{}, policy.Pos{}
		if o.Name != s.Name || !reflect.DeepEqual(a, b) {
			continue
		}
		for _, h := range held {
			if h.Name == s.Name {
				return h.Value, true
			}
		}
	}
	return "", false
}
