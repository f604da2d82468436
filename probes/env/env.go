// Package env holds the attempts of the vector ENV: what can be read inside a
// sandbox that belongs to its host. What each one means is in probes/catalog.
package env

import (
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

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
		"ENV-SERVICE-ACCOUNT": kit.OrLike(serviceAccounts, `/secrets?/|service[-_]?account|/token$`),
		"ENV-SYSTEM":          kit.OrLike(globs(systemFiles...), `^/(etc|boot|usr/local/etc|var/lib/(kubelet|rancher|docker|containerd|etcd|private|sss|dhcp|NetworkManager))/`),
		"ENV-PROFILE":         kit.OrLike(globs(profileFiles...), `(profile|rc|env|environment|login|logout|\.service|\.sh)$|/(default|sysconfig|credentials|environment\.d|profile\.d)/|\.d/[^/]*\.conf$`),
		"ENV-CLOUD-INIT":      kit.OrLike(globs(cloudFiles...), `(?i)/[^/]*(cloud|waagent|user-?data|meta-?data|vendor-?data|ec2|azure|google|ovf-?env|config-?drive)[^/]*`),
		"ENV-APP":             kit.OrLike(applications, `^/(app|opt|srv|config|workspace|data|usr/(src|local|share)|var/(www|lib))/|^/home/[^/]+/[^.]`),
		"ENV-BACKUPS":         kit.OrLike(globs(backupFiles...), `(?i)(~|\.(bak|backup|bkp|old|orig|save|prev|copy|dump|dmp|sql|tar|tgz|tbz2?|txz|gz|bz2|xz|zst|zip|7z|rar|swp))([.-]?\d+)?$|/[^/]*back-?ups?[^/]*(/|$)`),
		"ENV-LOGS":            kit.OrLike(trees("/var/log"), `(?i)/logs?/|\.(log|journal|out|err)([.-][^/]*)?$`),
		"ENV-JOBS":            kit.OrLike(trees("/var/spool", "/etc/cron.d", "/var/mail", "/etc/crontab"), `(?i)/[^/]*(cron|crontab)[^/]*(/|$)|/(spool|mail|mqueue|at|atjobs)/|\.timer$`),
		"ENV-RUN":             kit.OrLike(trees("/run"), `^/(var/)?(run|lock)/`),
		"ENV-KEY-SHAPES":      keyShapes,

		"ENV-INHERITED":    inherited,
		"ENV-FILES":        everything,
		"ENV-IMAGE":        imageText,
		"ENV-CAPABILITIES": capabilities,
		"ENV-SECCOMP":      systemCalls,
		"ENV-NEW-PRIVS":    newPrivileges,
		"ENV-HOST-ROOT":    hostRoot,
		"ENV-DEVICE-NODES": deviceNodes,
		"ENV-NAMESPACES":   namespaces,
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
		"ENV-SYSRQ":         writable([]string{"proc/sysrq-trigger", "sys/power/state", "proc/sys/kernel/panic", "proc/irq/default_smp_affinity", "proc/bus/pci/*/*", "proc/fs/*/*"}, "proc/sys/kernel/sysrq"),
		"ENV-BOOT":          readable("proc/cmdline", "proc/config.gz", "proc/device-tree/chosen/*", "sys/firmware/qemu_fw_cfg/by_name/*/*/raw", "sys/firmware/efi/efivars/*", "sys/class/dmi/id/*"),
	}
}
