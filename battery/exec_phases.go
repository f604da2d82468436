package battery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/inside"
	"golang.org/x/sync/errgroup"
)

// toolTimeout bounds one of our own commands inside.
const toolTimeout = 30 * time.Second

// setUp runs the set-up command in the work sandbox and in each task's, as root.
// One that fails ends the run before the agent has begun.
func (x *session) setUp(ctx context.Context) error {
	x.step("set up")
	if err := x.open(ctx, policy.PhaseSetup); err != nil {
		return err
	}
	if err := x.startSandboxes(ctx); err != nil {
		return err
	}
	return x.during(ctx, policy.PhaseSetup, func(ctx context.Context) error {
		for _, b := range x.boxes {
			if b.service != nil || b.role == proxy.RoleOrchestrator {
				continue
			}
			c := *x.o.Setup
			c.Env, c.User, c.WorkDir = x.rootEnv(b), &root, x.workDir()
			exit, err := x.exec(ctx, b, c)
			var missing *NoProgramError
			if errors.As(err, &missing) { // not the agent's, whose exit code it would look like
				return fmt.Errorf("the agent was not started, as its set-up could not be: %s", missing.Error())
			}
			if err != nil {
				return fmt.Errorf("set-up: %w", err)
			}
			x.rec.exit(policy.PhaseSetup, b.host, exit)
			if exit != 0 {
				return fmt.Errorf("the set-up command ended with exit code %d in the sandbox %s, so the agent was not started", exit, b.host)
			}
		}
		return nil
	})
}

// agent runs the agent, the tasks and the orchestrator, and returns the agent's
// exit status, or a task's that failed.
func (x *session) agent(ctx context.Context) (int, error) {
	if err := x.open(ctx, policy.PhaseAgent); err != nil {
		return 0, err
	}
	if err := x.startSandboxes(ctx); err != nil {
		return 0, err
	}
	if err := x.startServices(ctx); err != nil {
		return 0, err
	}
	if err := x.letLoginIn(ctx); err != nil {
		return 0, err
	}
	x.step("run")
	exit := 0
	err := x.during(ctx, policy.PhaseAgent, func(ctx context.Context) error {
		var err error
		exit, err = x.fanOut(ctx)
		return err
	})
	return exit, errors.Join(err, x.stopServices(ctx))
}

// verify runs the verifier as root, once nothing of the agent's runs any more.
// What the agent started is ended first: it must not go on under the verifier's
// policy, which is wider.
func (x *session) verify(ctx context.Context) (int, error) {
	x.step("verify")
	work := x.boxes[0]
	if err := x.tool(ctx, work, "end", nil); err != nil {
		return 0, fmt.Errorf("what the agent left running could not be ended, so the verifier was not started: %w", err)
	}
	if err := x.open(ctx, policy.PhaseVerifier); err != nil {
		return 0, err
	}
	exit := 0
	err := x.during(ctx, policy.PhaseVerifier, func(ctx context.Context) error {
		c := *x.o.Verifier
		c.Env, c.User, c.WorkDir = x.rootEnv(work), &root, x.workDir()
		var err error
		exit, err = x.exec(ctx, work, c)
		if err == nil {
			x.rec.exit(policy.PhaseVerifier, work.host, exit)
		}
		return err
	})
	return exit, err
}

// during runs a phase while its proxies live, takes edits and halts in
// meanwhile, and shuts the proxies at its end.
func (x *session) during(ctx context.Context, phase policy.Phase, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.rec.begin(phase)
	x.mu.Lock()
	d := x.doors
	x.mu.Unlock()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { x.attend(ctx, d, done, cancel) })
	err := run(ctx)
	close(done)
	watching.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	// The last lease has to be revoked also when the run was interrupted.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer stop()
	if serr := x.shut(end); err == nil && serr != nil {
		err = fmt.Errorf("end the %s phase: %w", phase, serr)
	}
	x.rec.done(phase)
	return err
}

