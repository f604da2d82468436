package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// The helper that writes the file is the runtime's own executable under
// another name, run inside the sandbox from a descriptor; its input format is
// described there (cmd/wallproof-runsc).
const (
	copyInName = "wallproof-copyin"
	copyFrame  = 64 << 10
	maxStderr  = 4 << 10
)

// CopyIn implements sandbox.Sandbox.
func (b *box) CopyIn(ctx context.Context, target string, mode fs.FileMode, r io.Reader) error {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return fmt.Errorf("copy into %s: %q is not a clean absolute path", b.spec.ID, target)
	}
	helper, err := os.Open(string(b.host.runtime))
	if err != nil {
		return fmt.Errorf("copy into %s: %w", b.spec.ID, err)
	}
	frames := &framer{src: r}
	var stderr bytes.Buffer
	cmd := sandbox.Command{
		Argv: []string{copyInName, target, strconv.FormatUint(uint64(mode.Perm()), 8),
			strconv.FormatUint(uint64(b.spec.User.UID), 10), strconv.FormatUint(uint64(b.spec.User.GID), 10)},
		WorkDir: "/",
		User:    &sandbox.User{},
		Stdin:   frames,
		Stderr:  &limitedWriter{w: &stderr, n: maxStderr},
	}
	exit, err := b.exec(ctx, cmd, helper)
	switch srcErr := frames.failed(); {
	case srcErr != nil:
		return fmt.Errorf("copy into %s: read the source: %w", b.spec.ID, srcErr)
	case err != nil:
		return fmt.Errorf("copy into %s: %w", b.spec.ID, err)
	case exit != 0:
		return fmt.Errorf("copy into %s: %w", b.spec.ID, errors.New(string(bytes.TrimSpace(stderr.Bytes()))))
	}
	return nil
}
