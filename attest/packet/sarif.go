package packet

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

const sarifVersion = "2.1.0"

// sarifCritical is the security-severity (a CVSS base score) from which a
// result is critical, as code scanning services read it.
const sarifCritical = 9.0

// sarifLog is what is read of SARIF 2.1.0.
type sarifLog struct {
	Runs []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	AutomationDetails struct {
		ID string `json:"id"`
	} `json:"automationDetails"`
	Invocations []struct {
		EndTimeUTC string `json:"endTimeUtc"`
	} `json:"invocations"`
	Artifacts []sarifArtifact `json:"artifacts"`
	Results   []sarifResult   `json:"results"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID         string          `json:"id"`
	Properties sarifProperties `json:"properties"`
}

type sarifProperties struct {
	SecuritySeverity string `json:"security-severity"`
}

type sarifArtifact struct {
	Roles  []string          `json:"roles"`
	Hashes map[string]string `json:"hashes"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	Kind         string            `json:"kind"`
	Level        string            `json:"level"`
	Properties   sarifProperties   `json:"properties"`
	Suppressions []sarifSuppressed `json:"suppressions"`
}

type sarifSuppressed struct {
	Kind string `json:"kind"`
}

// parseSARIF maps a SARIF log with one run to a red-team result:
//
//	engagement       automationDetails.id, else the tool's name
//	target           sha-256 of the one artifact with role analysisTarget
//	criticalEscapes  results of kind "fail" (the default) whose security-severity,
//	                 their own or their rule's, is 9.0 or more; without one, those
//	                 of level "error". Suppressed results count too: a suppression
//	                 is the producer's opinion.
//	lastRun          end time of the last invocation
func parseSARIF(data []byte) (predicate.RedTeam, error) {
	var log sarifLog
	if _, err := canon.UnmarshalJSON(data, canon.Limits{Bytes: MaxRedTeamBytes}, &log); err != nil {
		return predicate.RedTeam{}, err
	}
	if len(log.Runs) != 1 {
		return predicate.RedTeam{}, errors.New("a SARIF log must have exactly one run")
	}
	run := log.Runs[0]
	t := predicate.RedTeam{Engagement: run.AutomationDetails.ID, ResultDigest: predicate.Digest(data)}
	if t.Engagement == "" {
		t.Engagement = run.Tool.Driver.Name
	}
	for _, a := range run.Artifacts {
		if !slices.Contains(a.Roles, "analysisTarget") {
			continue
		}
		if t.Target != "" {
			return predicate.RedTeam{}, errors.New("more than one artifact has the role analysisTarget")
		}
		t.Target = "sha256:" + strings.ToLower(a.Hashes["sha-256"])
	}
	if n := len(run.Invocations); n > 0 {
		t.LastRun = run.Invocations[n-1].EndTimeUTC
	}
	for _, r := range run.Results {
		if run.critical(r) {
			t.CriticalEscapes++
		}
	}
	return t, nil
}

func (run sarifRun) critical(r sarifResult) bool {
	if r.Kind != "" && r.Kind != "fail" {
		return false
	}
	severity := r.Properties.SecuritySeverity
	for _, rule := range run.Tool.Driver.Rules {
		if severity == "" && rule.ID == r.RuleID {
			severity = rule.Properties.SecuritySeverity
		}
	}
	if severity == "" {
		return r.Level == "error"
	}
	score, err := strconv.ParseFloat(severity, 64)
	// A severity that cannot be read is taken for the worst.
	return err != nil || !(score < sarifCritical)
}
