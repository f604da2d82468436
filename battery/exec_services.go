package battery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
)

// serviceHosts are the names of the run's services inside a sandbox that may
// reach them.
func (x *session) serviceHosts(b *execBox) map[string]string {
	if b.service != nil || b.role == proxy.RoleOrchestrator {
		return nil
	}
	hosts := map[string]string{}
	for _, s := range x.boxes {
		if s.service != nil {
			hosts[s.service.Name] = s.box.IPv4.String()
		}
	}
	return hosts
}

// startServices starts the policy's services, each in a sandbox of its own on
// the run's private network, and waits until their ports answer. They have no
// way out.
func (x *session) startServices(ctx context.Context) error {
	var targets []string
	for _, b := range x.boxes {
		if b.service == nil {
			continue
		}
		x.step("start the service %s", b.service.Name)
		if err := x.startService(ctx, b); err != nil {
			return fmt.Errorf("start the service %s: %w", b.service.Name, err)
		}
		for _, p := range b.service.Ports {
			targets = append(targets, netip.AddrPortFrom(b.box.IPv4, p).String())
		}
	}
	if len(targets) == 0 {
		return nil
	}
	// Asked from where it will be used.
	err := x.tool(ctx, x.boxes[0], "await", map[string]any{"targets": targets, "timeoutMs": (toolTimeout - time.Second).Milliseconds()})
	if err != nil {
		return fmt.Errorf("wait for the services: %w", err)
	}
	return nil
}

func (x *session) startService(ctx context.Context, b *execBox) error {
	img := x.o.Services[b.service.Name]
	rootfs, err := x.unpack(ctx, "rootfs-"+b.name, img)
	if err != nil {
		return err
	}
	tools, err := toolsFolder(x.state, x.o.Hold)
	if err != nil {
		return err
	}
	cfg := img.Config.Config
	argv := append(slices.Clone(cfg.Entrypoint), cfg.Cmd...)
	if len(argv) == 0 {
		return fmt.Errorf("its image %s names no command", img.Reference)
	}
	env := slices.Clone(cfg.Env)
	for _, v := range b.service.Set {
		env = append(env, v.Name+"="+v.Value)
	}
	dir := cfg.WorkingDir
	if dir == "" {
		dir = "/"
	}
	spec := sandbox.Spec{ID: "wallproof-" + x.id + "-x-" + b.name, Rootfs: rootfs, IDBase: image.IDBase, NetNS: b.box.NetNSPath, WorkDir: dir,
		User: root, Hostname: b.host, Mounts: []sandbox.Mount{tools}, Init: []string{tool(x.o.Hold), "hold"}}
	if b.sb, err = x.o.Driver.Start(ctx, spec); err != nil {
		return err
	}
	sb := b.sb
	x.undo = append(x.undo, sb.Stop)
	user := imageUser(cfg.User)
	x.rec.sandbox(b, user)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var stderr limitedBuffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, err := sb.Exec(running, sandbox.Command{Argv: argv, Env: lastWins(env), User: &user, WorkDir: dir, Stdout: &stderr, Stderr: &stderr})
		if running.Err() == nil {
			x.note("the service %s has ended with exit code %d (%v): %s", b.service.Name, exit, err, stderr.text())
		}
	}()
	b.stop = func(ctx context.Context) error {
		cancel()
		<-ended
		return sb.Stop(ctx)
	}
	x.undo = append(x.undo, b.stop)
	return nil
}

// stopServices ends the services: they belong to the agent phase.
func (x *session) stopServices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for _, b := range x.boxes {
		if b.stop != nil {
			errs = append(errs, b.stop(ctx))
			b.sb, b.stop = nil, nil
			// So that whoever still asks for it is refused, and does not wait.
			errs = append(errs, x.stage.ResetBox(b.name))
		}
	}
	return errors.Join(errs...)
}
