package broker

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func pkt(lines ...string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		if l == "" {
			b.WriteString("0000")
			continue
		}
		fmt.Fprintf(&b, "%04x%s", len(l)+4, l)
	}
	return b.Bytes()
}

var (
	zero = strings.Repeat("0", 40)
	idA  = strings.Repeat("a", 40)
	idB  = strings.Repeat("b", 40)
)

func TestReadPush(t *testing.T) {
	in := pkt("shallow "+idA+"\n", idA+" "+idB+" refs/heads/x\x00report-status push-options agent=git/2\n", zero+" "+idB+" refs/heads/y", "", "option=1", "")
	in = append(in, "PACK..."...)
	r := bytes.NewReader(in)
	p, err := ReadPush(r)
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{{idA, idB, "refs/heads/x"}, {zero, idB, "refs/heads/y"}}
	if len(p.Commands) != 2 || p.Commands[0] != want[0] || p.Commands[1] != want[1] || !p.Has("push-options") || !p.Commands[1].Creates() {
		t.Errorf("%+v", p)
	}
	if r.Len() != len("PACK...") || string(p.Raw) != string(in[:len(in)-7]) {
		t.Errorf("%d bytes are left", r.Len())
	}
}

// Whether options follow the commands is told as git tells it; else one would take for
// the pack what the other takes for options.
func TestPushOptions(t *testing.T) {
	for caps, want := range map[string]bool{
		"push-options": true, "report-status push-options": true, "push-options=1": true, "push-options=": true, "a\tpush-options\tb": true,
		"push-options-not": false, "no-push-options": false, "": false, "a\u00a0push-options": false,
		"push-options\x00rest": true, "a\x00push-options": false,
	} {
		r := bytes.NewReader(append(pkt(zero+" "+idA+" refs/heads/x\x00"+caps, "", "an option", ""), "PACK"...))
		p, err := ReadPush(r)
		if err != nil || p.Has("push-options") != want || (r.Len() == len("PACK")) != want {
			t.Errorf("%q: %v, %d bytes are left", caps, err, r.Len())
		}
	}
	endless := pkt(zero+" "+idA+" refs/heads/x\x00push-options", "")
	for len(endless) < maxHead {
		endless = append(endless, pkt(strings.Repeat("x", maxPacket-4))...)
	}
	if _, err := ReadPush(bytes.NewReader(append(endless, "0000"...))); !errors.Is(err, ErrMalformed) {
		t.Errorf("options of %d bytes: %v", len(endless), err)
	}
}

