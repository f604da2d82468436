package bundle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// hostsFile gives names their addresses before any resolver is asked.
const hostsFile = "hosts"

// etcFiles are generated for every sandbox and mounted read-only; the hosts file
// only where it is not to be the sandbox's own.
var etcFiles = []string{"resolv.conf", hostsFile, "hostname"}

// Hostname is the sandbox's host name.
func Hostname(spec sandbox.Spec) string {
	if spec.Hostname != "" {
		return spec.Hostname
	}
	return "sandbox"
}

// WriteEtc writes the files that are mounted at /etc; base is the host id that
// they belong to.
func (d Dir) WriteEtc(spec sandbox.Spec, base uint32) error {
	for name, content := range etcContent(spec) {
		path := filepath.Join(d.Etc(), name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
		if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
		if err := os.Chown(path, int(base), int(base)); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	return nil
}

// etcContent is the content of each of etcFiles.
func etcContent(spec sandbox.Spec) map[string]string {
	var resolv, hosts strings.Builder
	for _, a := range spec.DNS {
		fmt.Fprintf(&resolv, "nameserver %s\n", a)
	}
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 %s\n", Hostname(spec))
	for _, name := range slices.Sorted(maps.Keys(spec.Hosts)) {
		fmt.Fprintf(&hosts, "%s %s\n", spec.Hosts[name], name)
	}
	return map[string]string{"resolv.conf": resolv.String(), hostsFile: hosts.String(), "hostname": Hostname(spec) + "\n"}
}

// OwnHosts is the hosts file of a sandbox that has one of its own, "" for one over
// which the generated file is mounted.
func OwnHosts(spec sandbox.Spec) string {
	if !spec.OwnHosts {
		return ""
	}
	return etcContent(spec)[hostsFile]
}
