package verify

// Verify checks evidence and reports every line. It never returns early for
// want of one check, and it never uses bytes that it did not authenticate.
func Verify(in Input) Report {
	v := &verification{in: in}
	v.run()
	v.report.Verdict = v.report.verdict()
	return v.report
}

// verification is the state of one Verify.
type verification struct {
	in     Input
	report Report
}

func (v *verification) run() {
	v.fail(CheckParse, CodeBundleMissing, "there is no attestation", "")
}

func (v *verification) add(name string, s Status, code Code, message, evidence string) {
	v.report.Checks = append(v.report.Checks, Check{Name: name, Status: s, Code: code, Message: message, Evidence: evidence})
}

func (v *verification) fail(name string, code Code, message, evidence string) {
	v.add(name, Fail, code, message, evidence)
}