func TestPushesThatCannotBeRead(t *testing.T) {
	for name, in := range map[string][]byte{
		"empty":             nil,
		"no flush":          pkt(idA + " " + idB + " refs/heads/x"),
		"bad length":        []byte("00zz"),
		"signed length":     []byte("+004"),
		"delimiter":         []byte("0001"),
		"short packet":      []byte("0004"),
		"too long":          []byte("fff1"),
		"one id":            pkt(idA+" refs/heads/x", ""),
		"upper-case id":     pkt(strings.ToUpper(idA)+" "+idB+" refs/heads/x", ""),
		"two kinds of ids":  pkt(idA+" "+strings.Repeat("b", 64)+" refs/heads/x", ""),
		"ref twice":         pkt(zero+" "+idA+" refs/heads/x\x00", zero+" "+idB+" refs/heads/x", ""),
		"late capabilities": pkt(zero+" "+idA+" refs/heads/x\x00", zero+" "+idB+" refs/heads/y\x00delete-refs", ""),
		"push certificate":  pkt("push-cert\x00caps", "certificate version 0.1", "push-cert-end", ""),
		"not below refs":    pkt(zero+" "+idA+" HEAD\x00", ""),
		"dots":              pkt(zero+" "+idA+" refs/heads/../main\x00", ""),
		"space in the ref":  pkt(zero+" "+idA+" refs/heads/a b\x00", ""),
		"control character": pkt(zero+" "+idA+" refs/heads/a\x01\x00", ""),
	} {
		if p, err := ReadPush(bytes.NewReader(in)); !errors.Is(err, ErrMalformed) || p != nil {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}

func TestValidRef(t *testing.T) {
	for ref, want := range map[string]bool{
		"refs/heads/x": true, "refs/heads/a/b-c.d": true, "refs/heads/ü": true, "heads/x": false, "refs/": false, "refs//x": false, "refs/heads/": false,
		"refs/heads/.x": false, "refs/heads/x.lock": false, "refs/heads/x.": false, "refs/heads/@{": false, "refs/heads/a:b": false, "refs/heads/a*": false, "refs/heads/a\\b": false,
	} {
		if ValidRef(ref) != want {
			t.Errorf("%s: want %v", ref, want)
		}
	}
}

func TestReadAdvertisement(t *testing.T) {
	refs, err := ReadAdvertisement(bytes.NewReader(pkt("# service=git-receive-pack\n", "", idA+" refs/heads/x\x00report-status\n", idB+" refs/heads/y\n", idB+" .have\n", "")))
	if err != nil || len(refs) != 2 || refs["refs/heads/x"] != idA || refs["refs/heads/y"] != idB {
		t.Errorf("%v %v", refs, err)
	}
	if refs, err := ReadAdvertisement(bytes.NewReader(pkt("# service=git-receive-pack\n", "", zero+" capabilities^{}\x00report-status\n", ""))); err != nil || len(refs) != 0 {
		t.Errorf("empty repository: %v %v", refs, err)
	}
	for _, bad := range [][]byte{nil, pkt("# service=git-upload-pack\n", "", ""), pkt("# service=git-receive-pack\n", "", "x\n", ""), pkt("# service=git-receive-pack\n", "")} {
		if _, err := ReadAdvertisement(bytes.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// TestScanPack reads packs that git itself wrote, with deltas and many commits.
func TestScanPack(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "-b", "main")
	var ids []string
	for i := range 60 {
		git(t, dir, "", "commit", "-q", "--allow-empty", "-m", fmt.Sprintf("commit %d %s", i, strings.Repeat("the same long message ", 40)))
		ids = append(ids, strings.TrimSpace(git(t, dir, "", "rev-parse", "HEAD")))
	}
	git(t, dir, "", "checkout", "-q", "-b", "side", ids[30])
	git(t, dir, "", "commit", "-q", "--allow-empty", "-m", "side")
	side := strings.TrimSpace(git(t, dir, "", "rev-parse", "HEAD"))
	for name, args := range map[string][]string{
		"offset deltas":    {"pack-objects", "--revs", "--stdout", "--delta-base-offset", "--window=20", "--depth=20"},
		"reference deltas": {"pack-objects", "--revs", "--stdout", "--window=20", "--depth=20"},
	} {
		pack := git(t, dir, ids[59]+"\n"+side+"\n^"+ids[10]+"\n", args...)
		var spool bytes.Buffer
		h, err := ScanPack(strings.NewReader(pack), &spool, 1<<20, 40, func(*History) bool { return false })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !h.Reaches(ids[59], ids[10]) || !h.Reaches(side, ids[30]) || h.Reaches(side, ids[31]) || h.Reaches(ids[20], ids[59]) {
			t.Errorf("%s: wrong history", name)
		}
		if spool.String() != pack {
			t.Errorf("%s: %d of %d bytes were kept", name, spool.Len(), len(pack))
		}
	}
	pack := git(t, dir, ids[59]+"\n", "pack-objects", "--revs", "--stdout")
	if _, err := ScanPack(strings.NewReader(pack), new(bytes.Buffer), 500, 40, func(*History) bool { return false }); !errors.Is(err, ErrSpool) {
		t.Errorf("a pack larger than the spool: %v", err)
	}
	if _, err := ScanPack(strings.NewReader(pack[:len(pack)/2]), new(bytes.Buffer), 1<<20, 40, func(*History) bool { return false }); err == nil {
		t.Error("half a pack was accepted")
	}
}

// FuzzPush: a command that is accepted is one that the protocol has, every byte
// that was read is kept, and written again it is read as the same.
func FuzzPush(f *testing.F) {
	f.Add(pkt(idA+" "+idB+" refs/heads/x\x00report-status\n", ""))
	f.Add(pkt(zero+" "+idB+" refs/heads/x\x00push-options", "", "o", ""))
	f.Add([]byte("0000"))
	f.Add([]byte("0004"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := ReadPush(bytes.NewReader(in))
		if err != nil {
			return
		}
		if !bytes.HasPrefix(in, p.Raw) {
			t.Fatal("what was kept is not what came")
		}
		var lines []string
		for i, c := range p.Commands {
			if !ValidRef(c.Ref) || !isID(c.Old) || !isID(c.New) {
				t.Fatalf("%+v", c)
			}
			l := c.Old + " " + c.New + " " + c.Ref
			if i == 0 {
				l += "\x00"
			}
			lines = append(lines, l)
		}
		again, err := ReadPush(bytes.NewReader(pkt(append(lines, "")...)))
		if err != nil || len(again.Commands) != len(p.Commands) {
			t.Fatalf("%v %v", again, err)
		}
	})
}

func FuzzScanPack(f *testing.F) {
	dir := f.TempDir()
	git(f, dir, "", "init", "-q", "-b", "main")
	for i := range 3 {
		git(f, dir, "", "commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
	}
	head := strings.TrimSpace(git(f, dir, "", "rev-parse", "HEAD"))
	f.Add([]byte(git(f, dir, head+"\n", "pack-objects", "--revs", "--stdout")))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var spool bytes.Buffer
		h, err := ScanPack(bytes.NewReader(in), &spool, 1<<20, 40, func(*History) bool { return false })
		if !bytes.HasPrefix(in, spool.Bytes()) {
			t.Fatal("what was kept is not what came")
		}
		if err == nil && !errors.Is(err, ErrSpool) {
			for id := range h.parents {
				if !isID(id) {
					t.Fatalf("id %q", id)
				}
			}
		}
	})
}
