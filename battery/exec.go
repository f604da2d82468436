package battery

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes/inside"
)

// ExecOptions say what to run inside the boundary, and under which policy.
type ExecOptions struct {
	RunID   string // 8 hex characters; see proxy.NewRunID
	Image   *image.Resolved
	Policy  *policy.Policy
	Driver  sandbox.Driver
	Self    []string // as Options.Self
	Hold    string   // path of wallproof-probe, every sandbox's first process
	Secrets []proxy.Secret
	// BrokerKeys are the private keys of the policy's brokers, by name.
	BrokerKeys map[string]string
	// Egress is how the policy's egress agent is reached. All phases leave through
	// it: it enforces the policy a second time.
	Egress   *proxy.Egress
	Upstream proxy.Upstream             // how the world outside is reached
	Services map[string]*image.Resolved // images of the policy's services, by the service's name
	Env      []string                   // what is passed into the sandbox beside the policy's own
	Login    []byte                     // content of the policy's login file; nil lets none in
	User     *sandbox.User              // who the agent is; nil means AgentUser

	// Agent is what runs under the policy. Setup runs before it and Verifier after
	// it, as root and each under its own phase's policy; nil leaves them out.
	// The agent's TTY is honoured, theirs is not.
	Agent           sandbox.Command
	Setup, Verifier *sandbox.Command
	// Tasks run beside the agent, each in a sandbox of its own with its own copy of
	// the image. Their names are [a-z0-9-].
	Tasks []ExecTask
	// Orchestrator runs beside them in a sandbox without anything of the vault's;
	// on standard input it gets a line of JSON (OrchestratorEvent) for each task
	// that begins or ends.
	Orchestrator *sandbox.Command

	Edits <-chan ExecEdit   // edits of the policy while it runs; nil for none
	Halt  <-chan bool       // true halts everything inside, false lets it go on; nil for none
	Event func(proxy.Event) // the proxies' record, one at a time; nil drops it
	Step  func(string)      // progress; nil drops it
	Note  func(string)      // what the operator should know; nil drops it
}

// ExecTask is one task of a run that fans out.
type ExecTask struct {
	Name    string
	Command sandbox.Command
}

// ExecEdit is an edited policy with the secrets that it names, or why there is
// none. Done, if not nil, is told what came of it.
type ExecEdit struct {
	Policy  *policy.Policy
	Secrets []proxy.Secret
	Done    func(error)
}

// Exec runs an agent inside the boundary and returns its exit status, or the
// verifier's where there is one, with the record of the run, which is there also
// with an error. The first sandbox starts only when the packet filter was verified
// in place; the proxies live in the caller's network namespace and the router has
// no way out at all.
func Exec(ctx context.Context, o ExecOptions) (int, *ExecRecord, error) {
	x, err := newSession(ctx, o)
	if err != nil {
		return 0, nil, err
	}
	release, err := boundary.Claim(x.id)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	exit, err := x.run(ctx)
	if cerr := x.close(); err == nil && cerr != nil {
		err = fmt.Errorf("put the machine back: %w", cerr)
	}
	x.rec.end(err)
	return exit, x.rec.get(), err
}

// newSession checks everything that can be checked before anything is started.
func newSession(ctx context.Context, o ExecOptions) (*session, error) {
	if err := execRefuse(&o); err != nil {
		return nil, err
	}
	e, err := policy.Compile(o.Policy)
	if err != nil {
		return nil, err
	}
	desc, err := o.Driver.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("use the sandbox driver: %w", err)
	}
	if err := e.EnforceableBy(desc.Name, desc.NetworkModes); err != nil {
		return nil, err
	}
	x := &session{o: o, id: o.RunID, policy: o.Policy, secrets: o.Secrets, modelKey: proxy.NewModelKey(), env: map[string][]string{}}
	if x.id == "" {
		raw := make([]byte, 4)
		if _, err := rand.Read(raw); err != nil {
			return nil, fmt.Errorf("draw a run id: %w", err)
		}
		x.id = hex.EncodeToString(raw)
	}
	if err := x.mask(o.Secrets); err != nil {
		return nil, err
	}
	x.state = filepath.Join(StateRoot, x.id)
	x.rec = newExecRecord(x.id, &o, desc, e)
	if err := x.plan(); err != nil {
		return nil, err
	}
	return x, nil
}

