package gvisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/conformance"
)

// TestImageFromRegistryToSandbox pulls the demo image by digest, unpacks it and
// runs it: the ids that the unpacker leaves are those that the sandbox wants.
func TestImageFromRegistryToSandbox(t *testing.T) {
	f := conformance.NewFixture(t, 0)
	guest, err := os.ReadFile(f.Guest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Demo(guest, image.DemoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, err := image.ServeRegistry(t.Context(), map[string]v1.Image{"demo": img})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := image.Resolve(t.Context(), addr+"/demo@"+digest.String(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// A folder that the sandbox's ids may not pass through.
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	rootfs := filepath.Join(closed, "rootfs")
	if _, err := image.Unpack(t.Context(), r, rootfs, image.UnpackOptions{Command: []string{"/proc/self/exe", unpackArg}}); err != nil {
		t.Fatal(err)
	}
	sb, err := New(Options{Runtime: testRuntime(t), StateDir: testStateDir(t)}).Start(t.Context(), sandbox.Spec{
		ID: "wallproof-" + strconv.Itoa(os.Getpid()) + "-image", Rootfs: rootfs, IDBase: image.IDBase,
		User: sandbox.User{UID: image.DemoUser, GID: image.DemoUser}, WorkDir: r.Config.Config.WorkingDir,
		Env: r.Config.Config.Env, Init: []string{"/bin/wallproof-agent", "hold"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Stop(t.Context())
	for _, tt := range []struct{ args, want string }{
		{"id", "uid=1000 gid=1000 cwd=/workspace host=sandbox"},
		{"stat /home/agent", "drwxr-xr-x 1000 1000"},
		{"stat /root", "drwx------ 0 0"},
		{"stat /etc/passwd", "-rw-r--r-- 0 0"},
		{"write /workspace/new x", ""},
		{"read /workspace/README.md", "# Workspace"},
	} {
		var out, errs bytes.Buffer
		exit, err := sb.Exec(t.Context(), sandbox.Command{Argv: append([]string{"/bin/wallproof-agent"}, strings.Fields(tt.args)...), Stdout: &out, Stderr: &errs})
		if err != nil || exit != 0 || !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s: exit %d, %v, %q, %q", tt.args, exit, err, &out, &errs)
		}
	}
	if _, err := os.Lstat(filepath.Join(rootfs, "workspace/new")); err == nil {
		t.Error("a write reached the unpacked image")
	}
}
