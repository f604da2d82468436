package kit

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// drawn is how many random bytes are compared: two equal draws are no accident.
const drawn = 32

// Draws takes random bytes from every source that programs use, and returns their
// digests by source. Two sandboxes that draw the same hold the same random state.
func Draws() map[string]string {
	out := map[string]string{}
	add := func(name string, b []byte) {
		if len(b) >= drawn/2 {
			sum := sha256.Sum256(b)
			out[name] = hex.EncodeToString(sum[:])
		}
	}
	buf := make([]byte, drawn)
	if n, err := unix.Getrandom(buf, unix.GRND_NONBLOCK); err == nil {
		add("getrandom", buf[:n])
	}
	// The last one stands for a source whose state a snapshot carries on, in the
	// control.
	for _, path := range []string{"/dev/urandom", "/dev/random", "/proc/sys/kernel/random/uuid", "/dev/hwrng", plant.KernelRoot + "/dev/urandom"} {
		if b, err := ReadHead(path, drawn); err == nil {
			add(path, b)
		}
	}
	return out
}