// execRefuse refuses what a policy asks for and exec cannot enforce: a policy is
// never weakened.
func execRefuse(o *ExecOptions) error {
	if (o.Policy.Egress != nil) != (o.Egress != nil) {
		return errors.New("the policy sends traffic through an egress agent, and what the proxy proves itself with was not resolved, or the other way round")
	}
	for _, s := range o.Policy.Services {
		if o.Services[s.Name] == nil {
			return fmt.Errorf("the image of the service %s was not resolved", s.Name)
		}
	}
	if l := o.Policy.Environment.Login; o.Login != nil && l == nil {
		return errors.New("the policy lets no login in")
	}
	for i, t := range o.Tasks {
		if !validTask(t.Name) || slices.ContainsFunc(o.Tasks[:i], func(p ExecTask) bool { return p.Name == t.Name }) {
			return fmt.Errorf("task name %q: it takes one of its own, of at most 32 of a-z, 0-9 and -", t.Name)
		}
	}
	return nil
}

func validTask(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(name, "-") == name
}

// session is the boundary around one run.
type session struct {
	o        ExecOptions
	id       string
	state    string
	rec      *execRecorder
	stage    *boundary.Stage
	rootfs   string
	trust    *trust
	mounts   []sandbox.Mount
	boxes    []*execBox
	modelKey string
	env      map[string][]string // of the agent phase, by box

	mu      sync.Mutex // doors, policy, secrets
	policy  *policy.Policy
	secrets []proxy.Secret
	doors   *doors
	masks   atomic.Pointer[redact.Redactor] // of events

	undo []func(context.Context) error
}

// execBox is one sandbox of the run and its place in the boundary.
type execBox struct {
	name    string // of the boundary's box
	host    string // host name inside
	role    proxy.Role
	service *policy.Service // nil for all but services
	box     boundary.Box
	sb      sandbox.Sandbox
	stop    func(context.Context) error // ends a service
}

const boxOrchestrator = "orchestrator"

// plan lays the run's sandboxes out.
func (x *session) plan() error {
	x.boxes = []*execBox{{name: boxWork, host: boxWork, role: proxy.RoleWork}}
	for i, t := range x.o.Tasks {
		x.boxes = append(x.boxes, &execBox{name: fmt.Sprintf("task%d", i+1), host: t.Name, role: proxy.RoleTask})
	}
	if x.o.Orchestrator != nil {
		x.boxes = append(x.boxes, &execBox{name: boxOrchestrator, host: boxOrchestrator, role: proxy.RoleOrchestrator})
	}
	for i := range x.policy.Services {
		s := &x.policy.Services[i]
		x.boxes = append(x.boxes, &execBox{name: fmt.Sprintf("service%d", i+1), host: s.Name, role: proxy.RoleService, service: s})
	}
	if len(x.boxes) > boundary.MaxBoxes {
		return fmt.Errorf("the run needs %d sandboxes, with its tasks and services; a boundary holds %d", len(x.boxes), boundary.MaxBoxes)
	}
	return nil
}

func (x *session) step(format string, args ...any) {
	if x.o.Step != nil {
		x.o.Step(fmt.Sprintf(format, args...))
	}
}

func (x *session) note(format string, args ...any) {
	if x.o.Note != nil {
		x.o.Note(fmt.Sprintf(format, args...))
	}
}

func (x *session) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var errs []error
	for i := len(x.undo) - 1; i >= 0; i-- {
		errs = append(errs, x.undo[i](ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(x.state))...)
}

// run is the run from the first file to the last phase.
func (x *session) run(ctx context.Context) (int, error) {
	if err := x.build(ctx); err != nil {
		return 0, err
	}
	if x.o.Setup != nil {
		if err := x.setUp(ctx); err != nil {
			return 0, err
		}
	}
	exit, err := x.agent(ctx)
	if err != nil || x.o.Verifier == nil {
		return exit, err
	}
	if exit != 0 {
		x.note("the agent ended with exit code %d; the verifier decides", exit)
	}
	return x.verify(ctx)
}

