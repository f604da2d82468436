package gvisor

import (
	"context"
	"fmt"
	"os"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Checkpoint implements sandbox.Snapshotter. dir is made if it is missing. The
// image is not compressed, so that what is in it can be searched for.
//
// Of the processes only Init and its descendants live on in a restored
// sandbox: gVisor ends what Exec started, because its streams cannot be saved.
// Their memory is in the checkpoint all the same.
func (d *Driver) Checkpoint(ctx context.Context, sb sandbox.Sandbox, dir string, leave bool) error {
	b, ok := sb.(*box)
	if !ok {
		return fmt.Errorf("checkpoint: %T is not a gvisor sandbox", sb)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("checkpoint %s: %w", b.spec.ID, err)
	}
	if !leave {
		b.ending.Store(true)
	}
	args := []string{b.dir.RootArg(), "checkpoint", "--image-path=" + dir, "--compression=none", fmt.Sprintf("--leave-running=%t", leave), b.spec.ID}
	if err := b.host.runtime.Run(ctx, bundle.RunOptions{Log: b.dir.Log()}, args...); err != nil {
		b.ending.Store(false)
		return fmt.Errorf("checkpoint %s: %w", b.spec.ID, err)
	}
	if leave {
		return nil
	}
	return b.Stop(ctx)
}

// Restore implements sandbox.Snapshotter. The restored processes go on where
// they were; the first one's standard streams are the null device again.
// Network namespace, host name, environment of Exec, name servers and limits
// may differ from the saved sandbox's; the rest of spec may not.
func (d *Driver) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Sandbox, error) {
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("restore %s: no checkpoint at %s", spec.ID, dir)
	}
	return d.launch(ctx, spec, "restore", "--detach", "--image-path="+dir)
}
