// Package conformance is the suite that every sandbox driver passes. It starts
// real sandboxes, so it runs as root.
package conformance

import (
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// Run runs the suite against a driver.
func Run(t *testing.T, d sandbox.Driver, f Fixture) {
	s := newSuite(t, d, f)
	before := snapshotTree(t, f.Rootfs)
	tests := []struct {
		name string
		run  func(*testing.T)
	}{
		{"Describe", s.describe},
		{"Exec", s.exec},
		{"ExecFailures", s.execFailures},
		{"Environment", s.environment},
		{"Identity", s.identity},
		{"Terminal", s.terminal},
		{"ArgvSecrecy", s.argvSecrecy},
		{"CopyIn", s.copyIn},
		{"Mounts", s.mounts},
		{"GeneratedFiles", s.generatedFiles},
		{"MisledMounts", s.misledMounts},
		{"FreshOverlay", s.freshOverlay},
		{"TwoAtOnce", s.twoAtOnce},
		{"Network", s.network},
		{"LoopbackOnly", s.loopbackOnly},
		{"Limits", s.limits},
		{"Stop", s.stop},
		{"StartFailures", s.startFailures},
		{"Cancel", s.cancel},
		{"Checkpoint", s.checkpoint},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
	if after := snapshotTree(t, f.Rootfs); after != before {
		t.Errorf("the root file system's folder was changed:\nbefore\n%s\nafter\n%s", before, after)
	}
}

func (s *suite) describe(t *testing.T) {
	d, err := s.driver.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Name == "" || d.Version == "" || d.Version == "unknown" || d.ConfigDigest == "" || len(d.NetworkModes) == 0 || d.Facts["kernel"] == "" {
		t.Errorf("incomplete: %+v", d)
	}
	again, err := s.driver.Describe(t.Context())
	if err != nil || again.ConfigDigest != d.ConfigDigest {
		t.Errorf("configuration digest changed from %s to %s, %v", d.ConfigDigest, again.ConfigDigest, err)
	}
	if _, ok := s.driver.(sandbox.Snapshotter); ok != d.Snapshots {
		t.Errorf("Snapshots is %v, but the driver's methods say otherwise", d.Snapshots)
	}
}
