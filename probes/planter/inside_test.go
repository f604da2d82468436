package planter_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/attempts"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/plant"
	"github.com/wallproof/wallproof/probes/planter"
	"golang.org/x/sys/unix"
)

// The tests plant and search in an empty root of their own, with process, mount,
// IPC and network namespaces of their own. This binary runs itself there twice:
// as the first process, which plants and holds, and as the one that searches.
const role = "WALLPROOF_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == planter.HoldArgument {
		planter.HoldUntilEOF(os.Stdin)
		return
	}
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "plant":
		err = plantAndSearch()
	case "search":
		err = search()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testCanaries are made when they are asked for: a process that plants must not
// have in its memory what it was not given.
func testCanaries() plant.Canaries {
	return plant.Canaries{
		Own:        []plant.Secret{{Name: "API_TOKEN", Value: made("own"), Placeholder: "placeholder-own"}},
		HostEnv:    made("hostEnv"),
		HostFile:   made("hostFile"),
		Prior:      made("prior"),
		Platform:   plant.Secret{Value: made("platform")},
		Tenant:     plant.Secret{Name: "TENANT", Value: made("tenant"), Placeholder: "placeholder-tenant"},
		AgentToken: plant.Secret{Name: "AGENT", Value: made("agent"), Placeholder: "placeholder-agent"},
	}
}

// wanted are the digests of which a technique of a vector finds one.
func wanted(v catalog.Vector) []string {
	switch v {
	case catalog.TEN:
		return []string{canary.Digest(made("tenant"))}
	case catalog.SNP:
		return []string{canary.Digest(made("prior"))}
	case catalog.ENV:
		return []string{canary.Digest(made("hostEnv")), canary.Digest(made("hostFile")), canary.Digest(made("platform"))}
	}
	return []string{canary.Digest(made("own"))}
}

func made(name string) string { return canary.Derive([]byte(name)) }

// task is what the first process is told on standard input.
type task struct {
	Place plant.Place   `json:"place"`
	Stage catalog.Stage `json:"stage"`
	Image string        `json:"image"` // the image's configuration
}

// tmpfs are mounted in the new root, so that planting can't reach the real one.
var tmpfs = []string{"/dev/shm", plant.HostMount, plant.SharedMount}

