//go:build unix

package kms_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/kms"
)

// A helper that never answers is ended, whoever calls it with whatever patience.
func TestHelperThatHangs(t *testing.T) {
	defer kms.SetCallTimeout(200 * time.Millisecond)()
	for _, script := range []string{
		"exec sleep 3600",
		`case "$1" in describe) echo '{"uri":"hangs://key"}';; *) exec sleep 3600;; esac`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "sigstore-kms-hangs"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := kms.Open(context.Background(), "hangs://key", dir)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, kms.ErrService) {
				t.Errorf("%s: %v", script, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: still waiting", script)
		}
	}
}