// attend looks after a phase that runs.
func (x *session) attend(ctx context.Context, d *doors, done <-chan struct{}, fail context.CancelCauseFunc) {
	halted := false
	for {
		select {
		case <-done:
			return
		case err := <-d.ended:
			select {
			case <-done: // it was told to
			default:
				x.rec.failed(err)
				fail(err)
			}
			return
		case e, ok := <-x.o.Edits:
			if !ok {
				x.o.Edits = nil
				continue
			}
			x.edit(ctx, e)
		case want := <-x.o.Halt:
			if want == halted {
				continue
			}
			if err := x.halt(ctx, want); err != nil {
				x.note("%v", err)
				continue
			}
			halted = want
		}
	}
}

// edit puts an edit in force and records it: a policy that changed in the middle
// is not one that the whole run was under.
func (x *session) edit(ctx context.Context, e ExecEdit) {
	err := x.apply(ctx, e)
	digest, derr := e.Policy.Digest()
	if derr != nil {
		digest = ""
	}
	x.rec.edit(digest, err)
	switch {
	case err != nil:
		x.note("the edit is not in force, the policy before it is: %v", err)
	default:
		x.note("the edited policy %s is in force; this run can no longer be attested", digest)
	}
	if e.Done != nil {
		e.Done(err)
	}
}

// halt stops everything in the sandboxes for a review, or lets it go on.
func (x *session) halt(ctx context.Context, stop bool) error {
	command, word := "resume", "resumed"
	if stop {
		command, word = "halt", "halted for review"
	}
	for _, b := range x.boxes {
		if b.sb == nil {
			continue
		}
		if err := x.tool(ctx, b, command, nil); err != nil {
			return fmt.Errorf("%s the sandbox %s: %w", command, b.host, err)
		}
	}
	x.rec.halted(stop)
	x.note("the run is %s", word)
	return nil
}

// tool runs one of our own commands in a sandbox, as root.
func (x *session) tool(ctx context.Context, b *execBox, command string, plan any) error {
	in, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("encode the plan of %s: %w", command, err)
	}
	var stderr limitedBuffer
	exit, err := b.sb.Exec(ctx, sandbox.Command{Argv: []string{tool(x.o.Hold), command}, Env: []string{"HOME=/"}, WorkDir: "/", User: &root, Stdin: bytes.NewReader(in), Stdout: io.Discard, Stderr: &stderr, Timeout: toolTimeout})
	if err == nil && exit != 0 {
		err = errors.New(strings.TrimSpace(strings.TrimPrefix(stderr.text(), "wallproof-probe:")))
	}
	return err
}

func (x *session) prepare(ctx context.Context, b *execBox, plan inside.Plan) error {
	if err := x.tool(ctx, b, "prepare", plan); err != nil {
		return fmt.Errorf("prepare the sandbox %s: %w", b.host, err)
	}
	return nil
}

// letLoginIn puts the one agent's subscription login into its sandbox.
func (x *session) letLoginIn(ctx context.Context) error {
	l := x.policy.Environment.Login
	if l == nil || x.o.Login == nil {
		return nil
	}
	u := x.user()
	return x.prepare(ctx, x.boxes[0], inside.Plan{Files: []inside.File{{Path: l.Path, UID: int(u.UID), GID: int(u.GID), Content: x.o.Login}}})
}

// OrchestratorEvent is a line on the orchestrator's standard input.
type OrchestratorEvent struct {
	Task  string `json:"task"`
	Event string `json:"event"`          // "started" or "ended"
	Exit  *int   `json:"exit,omitempty"` // of a task that ended by itself
	Error string `json:"error,omitempty"`
}

