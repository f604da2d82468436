package catalog

// envWalls look for what no fixed list of places has: every file, every
// descriptor, and the walls themselves.
func envWalls() []Technique {
	condition := func(id, title, description string, references ...string) Technique {
		return Technique{ID: id, Title: title, Description: description, References: references, Proof: ProofCondition, Precondition: true}
	}
	shared := func(t Technique) Technique {
		t.Requires = []Requirement{NeedsSharedKernel}
		return t
	}
	moduled := func(t Technique) Technique {
		t.Requires = []Requirement{NeedsSharedKernel, NeedsSecurityModule}
		return t
	}
	return []Technique{
		{ID: "ENV-INHERITED", Title: "Inherited descriptors",
			Description: "Reads the files and folders that it was handed open when it was started.", References: []string{"CVE-2024-21626", "CWE-403"}},
		{ID: "ENV-FILES", Title: "Every file", Required: true,
			Description: "Reads every file in the sandbox, wherever it lies and whatever it is called.", References: []string{"ATT&CK T1083", "ATT&CK T1552.001"}},
		{ID: "ENV-IMAGE", Title: "Configuration of the image",
			Description: "Searches the variables, labels and build history that the image carries for secrets.", References: []string{"CWE-538", "ATT&CK T1552.001"}},
		{ID: "ENV-LAYERS", Title: "Lower layers of the image", Proof: ProofCondition,
			Description: "Searches what lower layers of the image hold and higher ones remove or replace: whoever can fetch the image can read it.", References: []string{"CWE-538", "ATT&CK T1552.001", "CWE-540"}},
		condition("ENV-NULL-DEVICE", "What hides the kernel's files", "Checks whether the null device, the other devices that every runtime gives, and what the runtime has hidden are what they should be: a runtime that does not look can be led to mount anything.", "CVE-2025-31133", "CWE-363"),
		condition("ENV-CONSOLE", "The console", "Checks whether the console is a terminal, and not a link or a file to which the runtime's mount was led.", "CVE-2025-52565", "CWE-363"),
		condition("ENV-PROC-WRITES", "Files that the runtime writes to", "Checks whether the kernel's files to which a runtime writes labels and settings are the kernel's own, so that such a write cannot be led elsewhere.", "CVE-2025-52881", "CWE-363"),
		condition("ENV-RUNTIME-PROGRAM", "The runtime's own program", "Checks whether the program of a process that came from outside could be overwritten through /proc.", "CVE-2019-5736", "CWE-668"),
		condition("ENV-MKNOD", "Home-made device nodes", "Makes device nodes for disks and memory, looks whether one can be opened, and removes them at once.", "ATT&CK T1611", "ATT&CK T1006"),
		condition("ENV-CAPABILITIES", "Capabilities beyond the ordinary", "Checks whether a process inside holds, or could regain, a privilege over the kernel, the network below its sockets, or devices.", "ATT&CK T1611", "CWE-250"),
		shared(condition("ENV-SECCOMP", "System-call filter", "Checks whether a filter keeps programs from system calls that reach for the host's kernel.", "ATT&CK T1611", "CWE-693")),
		moduled(condition("ENV-LSM", "Security module", "Checks whether a security module of the kernel (AppArmor, SELinux, Smack) knows the process by a label that confines it.", "ATT&CK T1611", "CWE-693")),
		condition("ENV-NEW-PRIVS", "Raised privileges", "Checks whether a set-user-id program inside could raise its privileges.", "ATT&CK T1548.001", "CWE-250"),
		shared(condition("ENV-HOST-ROOT", "Root of the host", "Checks whether root inside is the same user as root of the host.", "ATT&CK T1611", "CWE-250")),
		shared(condition("ENV-NAMESPACES", "Namespaces of the host", "Checks whether processes inside share a namespace with the host: its process numbers, queues, names, control groups, mounts or network.", "ATT&CK T1611", "CWE-653")),
		condition("ENV-DEVICE-NODES", "Devices of the host", "Checks whether there is a device node beyond those of every sandbox.", "ATT&CK T1006", "ATT&CK T1611"),
		shared(condition("ENV-MASKED", "Hidden files of the kernel", "Checks whether files about the machine's memory, timers and keys, which no namespace divides, can be read.", "ATT&CK T1082", "CWE-200")),
	}
}
