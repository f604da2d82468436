// Package env holds the attempts of the vector ENV: what can be read inside a
// sandbox that belongs to its host. What each one means is in probes/catalog.
package env

import "github.com/wallproof/wallproof/probes"

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"ENV-ENVIRON":     environs,
		"ENV-TASKS":       tasks,
		"ENV-CMDLINE":     commandLines,
		"ENV-MEMORY":      memory,
		"ENV-DESCRIPTORS": descriptors,
		"ENV-DIRECTORIES": directories,
		"ENV-ROOT":        roots,
		"ENV-AGENT":       keyAgents,

		"ENV-MOUNTS":          mounts,
		"ENV-DEVICES":         devices,
		"ENV-ORCHESTRATOR":    orchestrator,
		"ENV-SERVICE-ACCOUNT": serviceAccounts,
		"ENV-SYSTEM":          globs(systemFiles...),
		"ENV-PROFILE":         globs(profileFiles...),
		"ENV-CLOUD-INIT":      globs(cloudFiles...),
		"ENV-APP":             applications,
		"ENV-BACKUPS":         globs(backupFiles...),
		"ENV-LOGS":            trees("/var/log"),
		"ENV-JOBS":            trees("/var/spool", "/etc/cron.d", "/var/mail", "/etc/crontab"),
		"ENV-RUN":             trees("/run"),
		"ENV-KEY-SHAPES":      keyShapes,

		"ENV-INHERITED":    inherited,
		"ENV-FILES":        everything,
		"ENV-IMAGE":        imageText,
		"ENV-CAPABILITIES": capabilities,
		"ENV-SECCOMP":      systemCalls,
		"ENV-NEW-PRIVS":    newPrivileges,
		"ENV-HOST-ROOT":    hostRoot,
		"ENV-DEVICE-NODES": deviceNodes,
		"ENV-MASKED":       hiddenFiles,

		"ENV-NULL-DEVICE":     nullDevice,
		"ENV-CONSOLE":         consoleDevice,
		"ENV-PROC-WRITES":     procWrites,
		"ENV-RUNTIME-PROGRAM": runtimeProgram,
		"ENV-MKNOD":           madeDevices,
		"ENV-LAYERS":          layers,
		"ENV-LSM":             securityModule,

		"ENV-CORE-PATTERN":  writable([]string{"proc/sys/kernel/core_pattern"}, "proc/sys/fs/suid_dumpable"),
		"ENV-RELEASE-AGENT": writable([]string{"sys/fs/cgroup/release_agent", "sys/fs/cgroup/*/release_agent"}),
		"ENV-BINFMT":        writable([]string{"proc/sys/fs/binfmt_misc/register"}),
		"ENV-MODPROBE":      writable([]string{"proc/sys/kernel/modprobe", "proc/sys/kernel/hotplug", "sys/kernel/uevent_helper", "proc/sys/kernel/poweroff_cmd"}),
		"ENV-SYSRQ":         writable([]string{"proc/sysrq-trigger", "sys/power/state", "proc/sys/kernel/panic"}, "proc/sys/kernel/sysrq"),
		"ENV-BOOT":          readable("proc/cmdline", "proc/config.gz", "proc/device-tree/chosen/*", "sys/firmware/qemu_fw_cfg/by_name/*/*/raw", "sys/firmware/efi/efivars/*", "sys/class/dmi/id/*"),
	}
}
