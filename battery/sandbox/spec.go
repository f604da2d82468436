package sandbox

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"sync"
)

// ReservedDir is the folder inside every sandbox that belongs to Wallproof.
// Drivers hide whatever the image has at this path, link or folder, so that an
// image cannot redirect or shadow what is mounted below it.
const ReservedDir = "/.wallproof"

// IDPrefix begins the name of every sandbox, and of everything else on the
// host that belongs to one.
const IDPrefix = "wallproof-"

// Bounds of a Spec.
const (
	maxEnv     = 1 << 10 // variables
	maxMounts  = 64
	maxNames   = 256 // entries of DNS and Hosts
	maxPathLen = 1 << 10
)

// DefaultLimits are a sandbox's limits where the spec has none.
var DefaultLimits = Limits{MemoryBytes: 1 << 30, Processes: 1024, DiskBytes: 512 << 20}

var idPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^wallproof-[a-z0-9-]{1,50}$`) })
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`) })

// Validate says what is wrong with a spec, for every driver alike. The paths
// that it checks are only checked as text.
func (s *Spec) Validate() error {
	switch {
	case !idPattern().MatchString(s.ID):
		return fmt.Errorf("sandbox id %q does not match %s", s.ID, idPattern())
	case !cleanAbs(s.Rootfs):
		return fmt.Errorf("sandbox %s: root file system %q is not a clean absolute path", s.ID, s.Rootfs)
	case s.NetNS != "" && !cleanAbs(s.NetNS):
		return fmt.Errorf("sandbox %s: network namespace %q is not a clean absolute path", s.ID, s.NetNS)
	case s.WorkDir != "" && !cleanAbs(s.WorkDir):
		return fmt.Errorf("sandbox %s: working folder %q is not a clean absolute path", s.ID, s.WorkDir)
	case len(s.Init) == 0 || s.Init[0] == "":
		return fmt.Errorf("sandbox %s: no first process", s.ID)
	case s.Hostname != "" && !namePattern().MatchString(s.Hostname):
		return fmt.Errorf("sandbox %s: %q is no host name", s.ID, s.Hostname)
	case s.Limits.MemoryBytes < 0 || s.Limits.Processes < 0 || s.Limits.DiskBytes < 0:
		return fmt.Errorf("sandbox %s: a limit is negative", s.ID)
	case s.IDBase > math.MaxInt32-1<<16:
		return fmt.Errorf("sandbox %s: id base %d is too high", s.ID, s.IDBase)
	case len(s.Env) > maxEnv || len(s.Mounts) > maxMounts || len(s.DNS) > maxNames || len(s.Hosts) > maxNames:
		return fmt.Errorf("sandbox %s: too many variables, mounts or names", s.ID)
	}
	if err := validateEnv(s.Env); err != nil {
		return fmt.Errorf("sandbox %s: %w", s.ID, err)
	}
	if err := s.validateMounts(); err != nil {
		return fmt.Errorf("sandbox %s: %w", s.ID, err)
	}
	if err := s.validateNames(); err != nil {
		return fmt.Errorf("sandbox %s: %w", s.ID, err)
	}
	return nil
}

// Validate says what is wrong with a command.
func (c *Command) Validate() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fmt.Errorf("command has no program")
	}
	if c.WorkDir != "" && !cleanAbs(c.WorkDir) {
		return fmt.Errorf("command's working folder %q is not a clean absolute path", c.WorkDir)
	}
	for _, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("command has an argument with a NUL byte")
		}
	}
	return validateEnv(c.Env)
}

func (s *Spec) validateMounts() error {
	seen := map[string]bool{}
	for _, m := range s.Mounts {
		if !cleanAbs(m.Source) || !cleanAbs(m.Target) || m.Target == "/" {
			return fmt.Errorf("mount of %q at %q: both must be clean absolute paths, and the target not /", m.Source, m.Target)
		}
		if seen[m.Target] {
			return fmt.Errorf("two mounts at %q", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

// validateNames keeps line ends and blanks out of the generated files.
func (s *Spec) validateNames() error {
	for _, d := range s.DNS {
		if _, err := netip.ParseAddr(d); err != nil {
			return fmt.Errorf("name server %q is no address", d)
		}
	}
	for n, a := range s.Hosts {
		if !namePattern().MatchString(n) {
			return fmt.Errorf("host entry %q is no name", n)
		}
		if _, err := netip.ParseAddr(a); err != nil {
			return fmt.Errorf("host entry %s: %q is no address", n, a)
		}
	}
	return nil
}

// validateEnv never quotes a variable's value, which may be a secret.
func validateEnv(env []string) error {
	for i, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("variable %d of the environment is not NAME=value", i+1)
		}
	}
	return nil
}

func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && len(p) <= maxPathLen && !strings.ContainsRune(p, 0)
}

// WithDefaults fills the zero fields from DefaultLimits.
func (l Limits) WithDefaults() Limits {
	if l.MemoryBytes == 0 {
		l.MemoryBytes = DefaultLimits.MemoryBytes
	}
	if l.Processes == 0 {
		l.Processes = DefaultLimits.Processes
	}
	if l.DiskBytes == 0 {
		l.DiskBytes = DefaultLimits.DiskBytes
	}
	return l
}

// WithHome adds HOME=/ to an environment without HOME, so that no fabric takes
// the home folder from the image's password file.
func WithHome(env []string) []string {
	for _, kv := range env {
		if strings.HasPrefix(kv, "HOME=") {
			return env
		}
	}
	return append(append(make([]string, 0, len(env)+1), env...), "HOME=/")
}