// build unpacks the images and makes the namespaces. Nothing runs yet.
func (x *session) build(ctx context.Context) error {
	if err := os.MkdirAll(x.state, 0o711); err != nil {
		return storage("create the run's folder", err)
	}
	x.step("unpack the image")
	var err error
	if x.rootfs, err = x.unpack(ctx, "rootfs", x.o.Image); err != nil {
		return err
	}
	x.step("build the boundary")
	cfg := boundary.Config{Run: x.id, Phase: "x", Mode: boundary.Enforced, Uplink: boundary.None, ProxyUID: proxyUID, SOCKS: true}
	for _, b := range x.boxes {
		cfg.Boxes = append(cfg.Boxes, b.name)
	}
	cfg.Peers = x.peers()
	if x.stage, err = boundary.Build(ctx, cfg); err != nil {
		return err
	}
	x.undo = append(x.undo, func(context.Context) error { return x.stage.Close() })
	go discard(x.stage.Denials())
	for _, b := range x.boxes {
		b.box, _ = x.stage.Box(b.name)
	}
	if x.trust, err = newTrust(x.state, x.rootfs); err != nil {
		return err
	}
	tools, err := toolsFolder(x.state, x.o.Hold)
	if err != nil {
		return err
	}
	x.mounts = append(x.trust.mounts(), tools)
	return nil
}

func (x *session) unpack(ctx context.Context, name string, img *image.Resolved) (string, error) {
	dir := filepath.Join(x.state, name)
	_, err := image.Unpack(ctx, img, dir, image.UnpackOptions{Command: append(append([]string{}, x.o.Self...), "internal", "unpack")})
	return dir, err
}

func discard[T any](ch <-chan T) {
	for range ch {
	}
}

// startSandboxes starts every sandbox but the services', once the boundary was
// verified in place.
func (x *session) startSandboxes(ctx context.Context) error {
	if x.boxes[0].sb != nil {
		return nil
	}
	if _, err := x.stage.VerifyInPlace(ctx); err != nil {
		return fmt.Errorf("the boundary could not be verified, so nothing is run in it: %w", err)
	}
	x.step("start the sandbox")
	for _, b := range x.boxes {
		if b.service != nil {
			continue
		}
		if err := x.startSandbox(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (x *session) startSandbox(ctx context.Context, b *execBox) error {
	l := x.policy.Limits
	spec := sandbox.Spec{ID: "wallproof-" + x.id + "-x-" + b.name, Rootfs: x.rootfs, IDBase: image.IDBase, NetNS: b.box.NetNSPath,
		User: root, WorkDir: x.workDir(), Hostname: b.host, DNS: resolvers(b.box), Hosts: x.serviceHosts(b), Mounts: x.mounts, Init: []string{tool(x.o.Hold), "hold"},
		Limits: sandbox.Limits{MemoryBytes: l.Memory, Processes: l.Processes, DiskBytes: l.Disk}}
	sb, err := x.o.Driver.Start(ctx, spec)
	if err != nil {
		return err
	}
	x.undo = append(x.undo, sb.Stop)
	b.sb = sb
	user := x.user()
	x.rec.sandbox(b, user)
	home := inside.Dir{Path: x.home(), UID: int(user.UID), GID: int(user.GID)}
	plan := inside.Plan{Dirs: []inside.Dir{home}}
	if dir := x.workDir(); dir != "/" && dir != home.Path {
		plan.Dirs = append(plan.Dirs, inside.Dir{Path: dir, UID: home.UID, GID: home.GID})
	}
	return x.prepare(ctx, b, plan)
}

// deadline bounds the agent phase.
func (x *session) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := x.policy.Limits.Duration; d > 0 {
		return context.WithTimeoutCause(ctx, d, &TimeoutError{d})
	}
	return context.WithCancel(ctx)
}

// TimeoutError: the agent phase has lasted as long as the policy lets it.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the agent's time of %s, the policy's limits.duration, is over; it was ended", e.Limit)
}
