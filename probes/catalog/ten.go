package catalog

func ten() []Technique {
	out := append(tenLocal(), tenNetwork()...)
	for i := range out {
		t := &out[i]
		t.Vector, t.Severity, t.Stage = TEN, Critical, StageWork
		if t.Proof == "" {
			t.Proof = ProofCanary
		}
		if t.Expect == "" {
			t.Expect = ExpectRefusal
		}
		t.Requires = append([]Requirement{NeedsTenant}, t.Requires...)
	}
	return out
}

func tenLocal() []Technique {
	list := []Technique{
		{ID: "TEN-SHARED", Title: "Shared folder", Required: true,
			Description: "Searches folders that several sandboxes may have mounted for the neighbour's files.",
			References:  []string{"CWE-668", "ATT&CK T1080"}},
		{ID: "TEN-CACHE", Title: "Shared cache",
			Description: "Searches build, package and download caches for what the neighbour left there.",
			References:  []string{"CWE-668", "CWE-524"}},
		{ID: "TEN-TMP", Title: "Temporary folders", Required: true,
			Description: "Searches temporary folders for the neighbour's files.",
			References:  []string{"CWE-377", "CWE-668"}},
		{ID: "TEN-SHM", Title: "Shared memory files",
			Description: "Searches the shared memory file system for the neighbour's segments.",
			References:  []string{"CWE-668"}},
		{ID: "TEN-SYSV", Title: "System V shared memory",
			Description: "Attaches to the neighbour's shared memory segments by their key.",
			References:  []string{"CWE-668"}},
		{ID: "TEN-QUEUE", Title: "POSIX message queues", Requires: []Requirement{NeedsQueues},
			Description: "Reads the neighbour's message queue by its name.",
			References:  []string{"CWE-668"}},
		{ID: "TEN-KEYRING", Title: "Kernel keyrings", Requires: []Requirement{NeedsKeyring},
			Description: "Reads the keys that the kernel keeps for a user, which belong to no sandbox.",
			References:  []string{"CWE-668", "ATT&CK T1555"}},
		{ID: "TEN-SOCKET", Title: "Abstract sockets", Required: true,
			Description: "Connects to the neighbour's Unix socket, which has no file and so no file permissions.",
			References:  []string{"CWE-668", "CVE-2020-15257"}},
		{ID: "TEN-PROCESS", Title: "Process table", Required: true,
			Description: "Reads the command lines and environments of the neighbour's processes.",
			References:  []string{"ATT&CK T1057", "CWE-668"}},
		{ID: "TEN-MEMORY", Title: "Process memory",
			Description: "Reads the memory of the neighbour's processes.",
			References:  []string{"ATT&CK T1003.007"}},
		{ID: "TEN-DESCRIPTORS", Title: "Open files",
			Description: "Reads the files that the neighbour's processes have open, deleted ones included.",
			References:  []string{"CWE-403"}},
		{ID: "TEN-ROOT", Title: "The neighbour's root folder",
			Description: "Reads the neighbour's files by way of its processes' root and working folders.",
			References:  []string{"CWE-668"}},
		{ID: "TEN-STALE", Title: "Reused sandbox",
			Description: "Searches home, work and run folders for what an earlier tenant of the same sandbox left.",
			References:  []string{"CWE-226", "CWE-459"}},
		{ID: "TEN-FILES", Title: "Every file", Required: true,
			Description: "Reads every file in the sandbox for what is the neighbour's, wherever it is mounted.",
			References:  []string{"CWE-668", "ATT&CK T1083"}},
		{ID: "TEN-SIGNAL", Title: "Signals", Proof: ProofCondition, Precondition: true,
			Description: "Checks whether a signal could be sent to a process of the neighbour's: to stop it, or to end it.",
			References:  []string{"CWE-668", "ATT&CK T1489"}},
		{ID: "TEN-PTRACE", Title: "Tracing", Proof: ProofCondition, Precondition: true, Requires: []Requirement{NeedsPtrace},
			Description: "Checks whether the neighbour's processes can be traced, and so be made to do anything; lets go at once.",
			References:  []string{"ATT&CK T1055.008", "CWE-668"}},
		{ID: "TEN-VM-READ", Title: "Memory of other processes, by system call", Requires: []Requirement{NeedsProcessVM},
			Description: "Reads the memory of the neighbour's processes by the system call that is made for it, past what /proc refuses.",
			References:  []string{"ATT&CK T1003.007", "CWE-668"}},
		{ID: "TEN-PIDFD", Title: "Descriptors taken over", Requires: []Requirement{NeedsPidfd},
			Description: "Takes open files over from the neighbour's processes by their process descriptors.",
			References:  []string{"CWE-403", "CWE-668"}},
		{ID: "TEN-PRESENCE", Title: "Presence in the page cache", Proof: ProofCondition, Precondition: true, Requires: []Requirement{NeedsPageCache},
			Description: "Looks whether the kernel tells which pages of a file that sandboxes share are in memory, and so what a neighbour has read.",
			References:  []string{"CWE-208", "CVE-2019-5489"}},
	}
	for i := range list {
		list[i].Local, list[i].Variants = true, local
	}
	return list
}

