package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/wallproof/wallproof/verify"
)

// GitHub writes workflow commands, so that lines that fail or hold stand as
// annotations beside a run.
func GitHub(w io.Writer, r verify.Report) error {
	for _, c := range r.Failed() {
		level := "warning"
		if c.Status == verify.Fail {
			level = "error"
		}
		title := githubProperty.Replace(fmt.Sprintf("wallproof %s: %s", c.Name, c.Code))
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, title, githubData.Replace(c.Message)); err != nil {
			return err
		}
	}
	return nil
}

// Escapes of GitHub's workflow commands.
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// gitlabIssue is one entry of GitLab's code quality report.
type gitlabIssue struct {
	Description string         `json:"description"`
	CheckName   string         `json:"check_name"`
	Fingerprint string         `json:"fingerprint"`
	Severity    string         `json:"severity"`
	Location    gitlabLocation `json:"location"`
}

type gitlabLocation struct {
	Path  string      `json:"path"`
	Lines gitlabLines `json:"lines"`
}

type gitlabLines struct {
	Begin int `json:"begin"`
}

// GitLab writes a code quality report with the lines that fail or hold.
func GitLab(w io.Writer, r verify.Report, o Options) error {
	issues := []gitlabIssue{}
	for _, c := range r.Failed() {
		severity := "major"
		if c.Status == verify.Fail {
			severity = "blocker"
		}
		path := c.Evidence
		if path == "" {
			path = o.Artifact
		}
		issues = append(issues, gitlabIssue{
			Description: c.Message, CheckName: string(c.Code), Severity: severity,
			Fingerprint: fingerprint(c), Location: gitlabLocation{Path: path, Lines: gitlabLines{1}},
		})
	}
	return writeJSON(w, issues)
}

// fingerprint names an issue the same way in every run.
func fingerprint(c verify.Check) string {
	sum := sha256.Sum256([]byte(c.Name + "\x00" + string(c.Code) + "\x00" + c.Evidence + "\x00" + c.Message))
	return hex.EncodeToString(sum[:16])
}
