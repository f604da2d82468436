package proxy

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestPlacesAreDocumented(t *testing.T) {
	const path = "../../docs/what-lives-where.md"
	if *update {
		if err := os.WriteFile(path, []byte(PlacesTable()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != PlacesTable() {
		t.Errorf("%s is not what roles.go says; run go test -update: %v", path, err)
	}
	for _, h := range Holdings {
		found := false
		for _, p := range WhatLivesWhere {
			found = found || p.What == string(h)
		}
		if !found {
			t.Errorf("%s has no place", h)
		}
	}
}

// Each role's environment holds what it may, and nothing else.
func TestRolesHoldWhatTheyMay(t *testing.T) {
	p, err := policy.Parse("t", []byte(modelPolicy("openai", "")))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []Secret{{Name: "KEY", Value: modelValue, Placeholder: "wpplaceholder-of-the-key"}}
	things := map[Holding]string{
		HoldsSecrets: modelValue, HoldsProviderKey: modelValue, HoldsCA: CAPath,
		HoldsPlaceholders: "wpplaceholder-of-the-key", HoldsModelKey: "wpmodel-key",
	}
	for _, r := range Roles {
		env := strings.Join(r.Env(p, secrets, "wpmodel-key", CAPath, "http://192.0.2.1:3128"), "\n")
		if r == RoleProxy || r == RoleService {
			if env != "" {
				t.Errorf("the %s's environment: %s", r, env)
			}
			continue
		}
		for h, thing := range things {
			if strings.Contains(env, thing) != r.May(h) {
				t.Errorf("%s and %s: may hold %v, holds %v", r, h, r.May(h), !r.May(h))
			}
		}
	}
}

// TestD15SecretsTouchNoDisk: after a run in which a secret was injected
// and came back, no file of the process or of the temporary folder holds it.
func TestD15SecretsTouchNoDisk(t *testing.T) {
	w, s := basicWorld(t)
	before := tempFiles(t)
	p, addr := w.startProcess(t, loopbackPolicy(basicPolicy), withToken)
	resp, err := processClient(t, p, addr).Get("https://token.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if s.count() != 1 {
		t.Fatal("nothing was injected")
	}
	fds, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.Pid()), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		link, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.Pid()), "fd", fd.Name()))
		if err == nil && strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "/dev/") && !strings.HasPrefix(filepath.Base(link), "cpu.") { // the last: Go reads its share of processors
			t.Errorf("the process has a file open: %s", link)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for path := range tempFiles(t) {
		if before[path] {
			continue
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(testValue)) {
			t.Errorf("%s holds the secret", path)
		}
	}
}

// tempFiles are the files right in the temporary folders.
func tempFiles(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				out[filepath.Join(dir, e.Name())] = true
			}
		}
	}
	return out
}
