package main

import (
	"slices"
	"strings"
	"testing"
)

// B19: what is passed by --env is taken out of the arguments, however the flag is
// written, and nothing else is.
func TestB19ArgumentsAreMasked(t *testing.T) {
	for _, tt := range []struct{ in, masked string }{
		{"exec -e K=secret -- a", "exec -e K=****** -- a"},
		{"exec --env K=secret --env L=x=y -- a", "exec --env K=****** --env L=*** -- a"},
		{"exec --env=K=secret -- a", "exec --env=K=****** -- a"},
		{"exec -e=K=secret -- a", "exec -e=K=****** -- a"},
		{"exec -env K=secret -- a", "exec -env K=****** -- a"},
		{"exec -e NAME -e K= -- a", "exec -e NAME -e K= -- a"},
		{"exec --user 5 -- prog -e K=theirs", "exec --user 5 -- prog -e K=theirs"},
		{"exec -e", "exec -e"},
		{"exec --image e=K=x e K=x", "exec --image e=K=x e K=x"},
	} {
		// Each argument has memory of its own that may be written to, as a process's have.
		var args []string
		for a := range strings.SplitSeq(tt.in, " ") {
			args = append(args, string([]byte(a)))
		}
		own := takeArgs(args)
		if got := strings.Join(own, " "); got != tt.in {
			t.Errorf("%q: the command gets %q", tt.in, got)
		}
		if got := strings.Join(args, " "); got != tt.masked {
			t.Errorf("%q: the process table has %q", tt.in, got)
		}
		if !slices.Equal(own, strings.Split(tt.in, " ")) {
			t.Errorf("%q: %q", tt.in, own)
		}
	}
}