// fanOut runs everything of the agent phase at the same time. When the agent and
// the tasks have ended the orchestrator's standard input ends, and then it has
// the time of a tool to end by itself.
func (x *session) fanOut(ctx context.Context) (int, error) {
	ctx, cancel := x.deadline(ctx)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	tell, wait := x.orchestrate(ctx)
	exits := make([]int, 1+len(x.o.Tasks))
	for i := range exits {
		b, c := x.boxes[i], x.o.Agent
		if i > 0 {
			c = x.o.Tasks[i-1].Command
		}
		u := x.user()
		c.Env, c.User, c.WorkDir = x.boxEnv(b), &u, x.workDir()
		g.Go(func() error {
			if i > 0 {
				tell(OrchestratorEvent{Task: b.host, Event: "started"})
			}
			exit, err := x.exec(gctx, b, c)
			ended := OrchestratorEvent{Task: b.host, Event: "ended"}
			if err != nil {
				ended.Error = err.Error()
			} else {
				ended.Exit, exits[i] = &exit, exit
				x.rec.exit(policy.PhaseAgent, b.host, exit)
			}
			if i > 0 {
				tell(ended)
			}
			return err
		})
	}
	err := g.Wait()
	oexit, oerr := wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err = errors.Join(err, oerr); err != nil {
		return 0, err
	}
	for _, e := range append(exits, oexit) {
		if e != 0 {
			return e, nil
		}
	}
	return 0, nil
}

// orchestrate starts the orchestrator, if there is one. wait ends its standard
// input and waits for it.
func (x *session) orchestrate(ctx context.Context) (tell func(OrchestratorEvent), wait func() (int, error)) {
	if x.o.Orchestrator == nil {
		return func(OrchestratorEvent) {}, func() (int, error) { return 0, nil }
	}
	var b *execBox
	for _, box := range x.boxes {
		if box.role == proxy.RoleOrchestrator {
			b = box
		}
	}
	r, w := io.Pipe()
	lines := make(chan OrchestratorEvent, 2*len(x.o.Tasks)) // all that there can be
	go func() {
		enc := json.NewEncoder(w)
		for e := range lines {
			if enc.Encode(e) != nil {
				break // it no longer reads
			}
		}
		w.Close()
	}()
	c := *x.o.Orchestrator
	u := x.user()
	c.Env, c.User, c.WorkDir, c.Stdin = x.boxEnv(b), &u, x.workDir(), r
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		exit int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := x.exec(ctx, b, c)
		r.Close()
		done <- result{exit, err}
	}()
	return func(e OrchestratorEvent) { lines <- e }, func() (int, error) {
		defer cancel()
		close(lines)
		timer := time.AfterFunc(toolTimeout, cancel)
		defer timer.Stop()
		res := <-done
		if res.err != nil {
			return 0, fmt.Errorf("the orchestrator: %w", res.err)
		}
		x.rec.exit(policy.PhaseAgent, b.host, res.exit)
		return res.exit, nil
	}
}

// NoProgramError: the image has no such program.
type NoProgramError struct {
	Program     string
	Path        string // PATH inside
	NotRunnable bool   // it is there, and is none
}

func (e *NoProgramError) Error() string {
	switch {
	case e.NotRunnable:
		return fmt.Sprintf("%s is not a program that the agent can run", e.Program)
	case strings.Contains(e.Program, "/"):
		return fmt.Sprintf("the image has no program %s", e.Program)
	}
	return fmt.Sprintf("the image has no program %s along PATH=%s", e.Program, e.Path)
}

// exec runs a command in a sandbox.
func (x *session) exec(ctx context.Context, b *execBox, c sandbox.Command) (int, error) {
	exit, err := b.sb.Exec(ctx, c)
	if err != nil && ctx.Err() == nil && (mentions(err, noProgram) || mentions(err, notRunnable)) {
		e := &NoProgramError{Program: c.Argv[0], NotRunnable: mentions(err, notRunnable)}
		for _, kv := range c.Env {
			if v, ok := strings.CutPrefix(kv, "PATH="); ok {
				e.Path = v
			}
		}
		return exit, e
	}
	return exit, err
}

// What runtimes say of a program that is not there, and of one that is none.
var (
	noProgram   = []string{"no such file or directory", "executable file not found"}
	notRunnable = []string{"exec format error", "permission denied", "is a directory"}
)

func mentions(err error, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
}
