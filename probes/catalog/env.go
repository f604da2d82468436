package catalog

func env() []Technique {
	list := append(envProcesses(), envFiles()...)
	list = append(append(list, envKernel()...), envWalls()...)
	for i := range list {
		t := &list[i]
		t.Vector, t.Stage = ENV, StageWork
		t.Local, t.Expect, t.Variants = true, ExpectRefusal, local
		if t.Proof == "" {
			t.Proof = ProofCanary
		}
		// Reading one's own sandbox is worth little; a canary of the host is worth
		// the host.
		t.Severity = Medium
	}
	return list
}

func envProcesses() []Technique {
	return []Technique{
		{ID: "ENV-ENVIRON", Title: "Environments of other processes", Required: true,
			Description: "Reads the environment of every process in sight for something of the host.", References: []string{"ATT&CK T1057", "CWE-526"}},
		{ID: "ENV-TASKS", Title: "Environments of threads",
			Description: "Reads environments by way of a process's threads, where a rule for processes may not apply.", References: []string{"CWE-526"}},
		{ID: "ENV-CMDLINE", Title: "Command lines of other processes",
			Description: "Reads the command line of every process in sight for something of the host.", References: []string{"ATT&CK T1057", "CWE-214"}},
		{ID: "ENV-MEMORY", Title: "Memory of other processes", Required: true,
			Description: "Reads the memory of every process in sight for something of the host.", References: []string{"ATT&CK T1003.007"}},
		{ID: "ENV-DESCRIPTORS", Title: "Files that others have open",
			Description: "Reads the files that other processes have open, deleted ones included.", References: []string{"CWE-403"}},
		{ID: "ENV-DIRECTORIES", Title: "Folders that others have open", Required: true,
			Description: "Goes up from folders that a process has open or works in, out of the sandbox's root.", References: []string{"CVE-2024-21626", "CWE-403"}},
		{ID: "ENV-ROOT", Title: "Root folders of other processes", Required: true,
			Description: "Reads the host's files by way of other processes' root folders.", References: []string{"ATT&CK T1611"}},
		{ID: "ENV-AGENT", Title: "Key agents",
			Description: "Looks for the sockets of SSH and GPG agents and asks them for what they hold.", References: []string{"ATT&CK T1552.004", "ATT&CK T1563.001"}},
	}
}

func envFiles() []Technique {
	return []Technique{
		{ID: "ENV-MOUNTS", Title: "Mounted host folders", Required: true,
			Description: "Searches everything that is mounted into the sandbox for files of the host.", References: []string{"ATT&CK T1611", "CWE-668"}},
		{ID: "ENV-DEVICES", Title: "Device nodes", Required: true,
			Description: "Reads the beginning of every disk and memory device in sight.", References: []string{"ATT&CK T1006", "ATT&CK T1611"}},
		{ID: "ENV-ORCHESTRATOR", Title: "Token of the platform itself", Required: true,
			Description: "Looks for the token with which the platform steers its sandboxes, in variables and files.", References: []string{"ATT&CK T1552.007", "CWE-522"}},
		{ID: "ENV-SERVICE-ACCOUNT", Title: "Service-account tokens", Required: true,
			Description: "Reads the tokens that orchestrators mount into containers.", References: []string{"ATT&CK T1552.007", "ATT&CK T1528"}},
		{ID: "ENV-SYSTEM", Title: "System credential files",
			Description: "Reads password, host key, cluster and node configuration files.", References: []string{"ATT&CK T1552.001", "ATT&CK T1003.008"}},
		{ID: "ENV-PROFILE", Title: "Environment files",
			Description: "Reads the files that set variables at login or for services.", References: []string{"ATT&CK T1552.001"}},
		{ID: "ENV-CLOUD-INIT", Title: "Cloud start-up data",
			Description: "Reads what a cloud's start-up scripts leave on a machine.", References: []string{"ATT&CK T1552.001"}},
		{ID: "ENV-APP", Title: "Application folders",
			Description: "Searches application and configuration folders for secrets.", References: []string{"ATT&CK T1552.001", "CWE-540"}},
		{ID: "ENV-LOGS", Title: "System logs",
			Description: "Searches the logs of services and of the system for secrets.", References: []string{"ATT&CK T1552.001", "CWE-532"}},
		{ID: "ENV-JOBS", Title: "Scheduled jobs and mail",
			Description: "Reads the tables of scheduled jobs and local mail.", References: []string{"ATT&CK T1053.003"}},
		{ID: "ENV-RUN", Title: "Run folder",
			Description: "Searches the folder in which running services keep their state.", References: []string{"ATT&CK T1552.001"}},
		{ID: "ENV-KEY-SHAPES", Title: "Strings in the shape of keys",
			Description: "Searches configuration for strings in the shape of known providers' keys and of private keys.", References: []string{"ATT&CK T1552.001", "ATT&CK T1552.004"}},
		{ID: "ENV-BACKUPS", Title: "Backups",
			Description: "Reads backups and leftover copies of configuration files.", References: []string{"ATT&CK T1552.001", "CWE-530"}},
	}
}

// envKernel are checks for the conditions of escapes that are not made: a file
// that could be written is opened for writing, and not written. Their control is
// a look-alike below plant.KernelRoot.
func envKernel() []Technique {
	list := []Technique{
		{ID: "ENV-CORE-PATTERN", Title: "Core dump handler",
			Description: "Checks whether the program that handles crashes on the host could be replaced.", References: []string{"ATT&CK T1611"}},
		{ID: "ENV-RELEASE-AGENT", Title: "Control group release agent",
			Description: "Checks whether the program that the host runs when a control group empties could be replaced.", References: []string{"CVE-2022-0492", "ATT&CK T1611"}},
		{ID: "ENV-BINFMT", Title: "Binary format handlers",
			Description: "Checks whether an interpreter could be registered with the host's kernel.", References: []string{"ATT&CK T1611"}},
		{ID: "ENV-MODPROBE", Title: "Kernel helper programs",
			Description: "Checks whether the programs that the host's kernel starts by itself could be replaced.", References: []string{"ATT&CK T1611", "ATT&CK T1547.006"}},
		{ID: "ENV-SYSRQ", Title: "Kernel triggers",
			Description: "Checks whether the host could be crashed or restarted from inside.", References: []string{"ATT&CK T1499"}},
		{ID: "ENV-BOOT", Title: "Boot parameters and firmware",
			Description: "Reads the kernel's command line and what firmware and hypervisor hand to a machine.", References: []string{"ATT&CK T1082"}},
	}
	for i := range list {
		if list[i].ID != "ENV-BOOT" {
			list[i].Precondition, list[i].Proof = true, ProofCondition
		}
	}
	return list
}
