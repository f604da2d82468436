// Stack builds the servers that the tests of signing run against: a certificate
// authority, a transparency log, a timestamp authority and a certificate log, as
// Sigstore runs them, and a key service that speaks the protocol of AWS. It builds each once, from its Go module, into a cache
// outside the tree:
//
//	go run ./internal/tools/stack           build the servers that are missing
//	go run ./internal/tools/stack -all      and the cosign command, a long build
//	go run ./internal/tools/stack -print    print the cache's folder
//
// Nothing is downloaded but Go modules, whose checksums the Go tool verifies.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// server is one program of the stack. Two of them are called "posix" by their
// modules, so each gets a folder and a name of its own.
type server struct {
	name, pkg, version, built string
}

var servers = []server{
	{"rekor", "github.com/sigstore/rekor-tiles/v2/cmd/rekor-server/posix", "v2.3.0", "posix"},
	{"ctlog", "github.com/transparency-dev/tesseract/cmd/tesseract/posix", "v0.1.1", "posix"},
	{"tsa", "github.com/sigstore/timestamp-authority/v2/cmd/timestamp-server", "v2.0.6", "timestamp-server"},
	{"fulcio", "github.com/sigstore/fulcio", "v1.8.8", "fulcio"},
	{"local-kms", "github.com/nsmithuk/local-kms", "v0.0.0-20260228092603-2a5e92d09ab6", "local-kms"},
}

// peers are other implementations to cross-check with. They take long to build,
// so that their tests run only where they are.
var peers = []server{
	{"cosign", "github.com/sigstore/cosign/v3/cmd/cosign", "v3.1.3", "cosign"},
}

// folder is the cache's default place.
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
	all := flag.Bool("all", false, "build the cosign command too")
	flag.Parse()
	dir, err := folder()
	if err == nil && *show {
		fmt.Println(dir)
		return
	}
	list := servers
	if *all {
		list = append(list, peers...)
	}
	for _, s := range list {
		if err == nil {
			err = s.build(dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

// build installs one server unless this version is there. It is put into place
// by one rename, so that a build that was interrupted leaves nothing.
func (s server) build(dir string) error {
	dest := filepath.Join(dir, s.name+"-"+s.version)
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
	fmt.Fprintf(os.Stderr, "stack: building %s@%s (minutes, once)\n", s.pkg, s.version)
	cmd := exec.Command("go", "install", "-trimpath", "-ldflags", "-s -w", s.pkg+"@"+s.version)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "GOBIN="+tmp, "GOFLAGS=", "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("build %s@%s: %w", s.pkg, s.version, err), os.RemoveAll(tmp))
	}
	return errors.Join(os.Rename(filepath.Join(tmp, s.built), dest), os.RemoveAll(tmp))
}
