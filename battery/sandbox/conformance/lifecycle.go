package conformance

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func (s *suite) stop(t *testing.T) {
	sb := s.start(t, s.spec("stop"))
	if !strings.HasPrefix(sb.ID(), sandbox.IDPrefix) {
		t.Errorf("id is %q", sb.ID())
	}
	if len(s.left(t, sb.ID())) == 0 {
		t.Error("nothing on the host carries the id while the sandbox runs, so looking for it proves nothing")
	}
	for range 3 {
		if err := sb.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.nothingLeft(t, sb.ID())
	if _, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{guestPath, "exit", "0"}}); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("exec in a stopped sandbox: %v", err)
	}
	again := s.start(t, s.spec("stop"))
	must(t, again, "exit", "0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := again.Stop(ctx); err != nil {
		t.Errorf("stop with a cancelled context: %v", err)
	}
	s.nothingLeft(t, again.ID())
}

func (s *suite) startFailures(t *testing.T) {
	running := s.start(t, s.spec("twice"))
	for name, change := range map[string]func(*sandbox.Spec){
		"an id of a running one": func(p *sandbox.Spec) { p.ID = running.ID() },
		"a bad id":               func(p *sandbox.Spec) { p.ID = "wallproof-../x" },
		"no root file system":    func(p *sandbox.Spec) { p.Rootfs += "-missing" },
		"no first process":       func(p *sandbox.Spec) { p.Init = nil },
		"a missing program":      func(p *sandbox.Spec) { p.Init = []string{"/missing"} },
		"a missing mount":        func(p *sandbox.Spec) { p.Mounts = append(p.Mounts, sandbox.Mount{Source: "/missing", Target: "/m"}) },
		"a missing namespace":    func(p *sandbox.Spec) { p.NetNS = "/run/netns/wallproof-missing" },
		"a bad name server":      func(p *sandbox.Spec) { p.DNS = []string{"8.8.8.8\nsearch evil"} },
		"a relative mount":       func(p *sandbox.Spec) { p.Mounts = append(p.Mounts, sandbox.Mount{Source: "x", Target: "/m"}) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.spec("bad")
			change(&spec)
			sb, err := s.driver.Start(t.Context(), spec)
			if err == nil {
				sb.Stop(context.Background())
				t.Fatal("started")
			}
			if spec.ID != running.ID() {
				s.nothingLeft(t, spec.ID)
			}
		})
	}
	must(t, running, "exit", "0")
}

func (s *suite) cancel(t *testing.T) {
	t.Run("start with a cancelled context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.driver.Start(ctx, s.spec("cancelled")); !errors.Is(err, context.Canceled) {
			t.Errorf("start returned %v", err)
		}
		s.nothingLeft(t, s.spec("cancelled").ID)
	})
	t.Run("cancelled while it starts", func(t *testing.T) {
		// The context ends when the first trace of the sandbox is on the host.
		ctx, cancel := context.WithCancel(t.Context())
		spec := s.spec("starting")
		done := make(chan struct{})
		go func() {
			defer cancel()
			for len(s.left(t, spec.ID)) == 0 {
				select {
				case <-done:
					return
				default:
				}
			}
		}()
		sb, err := s.driver.Start(ctx, spec)
		close(done)
		if err == nil { // it was faster than the onlooker
			err = sb.Stop(context.Background())
		} else if errors.Is(err, context.Canceled) {
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		s.nothingLeft(t, spec.ID)
	})
	t.Run("exec", func(t *testing.T) {
		sb := s.start(t, s.spec("cancel"))
		for _, how := range []string{"cancel", "timeout"} {
			s.cutOff(t, sb, how)
		}
		must(t, sb, "exit", "0")
	})
}

// cutOff ends a command by its context or its timeout, and sees that neither
// it nor its child is left in the sandbox.
func (s *suite) cutOff(t *testing.T, sb sandbox.Sandbox, how string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w := io.Pipe()
	c := sandbox.Command{Argv: []string{guestPath, "sleep", how}, Stdout: w}
	want := context.Canceled
	if how == "timeout" {
		want = context.DeadlineExceeded
		c.Timeout = 2e9
	}
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, c)
		done <- err
	}()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	before := must(t, sb, "processes")
	if how == "cancel" {
		cancel()
	}
	if err := <-done; !errors.Is(err, want) {
		t.Errorf("%s: exec returned %v", how, err)
	}
	if !strings.Contains(before, guestPath+" sleep "+how) {
		t.Errorf("%s: the command was not seen running: %s", how, before)
	}
	if after := must(t, sb, "processes"); strings.Contains(after, "sleep") || strings.Contains(after, "pause") {
		t.Errorf("%s: still running inside: %s", how, after)
	}
}

func (s *suite) twoAtOnce(t *testing.T) {
	specs := []sandbox.Spec{s.spec("both1"), s.spec("both2"), s.spec("both3")}
	boxes := make([]sandbox.Sandbox, len(specs))
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	for i := range specs {
		wg.Go(func() { boxes[i], errs[i] = s.driver.Start(t.Context(), specs[i]) })
	}
	wg.Wait()
	for i, sb := range boxes {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		s.stopLater(t, sb)
	}
	if t.Failed() {
		return
	}
	secrets := map[string]bool{}
	for _, sb := range boxes {
		secrets[strings.Fields(must(t, sb, "ask"))[0]] = true
		if n := strings.Count(must(t, sb, "processes"), "hold"); n != 1 {
			t.Errorf("%d first processes are seen from inside one sandbox", n)
		}
	}
	if len(secrets) != len(boxes) {
		t.Error("two sandboxes answer with the same secret")
	}
	if err := boxes[0].Stop(t.Context()); err != nil {
		t.Error(err)
	}
	must(t, boxes[1], "exit", "0")
}
