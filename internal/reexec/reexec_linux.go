package reexec

import (
	"fmt"
	"io"
	"os"

	"github.com/wallproof/wallproof/battery/adapter"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/policy/proxy"
)

// Main serves one of the hidden subcommands and returns its exit code; ok is
// false when the arguments are none, and then nothing was done.
func Main(args []string) (code int, ok bool) {
	if len(args) < 3 || args[1] != Command {
		return 0, false
	}
	switch args[2] {
	case "proxy":
		return proxy.Main(), true
	case "world":
		if err := witness.Main(); err != nil {
			fmt.Fprintln(os.Stderr, "world:", err)
			return 1, true
		}
		return 0, true
	case "unpack":
		return image.UnpackMain(args[3:]), true
	case "foreign": // the first process of somebody else's proxy
		return adapter.Main(args[3:]), true
	case "hold": // a process that holds its environment until its input ends
		io.Copy(io.Discard, os.Stdin)
		return 0, true
	}
	return 1, true
}
