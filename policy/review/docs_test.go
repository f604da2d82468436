package review

import (
	"os"
	"strings"
	"testing"
)

// The documentation names every code and kind.
func TestCodesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{string(Reachable), string(Unreachable), string(Injected), string(NotInjected), string(Changed)}
	for _, c := range []Code{
		CodeDead, CodeNoEffect, CodeShadowed, CodeOverBroad, CodeNothing, CodeUnknownDomain, CodeApex, CodeRangeRequests, CodeOpens,
		CodeOpensMetadata, CodeUnreached, CodeUnused, CodeCleartext, CodeWidePush, CodeKeyVariable, CodeModelOnly, CodeFailsOpen, CodeSearch,
	} {
		words = append(words, string(c))
	}
	for _, w := range words {
		if !strings.Contains(string(data), "`"+w+"`") {
			t.Errorf("%s is not documented", w)
		}
	}
}
