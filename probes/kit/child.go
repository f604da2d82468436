package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
)

// ChildArgument as the first argument makes wallproof-probe send a line to an
// address and print what it saw: an attempt that has to be made by another
// process. The address and the nonce follow.
const ChildArgument = "--wallproof-line"

// IsChild reports whether the arguments of a process (without its name) are a
// child's.
func IsChild(args []string) bool { return len(args) == 3 && args[0] == ChildArgument }

// ChildMain is the child's side.
func ChildMain(args []string, out io.Writer) error {
	env := &probes.Env{Facts: &probes.Facts{}, Nonce: args[2]}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	t := Begin(env)
	defer t.End()
	var o manifest.Observation
	if c, err := t.Dial(ctx, "tcp", args[1]); err != nil {
		o = Sign(err)
	} else {
		o = Exchange(ctx, c, Probe(env))
	}
	if err := json.NewEncoder(out).Encode(t.Done(o)); err != nil {
		return fmt.Errorf("report what was seen: %w", err)
	}
	return nil
}

// InUserNamespace has a child, root in a user namespace of its own, send a line
// to an address.
func InUserNamespace(ctx context.Context, env *probes.Env, address string) manifest.Observation {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ChildArgument, address, env.Nonce)
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	r, w, err := os.Pipe()
	if err != nil {
		return Sign(err)
	}
	defer r.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = w, w, w // no /dev/null is needed
	err = cmd.Start()
	w.Close()
	if err != nil {
		o := Sign(err)
		o.Sign, o.Detail = manifest.SignMissing, "make a user namespace: "+err.Error()
		return o
	}
	raw, _ := io.ReadAll(io.LimitReader(r, probes.MaxLine))
	_ = cmd.Wait() // what it saw is in its output
	var o manifest.Observation
	if err := json.Unmarshal(raw, &o); err != nil {
		return manifest.Observation{Sign: manifest.SignError, Detail: "the child said nothing"}
	}
	return o
}
