package beside

import "testing"

func TestCrowd(t *testing.T) {
	grow := func(step, most int) func() int {
		n := 0
		return func() int { n = min(n+step, most); return n }
	}
	for _, tt := range []struct {
		name    string
		count   func() int
		n       int
		endless bool
	}{
		{"a few", grow(3, 3), 3, false},
		{"workers of a server", grow(60, 60), 60, false},
		{"workers that come one after the other", grow(50, 200), 200, false},
		{"a bomb", grow(200, 10_000), 400, false},
		{"a slow bomb", grow(33, 10_000), 264, false},
		{"a very slow bomb", func() func() int { n := 33; return func() int { n++; return n } }(), 33 + looks, true},
	} {
		if n, endless := crowd(manyProcesses, maxProcesses, tt.count); n != tt.n || endless != tt.endless {
			t.Errorf("%s: %d, endless %v; want %d, %v", tt.name, n, endless, tt.n, tt.endless)
		}
	}
}