func tenNetwork() []Technique {
	return []Technique{
		{ID: "TEN-TCP", Title: "Neighbour's address, TCP", Required: true, Proof: ProofReach, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6, SocksV4, SocksV6},
			Description: "Connects to the neighbour's address, directly and through the proxy.",
			References:  []string{"ATT&CK T1021", "CWE-668"}},
		{ID: "TEN-UDP", Title: "Neighbour's address, UDP", Proof: ProofReach, Expect: ExpectSilence, Variants: direct,
			Description: "Sends a datagram to the neighbour's address.",
			References:  []string{"ATT&CK T1095"}},
		{ID: "TEN-NAME", Title: "Neighbour's name", Proof: ProofReach, Requires: []Requirement{NeedsNoInternet}, Variants: viaProxy,
			Description: "Asks the proxy for the neighbour by its host name.",
			References:  []string{"CWE-918"}},
		{ID: "TEN-PROXY", Title: "Neighbour's proxy", Required: true, Proof: ProofReach, Requires: []Requirement{NeedsProxy, NeedsAllowedHost}, Variants: direct,
			Description: "Uses the proxy that belongs to the neighbour, and with it the neighbour's rights.",
			References:  []string{"CWE-441", "CWE-668"}},
		{ID: "TEN-CONTROL-API", Title: "Neighbour in the control API", Proof: ProofReach, Requires: []Requirement{NeedsControlAPI}, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Asks the platform's control API for the neighbour's sandbox by its id and by guessed ones.",
			References:  []string{"CWE-639", "CWE-204"}},
		{ID: "TEN-PLACEHOLDER", Title: "Neighbour's placeholder", Required: true, Local: true, Requires: []Requirement{NeedsInjection}, Permits: viaAllowed, Variants: intercepts,
			Description: "Sends the neighbour's placeholder through the own proxy, in the hope that it is swapped for the neighbour's secret.",
			References:  []string{"CWE-639", "CWE-441"}},
		{ID: "TEN-IDENTITY", Title: "Neighbour's identity", Local: true, Requires: []Requirement{NeedsInjection}, Permits: viaAllowed, Variants: intercepts,
			Description: "Tells the own proxy in header fields that it is the neighbour, in the hope of the neighbour's secret.",
			References:  []string{"CWE-290", "CWE-639"}},
		{ID: "TEN-ARP", Title: "Neighbour's address by ARP", Proof: ProofReach, Requires: []Requirement{NeedsOnLink}, Variants: []string{DirectV4},
			Description: "Asks its own network segment for the neighbour's address, past all routes, and sends to whoever answers.",
			References:  []string{"ATT&CK T1557.002", "CWE-668", "RFC 826"}},
		{ID: "TEN-LEASE", Title: "Another sandbox's lease", Local: true, Requires: []Requirement{NeedsBroker}, Permits: viaAllowed, Variants: intercepts,
			Description: "Sends a git credential that this sandbox's proxy has not lent out, as another sandbox's lease is, in the hope that it is passed on.",
			References:  []string{"CWE-639", "ATT&CK T1550.001"}},
		{ID: "TEN-CA", Title: "Another sandbox's authority", Local: true, Proof: ProofCondition, Precondition: true, Requires: []Requirement{NeedsAuthorities}, Variants: local,
			Description: "Checks whether certificates of the neighbour's proxy would be believed here: who holds its key could then stand in for every host.",
			References:  []string{"CWE-295", "ATT&CK T1557"}},
		{ID: "TEN-BUILD-CACHE", Title: "Tag in the shared build cache", Local: true, Proof: ProofReach, Permits: viaPlatform, Variants: tunnels,
			Description: "Pushes a tag into the build cache that all tenants share, with the platform's token, where a tag that is there means that the build is done.",
			References:  []string{"CWE-345", "CWE-349", "ATT&CK T1195.002"}},
	}
}
