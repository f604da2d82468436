package kit

import (
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userKeyring is where keys are left for all processes of a user (keyrings(7)).
const userKeyring = unix.KEY_SPEC_USER_KEYRING

// MakeKey leaves a key in the user's keyring, readable by whoever possesses it and by
// the user's processes.
func MakeKey(name string, content []byte) error {
	possess()
	id, err := unix.AddKey("user", name, content, userKeyring)
	if err != nil {
		return err
	}
	// It outlives its sandbox where the keyring does, but not for long.
	if _, err := unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, id, keySeconds, 0, 0); err != nil {
		return err
	}
	const everybody = 0x3f3f3f3f // all rights for possessor, user, group and others
	return unix.KeyctlSetperm(id, everybody)
}

// possess links the user's keyring into the process's own session, whose keys it may
// use. Where that is refused, what others may read is left.
func possess() {
	_, _ = unix.KeyctlInt(unix.KEYCTL_LINK, userKeyring, unix.KEY_SPEC_SESSION_KEYRING, 0, 0)
}

// Bounds of Keys.
const (
	maxKeys    = 256
	maxKeyring = 4
	maxKey     = 32 << 10
	keySeconds = 600
)

// Keys looks at all keys that can be reached: those of the own keyrings, those that
// the kernel lists, and one of a known name.
func (s *Search) Keys(name string) {
	possess()
	seen := map[int]bool{}
	for _, ring := range []int{unix.KEY_SPEC_THREAD_KEYRING, unix.KEY_SPEC_PROCESS_KEYRING, unix.KEY_SPEC_SESSION_KEYRING, userKeyring, unix.KEY_SPEC_USER_SESSION_KEYRING} {
		s.key(ring, seen, maxKeyring)
	}
	if b, err := ReadHead("/proc/keys", 1<<20); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if id, err := strconv.ParseUint(strings.TrimSpace(first(line)), 16, 32); err == nil {
				s.key(int(int32(id)), seen, maxKeyring)
			}
		}
	} else {
		s.miss(err)
	}
	if id, err := unix.KeyctlSearch(userKeyring, "user", name, 0); err == nil {
		s.key(id, seen, 1)
	} else {
		s.miss(err)
	}
}

func first(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return word
}

// key looks at what a key holds; in a keyring that is other keys.
func (s *Search) key(id int, seen map[int]bool, depth int) {
	if seen[id] || len(seen) >= maxKeys || depth == 0 {
		return
	}
	seen[id] = true
	buf := make([]byte, maxKey)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	if err != nil {
		s.miss(err)
		return
	}
	buf = buf[:min(n, len(buf))]
	s.Bytes(buf)
	about, err := unix.KeyctlString(unix.KEYCTL_DESCRIBE, id)
	if err != nil || !strings.HasPrefix(about, "keyring;") {
		return
	}
	for i := 0; i+4 <= len(buf); i += 4 {
		s.key(int(*(*int32)(unsafe.Pointer(&buf[i]))), seen, depth-1)
	}
}
