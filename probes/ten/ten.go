// Package ten holds the attempts of the vector TEN: ways to another tenant's
// sandbox. What each one means is in probes/catalog.
package ten

import (
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"TEN-SHARED":      shared,
		"TEN-CACHE":       kit.OrLike(caches, `(?i)/[^/]*cache[^/]*/`),
		"TEN-TMP":         kit.OrLike(temporary, `(?i)/\.?te?mp/`),
		"TEN-SHM":         kit.OrLike(sharedMemory, `/shm/`),
		"TEN-SYSV":        segments,
		"TEN-SOCKET":      abstractSocket,
		"TEN-QUEUE":       queue,
		"TEN-KEYRING":     keyring,
		"TEN-PROCESS":     processes,
		"TEN-MEMORY":      memory,
		"TEN-DESCRIPTORS": descriptors,
		"TEN-ROOT":        roots,
		"TEN-STALE":       kit.OrLike(stale, `^/(root|home|workspace|run|srv|opt|app|data|var)/`),
		"TEN-FILES":       everything,
		"TEN-SIGNAL":      signal,
		"TEN-PTRACE":      trace,
		"TEN-VM-READ":     remoteMemory,
		"TEN-PIDFD":       processHandles,
		"TEN-PRESENCE":    presence,

		"TEN-TCP":         tcp,
		"TEN-UDP":         udp,
		"TEN-NAME":        byName,
		"TEN-PROXY":       otherProxy,
		"TEN-CONTROL-API": controlAPI,
		"TEN-PLACEHOLDER": placeholder,
		"TEN-IDENTITY":    identity,
		"TEN-BUILD-CACHE": buildCache,
		"TEN-ARP":         byHardware,
		"TEN-LEASE":       otherLease,
		"TEN-CA":          authority,
	}
}