func plantAndSearch() error {
	for _, target := range append([]string{"/proc"}, tmpfs...) {
		kind := "tmpfs"
		if target == "/proc" {
			kind = "proc"
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(kind, target, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
	}
	var what task
	if err := json.NewDecoder(os.Stdin).Decode(&what); err != nil {
		return err
	}
	if err := fill(what.Place.Mounts); err != nil {
		return err
	}
	standing := planter.Plant(everything(what.Place))
	defer standing.Close()
	if failed := standing.Ready().Failed; len(failed) > 0 {
		return fmt.Errorf("could not plant %v", failed)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"searcher"}
	cmd.Env = append([]string{role + "=search", "STAGE=" + string(what.Stage)}, what.Place.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(what.Image), os.Stdout, os.Stderr
	return cmd.Run()
}

func fill(mounts []plant.Mount) error {
	for _, m := range mounts {
		for _, f := range m.Files {
			path := filepath.Join(m.Target, f.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(f.Content), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// everything is what a place's seed and its neighbour hold together.
func everything(p plant.Place) plant.Seed {
	var all plant.Seed
	if p.Seed != nil {
		all = *p.Seed
	}
	if p.Serve != nil {
		s := p.Serve.Seed
		all.Files = append(all.Files, s.Files...)
		all.Deleted = append(all.Deleted, s.Deleted...)
		all.Memory = append(all.Memory, s.Memory...)
		all.Processes = append(all.Processes, s.Processes...)
		all.Segments = append(all.Segments, s.Segments...)
		all.Queues = append(all.Queues, s.Queues...)
		all.Keys = append(all.Keys, s.Keys...)
		all.Sockets = append(all.Sockets, plant.Socket{Name: "@" + plant.NeighbourSocket, Answer: p.Serve.Answer})
	}
	return all
}

// search makes every attempt of a stage that stays inside, and prints what each
// saw as a line of JSON.
func search() error {
	image, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	facts := &probes.Facts{Local: probes.Local{Image: string(image), ProbeMount: "/probe", HostMount: plant.HostMount, Layers: "1 hidden file searched\n"}, Agent: probes.Agent{Workspace: plant.Workspace}}
	if err := outside(facts, strings.HasPrefix(string(image), "token: ")); err != nil {
		return err
	}
	all := attempts.All()
	for _, tech := range inside(catalog.Stage(os.Getenv("STAGE"))) {
		n := nonce.New([]byte("k"), "run", tech.ID, "", "")
		o := all[tech.ID](context.Background(), &probes.Env{Facts: facts, Technique: tech.ID, Variant: tech.Variants[0], Nonce: n})
		o.Host = tech.ID
		if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
			return err
		}
	}
	return nil
}

// outside is what an attempt is told of what nobody inside sees, and, in the control,
// what follows from a shared authority.
func outside(f *probes.Facts, control bool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		return err
	}
	f.Tenant.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if !control {
		return nil
	}
	f.Local.Layers += canary.Digest(made("hostFile")) + " in a file called \"token\"\n"
	f.CAFile = "/tmp/ca.pem"
	return os.WriteFile(f.CAFile, []byte(f.Tenant.CA), 0o600)
}

// inside lists the techniques of a stage that stay inside the sandbox.
//
// Keyrings are a user's, whatever namespaces a process is in: what the control leaves
// there the attack of this test would find. Package kit tests them.
func inside(stage catalog.Stage) []catalog.Technique {
	return slices.DeleteFunc(catalog.All(), func(t catalog.Technique) bool {
		v := t.Variants[0]
		return t.ID == "TEN-KEYRING" || !t.Local || t.StageOf(v) != stage || v != catalog.VariantDefault && v != catalog.VariantFresh
	})
}

// run plants a place in a new root and returns what each technique saw there.
func run(t *testing.T, place plant.Place, stage catalog.Stage, image string) map[string]manifest.Observation {
	t.Helper()
	root := t.TempDir()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "probe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "probe/test"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range append([]string{"proc", "tmp", "root", "etc", "run", "dev"}, tmpfs...) {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	input, err := json.Marshal(task{Place: place, Stage: stage, Image: image})
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/probe/test", Args: []string{"holder"}, Env: append([]string{role + "=plant"}, place.Env...), Dir: "/", Stdin: bytes.NewReader(input)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start namespaces (this needs root, and CGO_ENABLED=0): %v", err)
	}
	got := map[string]manifest.Observation{}
	for dec := json.NewDecoder(bufio.NewReader(out)); ; {
		var o manifest.Observation
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Error(err)
			break
		}
		got[o.Host] = o
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return got
}

// What the control plants, every technique that stays inside finds: each its own
// vector's canary.
func TestControlFires(t *testing.T) {
	control := plant.Control(testCanaries())
	for stage, place := range map[catalog.Stage]plant.Place{catalog.StageWork: control.Work, catalog.StageFresh: control.Fresh} {
		got := run(t, place, stage, "token: "+made("hostFile")+"\ntoken: "+made("prior"))
		for _, tech := range inside(stage) {
			o := got[tech.ID]
			if tech.Proof == catalog.ProofCondition {
				if o.Sign != manifest.SignReached {
					t.Errorf("%s: %s, but the condition is met (%s)", tech.ID, o.Sign, o.Detail)
				}
				continue
			}
			if o.Sign != manifest.SignReached || !slices.ContainsFunc(o.Obtained, func(d string) bool { return slices.Contains(wanted(tech.Vector), d) }) {
				t.Errorf("%s: %s, obtained %v (%s)", tech.ID, o.Sign, o.Obtained, o.Detail)
			}
		}
		if len(got) != len(inside(stage)) {
			t.Errorf("%s: %d results of %d techniques", stage, len(got), len(inside(stage)))
		}
	}
}

// walls are techniques that look whether a wall of the sandbox stands. The
// namespaces of this test have none of them.
var walls = map[string]bool{"ENV-CAPABILITIES": true, "ENV-SECCOMP": true, "ENV-NEW-PRIVS": true, "ENV-HOST-ROOT": true, "ENV-NAMESPACES": true, "ENV-MASKED": true, "ENV-MKNOD": true, "LAT-VSOCK": true, "LAT-OWN-LINK": true}

// Where only placeholders stand, nothing is found, and nothing fails.
func TestAttackFindsNothing(t *testing.T) {
	attack := plant.Attack(testCanaries())
	for stage, place := range map[catalog.Stage]plant.Place{catalog.StageWork: attack.Work, catalog.StageFresh: attack.Fresh} {
		got := run(t, place, stage, `{"Labels":{"a":"b"}}`)
		for _, tech := range inside(stage) {
			o, ok := got[tech.ID]
			if ok && walls[tech.ID] && o.Sign == manifest.SignReached {
				continue
			}
			if !ok || len(o.Obtained) > 0 || o.Sign != manifest.SignAbsent && o.Sign != manifest.SignRefused {
				t.Errorf("%s: %s, obtained %v (%s)", tech.ID, o.Sign, o.Obtained, o.Detail)
			}
		}
	}
}

// Every canary that the control plants inside belongs outside in the attack, or
// to somebody else's sandbox.
func TestAttackHoldsNoCanaries(t *testing.T) {
	attack := plant.Attack(testCanaries())
	for name, place := range map[string]plant.Place{"work": attack.Work, "agent": attack.Agent, "fresh": attack.Fresh} {
		raw, err := json.Marshal(place)
		if err != nil {
			t.Fatal(err)
		}
		if found := canary.Find(raw); len(found) > 0 {
			t.Errorf("%s: %d canaries inside", name, len(found))
		}
	}
	raw, err := json.Marshal(attack.Host)
	if err != nil {
		t.Fatal(err)
	}
	if len(canary.Find(raw)) != 2 {
		t.Error("the host does not hold its canaries")
	}
	for name, place := range map[string]plant.Place{"tenant": attack.Tenant, "prior": attack.Prior} {
		raw, err := json.Marshal(place)
		if err != nil {
			t.Fatal(err)
		}
		if len(canary.Find(raw)) != 1 {
			t.Errorf("%s does not hold its canary, and only its own", name)
		}
	}
}
