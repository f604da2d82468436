package kit

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/probes/plant"
)

// Foreign returns the ids of processes in sight that belong to another sandbox: what
// is mounted at their root is not what is mounted at this one's. That is not for the
// owner of a process alone to know, so that it is told of processes whose memory and
// environment cannot be read, too. The control's stand-in for a neighbour is known by
// its name.
func Foreign() []int {
	own := rootMount("/proc/self")
	var out []int
	for _, dir := range Processes() {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(CommandOf(dir), " ")
		root := rootMount(dir)
		if name == plant.NeighbourProcess || own != "" && root != "" && root != own {
			out = append(out, pid)
		}
	}
	return out
}

// rootMount is the device of what is mounted at a process's root, "" where that is not
// told (proc_pid_mountinfo(5)).
func rootMount(dir string) string {
	b, err := ReadHead(dir+"/mountinfo", 256<<10)
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return fields[2]
		}
	}
	return ""
}
