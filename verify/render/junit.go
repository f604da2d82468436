package render

import (
	"encoding/xml"
	"io"

	"github.com/wallproof/wallproof/verify"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitResult `xml:"failure,omitempty"`
	Error   *junitResult `xml:"error,omitempty"`
	Skipped *junitResult `xml:"skipped,omitempty"`
}

type junitResult struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes a report as a JUnit test suite: a line that fails is an error,
// one that holds a failure, one that was not checked is skipped.
func JUnit(w io.Writer, r verify.Report, o Options) error {
	suite := junitSuite{Name: "wallproof verify", Tests: len(r.Checks), Time: r.Times.Checked}
	if o.Artifact != "" {
		suite.Name += " " + o.Artifact
	}
	for _, c := range r.Checks {
		tc := junitCase{Class: "wallproof." + c.Name, Name: string(c.Code)}
		res := &junitResult{Type: string(c.Code), Message: c.Message, Text: c.Evidence}
		switch c.Status {
		case verify.Fail:
			tc.Error = res
			suite.Errors++
		case verify.Held:
			tc.Failure = res
			suite.Failures++
		case verify.NotChecked:
			res.Type = ""
			tc.Skipped = res
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, tc)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
