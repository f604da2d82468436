package invoke

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// streams are a command's standard streams: pipes or a terminal.
type streams interface {
	attach(cmd *exec.Cmd)       // before the runtime is started
	start()                     // after it
	finish(grace time.Duration) // once it has ended: waits for the rest of the output
	close()
}

// pipes are three pipes. The command never gets a descriptor of the caller's:
// a runtime may write to a plain file at offsets of its own and so overwrite
// what is there, and a sandbox has no business with a file of the host's.
type pipes struct {
	cmd    sandbox.Command
	ours   [3]*os.File
	theirs [3]*os.File
	output sync.WaitGroup
}

func newPipes(c sandbox.Command) (streams, error) {
	p := &pipes{cmd: c}
	for i := range p.ours {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		p.ours[i], p.theirs[i] = r, w
	}
	p.ours[0], p.theirs[0] = p.theirs[0], p.ours[0]
	return p, nil
}

func (p *pipes) attach(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.theirs[0], p.theirs[1], p.theirs[2]
}

func (p *pipes) start() {
	for _, f := range p.theirs {
		f.Close()
	}
	if p.cmd.Stdin == nil {
		p.ours[0].Close()
	} else {
		go func() {
			io.Copy(p.ours[0], p.cmd.Stdin) // ends when either side does
			p.ours[0].Close()
		}()
	}
	for i, w := range []io.Writer{p.cmd.Stdout, p.cmd.Stderr} {
		if w == nil {
			w = io.Discard
		}
		p.output.Go(func() { drain(w, p.ours[i+1]) })
	}
}

func (p *pipes) finish(grace time.Duration) {
	waitOrClose(&p.output, grace, p.ours[1:])
}

func (p *pipes) close() {
	for i := range p.ours {
		if p.ours[i] != nil {
			p.ours[i].Close()
			p.theirs[i].Close()
		}
	}
}

// drain copies to the end. When the writer fails the rest is read and thrown
// away, so that the command does not get stuck.
func drain(w io.Writer, r io.Reader) {
	if _, err := io.Copy(w, r); err != nil {
		io.Copy(io.Discard, r)
	}
}

// waitOrClose waits for the copying to end; after the grace it closes the
// files, which ends it.
func waitOrClose(copying *sync.WaitGroup, grace time.Duration, files []*os.File) {
	done := make(chan struct{})
	go func() {
		copying.Wait()
		close(done)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		for _, f := range files {
			f.Close()
		}
		<-done
	}
}
