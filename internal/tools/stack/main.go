// Stack builds the servers that the tests of signing run against: a certificate
// authority, a transparency log, a timestamp authority and a certificate log, as
// Sigstore runs them, and a key service that speaks the protocol of AWS. It
// builds each once into a cache outside the tree; run it in the repository's top
// folder:
//
//	go run ./internal/tools/stack           build the servers that are missing
//	go run ./internal/tools/stack -all      and the cosign command and OpenBao, long builds
//	go run ./internal/tools/stack -print    print the cache's folder
//
// All but OpenBao are built from one module, internal/tools/stack/servers, so that
// what they share is compiled once, and with the versions of cmd/wallproof-kms where
// the servers bear them. OpenBao has a module of its own, for it bears few of them.
// Two of its submodules, by which its tests log in, were never released; empty ones
// stand in for them there. Nothing is downloaded but Go modules, whose checksums the Go
// tool verifies.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// The modules that name every version.
const (
	servers = "internal/tools/stack/servers"
	openBao = "internal/tools/stack/bao"
)

// server is one program of the stack: a package of a module, at the version that
// the module in a folder of ours names.
type server struct{ in, name, module, pkg string }

var stack = []server{
	{servers, "rekor", "github.com/sigstore/rekor-tiles/v2", "/cmd/rekor-server/posix"},
	{servers, "ctlog", "github.com/transparency-dev/tesseract", "/cmd/tesseract/posix"},
	{servers, "tsa", "github.com/sigstore/timestamp-authority/v2", "/cmd/timestamp-server"},
	{servers, "fulcio", "github.com/sigstore/fulcio", ""},
	{servers, "local-kms", "github.com/nsmithuk/local-kms", ""},
}

// peers are other implementations to cross-check with, and one more key service.
// They take long to build, so that their tests run only where they are.
var peers = []server{
	{servers, "cosign", "github.com/sigstore/cosign/v3", "/cmd/cosign"},
	{openBao, "bao", "github.com/openbao/openbao", ""},
}

// folder is the cache's place.
func folder() (string, error) {
	if dir := os.Getenv("WALLPROOF_STACK"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder; set WALLPROOF_STACK: %w", err)
	}
	return filepath.Join(cache, "wallproof", "stack"), nil
}

func main() {
	show := flag.Bool("print", false, "print the cache's folder and do nothing")
	all := flag.Bool("all", false, "build the cosign command and OpenBao too")
	flag.Parse()
	if err := run(*show, *all); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(show, all bool) error {
	dir, err := folder()
	if err != nil {
		return err
	}
	if show {
		fmt.Println(dir)
		return nil
	}
	list := stack
	if all {
		list = append(list, peers...)
	}
	for _, s := range list {
		if err := s.build(dir); err != nil {
			return err
		}
	}
	return nil
}

// file is the name of a server in the cache: with its version, and with a hash of
// the versions of everything that it is built of.
func (s server) file() (string, error) {
	mod, err := os.ReadFile(filepath.Join(s.in, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read the servers' versions (run this in the repository's top folder): %w", err)
	}
	m := regexp.MustCompile(`(?m)^(?:\t|require )` + regexp.QuoteMeta(s.module) + ` (v\S+)`).FindSubmatch(mod)
	if m == nil {
		return "", fmt.Errorf("%s/go.mod does not require %s", s.in, s.module)
	}
	sum := sha256.Sum256(mod)
	return s.name + "-" + string(m[1]) + "-" + hex.EncodeToString(sum[:4]), nil
}

// build builds one server unless it is there. It is put into place by one rename,
// so that a build that was interrupted leaves nothing, and then older ones of the
// same name are removed.
func (s server) build(dir string) error {
	name, err := s.file()
	if err != nil {
		return err
	}
	dest := filepath.Join(dir, name)
	if _, err := os.Stat(dest); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	fmt.Fprintf(os.Stderr, "stack: building %s (once)\n", name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(tmp, name), s.module+s.pkg)
	cmd.Dir = s.in
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("build %s: %w", name, err), os.RemoveAll(tmp))
	}
	err = os.Rename(filepath.Join(tmp, name), dest)
	return errors.Join(err, os.RemoveAll(tmp), s.removeOthers(dir, name))
}

func (s server) removeOthers(dir, keep string) error {
	found, err := filepath.Glob(filepath.Join(dir, s.name+"-v*"))
	for _, path := range found {
		if filepath.Base(path) != keep {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
