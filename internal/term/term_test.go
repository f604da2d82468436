package term

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// An error may quote what somebody hostile wrote: nothing of it acts on a terminal or
// is a command to a CI system that reads the log.
func TestErrorIsOnlyText(t *testing.T) {
	var b bytes.Buffer
	Error(&b, errors.New("packet-file-name: x\n::stop-commands::a\n \t ::error::forged\n##[set-output name=a]\r\n::add-mask::b\x1b[2J\u202e\v::c"))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 5 {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "::") || strings.Contains(l, "##") || strings.ContainsAny(l, "\x1b\u202e\r\v\t") {
			t.Errorf("prints %q", l)
		}
	}
}
