package battery

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/boundary"
)

func TestEnvironment(t *testing.T) {
	box := boundary.Box{Gateway4: netip.MustParseAddr("192.0.2.1")}
	got := environment([]string{"HTTPS_PROXY=http://evil", "A=1", "A=2", "broken", "=x"}, box, tenantSecrets{{Name: "TOKEN", Value: "secret", Placeholder: "mark"}})
	for _, want := range []string{"A=2", "HTTPS_PROXY=http://192.0.2.1:3128", "TOKEN=mark", "SSL_CERT_FILE=/etc/wallproof/ca.pem"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "secret") || strings.Contains(all, "evil") || strings.Contains(all, "broken") {
		t.Errorf("%q holds what it must not", got)
	}
	if kept := withoutRuntime([]string{"GODEBUG=x", "GOGC=1", "LD_PRELOAD=/x", "HOME=/"}); len(kept) != 1 || kept[0] != "HOME=/" {
		t.Errorf("kept %q", kept)
	}
}

func TestCheckImageEnv(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = "A=" + strings.Repeat("x", 8<<10)
	}
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"usual", []string{"PATH=/bin", "broken", "=x", "LD_PRELOAD=/evil.so"}, ""},
		{"the largest variable", []string{"A=" + strings.Repeat("x", maxImageVariable-2)}, ""},
		{"a byte more", []string{"A=" + strings.Repeat("x", maxImageVariable-1)}, `variable "A" has 65537 bytes`},
		{"a long name", []string{strings.Repeat("N", 1<<20)}, "at most 65536"},
		{"too many", many, "40 variables"},
		{"NUL", []string{"A=b\x00c"}, "NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkImageEnv(tt.env)
			if (err == nil) != (tt.want == "") || (err != nil && (!strings.Contains(err.Error(), tt.want) || len(err.Error()) > 300)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
