package catalog

// beside is an attempt that is made in a sandbox of its own while the image's own
// program runs there. Nothing that is said inside counts for such a sandbox: the
// program may have forged it, or killed who would have said it.
func beside(v Vector, s Severity, id, title, description string, variants []string, requires ...Requirement) Technique {
	return Technique{ID: id, Vector: v, Severity: s, Title: title, Description: description, Requires: requires, Required: true,
		Proof: ProofReach, Expect: ExpectRefusal, ImageCode: true, Stage: StageImage, Variants: variants,
		References: []string{"ATT&CK T1204.003", "ATT&CK T1562"}}
}

func netBeside() Technique {
	return beside(NET, Critical, "NET-BESIDE", "Direct TCP beside the image's program",
		"Opens a connection to the internet while the image's own program runs in the same sandbox and may do what it likes to the wall or to the probe.",
		[]string{DirectV4, DirectV6, ConnectV4}, NeedsNoInternet)
}

func imdBeside() Technique {
	return beside(IMD, Critical, "IMD-BESIDE", "Metadata beside the image's program",
		"Asks the AWS metadata service for credentials while the image's own program runs in the same sandbox.", direct, NeedsNoMetadata)
}

func latBeside() Technique {
	return beside(LAT, High, "LAT-BESIDE", "Private ranges beside the image's program",
		"Connects to a machine in a private range while the image's own program runs in the same sandbox.", direct, NeedsNoPrivate)
}
