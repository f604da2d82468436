package render

import (
	"io"
	"slices"

	"github.com/wallproof/wallproof/verify"
)

// Documents of SARIF 2.1.0, as far as a report needs them.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID        string     `json:"id"`
	ShortDesc sarifText  `json:"shortDescription"`
	Help      *sarifText `json:"help,omitempty"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Kind      string          `json:"kind"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifLogical struct {
	Name string `json:"name"`
}

// sarifKinds maps a status to a SARIF kind and level. Only kind "fail" may have
// another level than "none".
var sarifKinds = map[verify.Status][2]string{
	verify.Pass:       {"pass", "none"},
	verify.Fail:       {"fail", "error"},
	verify.Held:       {"fail", "warning"},
	verify.NotChecked: {"notApplicable", "none"},
}

// SARIF writes a report as SARIF 2.1.0: a rule a reason code, a result a line.
func SARIF(w io.Writer, r verify.Report, o Options) error {
	driver := sarifDriver{Name: "wallproof", Version: o.Version, InformationURI: "https://github.com/wallproof/wallproof", Rules: []sarifRule{}}
	results := []sarifResult{}
	for _, c := range r.Checks {
		kind := sarifKinds[c.Status]
		result := sarifResult{RuleID: string(c.Code), Kind: kind[0], Level: kind[1], Message: sarifText{c.Message}}
		result.RuleIndex = slices.IndexFunc(driver.Rules, func(rule sarifRule) bool { return rule.ID == string(c.Code) })
		if result.RuleIndex < 0 {
			result.RuleIndex = len(driver.Rules)
			driver.Rules = append(driver.Rules, ruleFor(c.Code))
		}
		if o.Artifact != "" {
			location := sarifLocation{Physical: sarifPhysical{sarifArtifact{o.Artifact}}}
			if c.Evidence != "" {
				location.Logical = []sarifLogical{{c.Evidence}}
			}
			result.Locations = []sarifLocation{location}
		}
		results = append(results, result)
	}
	return writeJSON(w, sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{{Tool: sarifTool{driver}, Results: results}},
	})
}

func ruleFor(code verify.Code) sarifRule {
	rule := sarifRule{ID: string(code), ShortDesc: sarifText{string(code)}}
	if doc, ok := verify.ReasonFor(code); ok {
		rule.ShortDesc.Text = doc.Meaning
		if doc.Next != "" {
			rule.Help = &sarifText{doc.Next}
		}
	}
	return rule
}
