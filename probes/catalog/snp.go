package catalog

func snp() []Technique {
	list := []Technique{
		{ID: "SNP-FILE", Title: "Files", Required: true,
			Description: "Searches the file system for files of the earlier run.", References: []string{"CWE-226"}},
		{ID: "SNP-TMPFS", Title: "Files in memory", Required: true,
			Description: "Searches temporary and shared memory file systems for files of the earlier run.", References: []string{"CWE-226"}},
		{ID: "SNP-DELETED", Title: "Deleted files still open",
			Description: "Reads files of the earlier run that were deleted but that a process still has open.", References: []string{"CWE-459"}},
		{ID: "SNP-MEMORY", Title: "Process memory", Required: true,
			Description: "Reads the memory of processes that were restored.", References: []string{"CWE-244", "ATT&CK T1003.007"}},
		{ID: "SNP-ENVIRON", Title: "Environment", Required: true,
			Description: "Reads the environment and command lines of processes that were restored.", References: []string{"CWE-526"}},
		{ID: "SNP-SHM", Title: "Shared memory",
			Description: "Attaches to System V segments of the earlier run.", References: []string{"CWE-226"}},
		{ID: "SNP-SOCKET", Title: "Sockets",
			Description: "Connects to Unix sockets of processes of the earlier run.", References: []string{"CWE-668"}},
		{ID: "SNP-PIPE", Title: "Bytes in a pipe",
			Description: "Reads what was written to a pipe in the earlier run and not yet read.", References: []string{"CWE-226"}},
		{ID: "SNP-LAYER", Title: "Program and data folders",
			Description: "Searches the folders that come from the image for what the earlier run wrote into them.", References: []string{"CWE-459"}},
		{ID: "SNP-CORE", Title: "Core dumps and crash reports",
			Description: "Searches for core dumps and crash reports of the earlier run.", References: []string{"CWE-528"}},
		{ID: "SNP-CHECKPOINT", Title: "The checkpoint itself",
			Description: "Searches for the file that the sandbox was restored from, and looks into it.", References: []string{"CWE-312"}},
		{ID: "SNP-HISTORY", Title: "Histories and editor files",
			Description: "Searches shell histories, editor swap files and backups of the earlier run.", References: []string{"ATT&CK T1552.003"}},
		{ID: "SNP-EVERY-FILE", Title: "Every file", Required: true,
			Description: "Reads every file in the sandbox, wherever the earlier run may have put one.", References: []string{"CWE-226", "ATT&CK T1083"}},
		{ID: "SNP-SWAP", Title: "Swap",
			Description: "Searches swap files and devices for memory of the earlier run.", References: []string{"CWE-313", "CWE-226"}},
		{ID: "SNP-CORE-PATTERN", Title: "Where the kernel puts core dumps",
			Description: "Reads from the kernel where core dumps are put, and searches them there.", References: []string{"CWE-528"}},
		{ID: "SNP-ARCHIVE", Title: "What a restored archive plants",
			Description: "Looks for set-user-id programs, device nodes and links that the earlier run has left to be restored.", References: []string{"CWE-22", "CWE-59", "CWE-732"}},
		{ID: "SNP-IMAGE", Title: "Image made of the earlier run",
			Description: "Searches the image's configuration and history and what its layers hide for what an earlier run had when it was made.", References: []string{"CWE-538", "CWE-226"}},
	}
	for i := range list {
		list[i].Proof, list[i].Variants = ProofCanary, []string{VariantFresh, VariantRestored}
	}
	list = append(list, Technique{ID: "SNP-AT-REST", Title: "Credentials in the checkpoint", Proof: ProofCanary, Variants: []string{VariantRestored},
		Description: "Searches the checkpoint's own files, as they lie on disk, for credentials in clear.", References: []string{"CWE-312", "CWE-313"}})
	list = append(list, Technique{ID: "SNP-RANDOM", Title: "Random state", Proof: ProofCondition, Variants: []string{VariantRestored},
		Description: "Draws random bytes in two sandboxes restored from one snapshot: keys made from equal bytes are everybody's.", References: []string{"CWE-335", "CWE-331"}})
	for i := range list {
		t := &list[i]
		t.Vector, t.Severity, t.Stage = SNP, High, StageFresh
		t.Local, t.Expect = true, ExpectRefusal
	}
	return list
}
