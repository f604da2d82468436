package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// The attempts of this file look for what known escapes from container runtimes need.
// None makes one.

// either is a path of the kernel's and the control's look-alike of it.
func either(path string) []string { return []string{path, plant.KernelRoot + path} }

// usualDevices are the devices that every runtime gives a container (config-linux of the OCI
// runtime specification), beside the null device and terminals. What takes the place
// of one of the random ones decides what is drawn.
var usualDevices = []string{"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}

// nullDevice: a runtime hides files by mounting /dev/null over them. One that does not
// look what it mounts can be made to mount anything (CVE-2025-31133), which shows in a
// /dev/null, in another device, or in a hidden file, that is another thing.
func nullDevice(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	for _, path := range either("/dev/null") {
		if st, ok := lstat(path); ok {
			looked++
			if !isDevice(st, 1, 3) {
				found = append(found, path+" is not the null device")
			}
		}
	}
	for _, device := range usualDevices {
		if st, ok := lstat(device); ok {
			looked++
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				found = append(found, device+" is an ordinary file")
			}
		}
	}
	for _, m := range kit.KernelMounts() {
		st, ok := lstat(m.Point)
		if !ok || st.Mode&unix.S_IFMT == unix.S_IFDIR || ofKernel(m.Point) {
			continue
		}
		looked++
		if !isDevice(st, 1, 3) {
			found = append(found, m.Point+" is hidden by something else than the null device")
		}
	}
	return condition(found, kit.Count(looked, "place", "places")+" with the null device")
}

// consoleDevice: a runtime mounts a terminal on /dev/console. One that does so before
// the path is safe can be led elsewhere (CVE-2025-52565).
func consoleDevice(context.Context, *probes.Env) manifest.Observation {
	var found []string
	for _, path := range either("/dev/console") {
		if st, ok := lstat(path); ok && st.Mode&unix.S_IFMT != unix.S_IFCHR {
			found = append(found, path+" is not a terminal")
		}
	}
	return condition(found, "the console is a terminal, or there is none")
}

// Magic numbers of file systems that are the kernel's own (statfs(2)).
var kernelSystems = map[int64]bool{unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true}

// ofKernel reports whether a path lies on a file system of the kernel's own.
func ofKernel(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && kernelSystems[int64(st.Type)]
}

// written are files of /proc that a runtime writes to on a container's behalf before it
// starts: labels, settings, id maps.
var written = []string{"/proc/self/attr/exec", "/proc/self/attr/current", "/proc/self/attr/apparmor/exec", "/proc/self/attr/keycreate", "/proc/self/attr/sockcreate",
	"/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/setgroups", "/proc/sys/kernel/domainname", "/proc/sys/net/ipv4/ip_forward"}

// procWrites: where one of them is not the kernel's own, a write that the runtime
// believes to set a label goes wherever the mount leads (CVE-2025-52881).
func procWrites(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	for _, path := range written {
		for _, p := range either(path) {
			if _, err := os.Stat(p); err != nil {
				continue
			}
			looked++
			if !ofKernel(p) {
				found = append(found, p+" is not the kernel's")
			}
		}
	}
	for _, m := range kit.KernelMounts() {
		st, ok := lstat(m.Point)
		if !ok || slices.Contains(written, m.Point) || st.Mode&unix.S_IFMT != unix.S_IFREG || ofKernel(m.Point) {
			continue
		}
		if setting := strings.HasPrefix(m.Point, "/proc/sys/") || m.Point == "/proc/sysrq-trigger" || ofProcess.MatchString(m.Point); setting {
			found = append(found, m.Point+" is not the kernel's")
		}
	}
	return condition(found, kit.Count(looked, "file", "files")+" of the kernel's own")
}

// ofProcess matches what /proc has of a process.
var ofProcess = regexp.MustCompile(`^/proc/(self|thread-self|[0-9]+)/`)

// runtimeProgram: the program of a process that entered from outside is the runtime's
// own, and can be overwritten where it lies on a file system that can be written to
// (CVE-2019-5736). It is opened for writing, and not written. The kernel says that a
// program runs (ETXTBSY) before it looks whether its mount may be written to.
func runtimeProgram(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	list := []string{plant.KernelRoot, "/proc/self"}
	for _, dir := range append(list, kit.Processes()...) {
		path := dir + "/exe"
		target, err := os.Readlink(path)
		switch {
		case dir == plant.KernelRoot:
			if _, err := os.Stat(path); err != nil {
				continue
			}
		case err != nil || strings.HasPrefix(target, "/memfd:") || inRoot(path):
			continue // not to be seen, a copy, or the sandbox's own
		}
		looked++
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		if err == nil || err == unix.ETXTBSY && !readOnly(path) {
			found = append(found, fmt.Sprintf("%s comes from outside and could be overwritten", filepath.Base(dir)+"/exe"))
		}
	}
	return condition(found, kit.Count(looked, "program from outside", "programs from outside"))
}

// readOnly reports whether a file lies on a mount that may not be written to.
func readOnly(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// inRoot reports whether a file lies on the file system of the root.
func inRoot(path string) bool {
	var file, root unix.Stat_t
	return unix.Stat(path, &file) == nil && unix.Stat("/", &root) == nil && file.Dev == root.Dev
}

// madeDevices makes a node for a disk, for memory and for the kernel's messages, and
// opens it: nothing is read, and the node is removed at once.
func madeDevices(context.Context, *probes.Env) manifest.Observation {
	var found []string
	if fd, err := unix.Open(plant.KernelRoot+"/made", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil { // the control's stand-in
		unix.Close(fd)
		found = append(found, "a device")
	}
	var last error
	for i, d := range devicesToMake {
		path := fmt.Sprintf("/tmp/.wallproof-node-%d-%d", os.Getpid(), i)
		if _, err := os.Stat("/tmp"); err != nil {
			path = fmt.Sprintf("/.wallproof-node-%d-%d", os.Getpid(), i)
		}
		if err := unix.Mknod(path, d.kind|0o600, int(unix.Mkdev(d.major, d.minor))); err != nil {
			last = err
			continue
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
			found = append(found, d.name)
		} else {
			last = err
		}
		if err := unix.Unlink(path); err != nil {
			last = err
		}
	}
	if last == nil {
		return condition(found, "no device could be made")
	}
	return condition(found, "no device could be made and opened: "+last.Error())
}

// devicesToMake are those by which a machine is taken (Documentation/admin-guide/devices.txt).
var devicesToMake = []struct {
	name         string
	kind         uint32
	major, minor uint32
}{
	{"a disk", unix.S_IFBLK, 8, 0}, {"a virtual disk", unix.S_IFBLK, 253, 0}, {"a virtual disk", unix.S_IFBLK, 254, 0}, {"an NVMe disk", unix.S_IFBLK, 259, 0},
	{"memory", unix.S_IFCHR, 1, 1}, {"kernel messages", unix.S_IFCHR, 1, 11}, {"I/O ports", unix.S_IFCHR, 1, 4},
}

func lstat(path string) (unix.Stat_t, bool) {
	var st unix.Stat_t
	return st, unix.Lstat(path, &st) == nil
}

func isDevice(st unix.Stat_t, major, minor uint32) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(uint64(st.Rdev)) == major && unix.Minor(uint64(st.Rdev)) == minor
}

// layers: what the image's lower layers hold that its upper ones hide was looked for
// when they were unpacked, since nobody inside sees it.
func layers(_ context.Context, env *probes.Env) manifest.Observation {
	return kit.Told(env.Facts.Local.Layers)
}
