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
	}
}
