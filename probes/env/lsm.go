package env

import (
	"bytes"
	"context"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// labelFiles are where the kernel says by what label a security module knows a process.
var labelFiles = append(either("/proc/self/attr/current"), either("/proc/self/attr/apparmor/current")...)

// securityModule looks whether a security module of the kernel's (AppArmor, SELinux,
// Smack) knows this process by a label, and confines it by that.
func securityModule(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	for _, path := range labelFiles {
		b, err := kit.ReadHead(path, 4<<10)
		if err != nil {
			continue
		}
		looked++
		if label := strings.TrimSpace(string(bytes.TrimRight(b, "\x00\n"))); !confines(label) {
			found = append(found, path+" says "+label)
		}
	}
	return condition(found, kit.Count(looked, "label confines", "labels confine"))
}

// confines tells whether a label is one under which a module refuses anything: a
// profile of AppArmor's that is enforced, or a context of SELinux's other than those of
// what it leaves alone.
func confines(label string) bool {
	if profile, mode, ok := strings.Cut(label, " ("); ok { // AppArmor: "profile (mode)"
		return profile != "unconfined" && (mode == "enforce)" || mode == "kill)" || mode == "prompt)")
	}
	fields := strings.Split(label, ":") // SELinux: user:role:type:level
	if len(fields) < 3 {
		return false
	}
	switch kind := fields[2]; kind {
	case "unconfined_t", "spc_t", "kernel_t", "init_t", "initrc_t", "container_runtime_t", "unconfined_service_t":
		return false
	}
	return true
}
