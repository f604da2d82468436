//go:build breaks

package breaks

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox/runc"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/plant"
)

// kinds says how each kind reads its parameters.
var kinds = map[string]func(*Break, *battery.Breaks) error{
	"weakness":         bare(func(*battery.Breaks) {}),
	"filter-accept":    filterAccept,
	"filter-skip-ipv6": bare(func(h *battery.Breaks) { h.Boundary.SkipIPv6 = true }),
	"filter-no-redirect": func(*Break, *battery.Breaks) error {
		return errors.New("filter-no-redirect: what is led nowhere is refused by the filter: nothing gets further for it")
	},
	"filter-drop":      bare(func(h *battery.Breaks) { h.Boundary.RejectAsDrop = true }),
	"filter-late":      filterLate,
	"filter-changed":   filterChanged,
	"segment":          segment,
	"over":             over,
	"tools-writable":   bare(func(h *battery.Breaks) { h.ToolsWritable = true }),
	"unredacted":       unredacted,
	"groups":           bare(func(h *battery.Breaks) { h.Boundary.Groups = true }),
	"network-dead":     bare(func(h *battery.Breaks) { h.Boundary.Dead = true }),
	"environment-leak": environmentLeak,
	"leak":             leak,
	"mount":            mount,
	"descriptor":       descriptor,
	"image":            imageLeak,
	"driver":           driver,
	"namespace":        namespace,
	"random":           random,
	"tenant":           tenant,
	"policy":           policyEdit,
	"proxy":            proxySwitch,
}

// Hooks is what the battery breaks.
func (b *Break) Hooks() (h battery.Breaks, err error) {
	read, ok := kinds[b.Kind]
	if !ok {
		return h, fmt.Errorf("there is no kind %q; there are: %s", b.Kind, strings.Join(kindNames(), ", "))
	}
	h.Control = b.Expect != ExpectEscaped
	if (b.Kind == "unredacted") != (b.Expect == ExpectRefused) {
		return h, errors.New("expect: refused is for the kind unredacted, and that for it")
	}
	if err := read(b, &h); err != nil {
		return h, err
	}
	return h, b.has(h.Leaks)
}

// has refuses the leak of a secret that the policy does not have: there is no canary
// for it.
func (b *Break) has(leaks []battery.Leak) error {
	tested, err := b.Tested()
	if err != nil {
		return err
	}
	for _, l := range leaks {
		if l.Secret == "" || strings.HasPrefix(l.Secret, "$") || l.Secret == battery.SecretNeighbour {
			continue
		}
		if !slices.ContainsFunc(tested.Secrets, func(s policy.Secret) bool { return s.Name == l.Secret }) {
			return fmt.Errorf("secret: the policy %s has no secret %q; host, neighbour, prior, git and platform are there with every policy", b.Policy, l.Secret)
		}
	}
	return nil
}

func kindNames() []string {
	var out []string
	for name := range kinds {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// bare is a kind without parameters.
func bare(set func(*battery.Breaks)) func(*Break, *battery.Breaks) error {
	return func(b *Break, h *battery.Breaks) error {
		set(h)
		return b.with(&struct{}{})
	}
}

func filterAccept(b *Break, h *battery.Breaks) error {
	var rule boundary.AcceptRule
	err := b.with(&rule)
	if err == nil && rule.CIDR == "" {
		err = errors.New("filter-accept needs cidr")
	}
	h.Boundary.Accept = []boundary.AcceptRule{rule}
	if err == nil {
		err = opens(rule)
	}
	return err
}

// opens refuses what opens no hole that anything inside could go through.
func opens(rule boundary.AcceptRule) error {
	if rule.Chain != "guard" {
		return rule.Check()
	}
	return errors.New("chain guard: it would let past a packet with another source than the sandbox's own, which no program inside can send where raw sockets " +
		"cannot be opened, and which the chains that follow refuse all the same: nothing gets further for it")
}

func filterLate(b *Break, h *battery.Breaks) error {
	var p struct {
		Milliseconds int `json:"milliseconds"`
	}
	err := b.with(&p)
	if err == nil && p.Milliseconds <= 0 {
		err = errors.New("filter-late needs milliseconds")
	}
	h.Boundary.LateFilterMs = p.Milliseconds
	return err
}

func filterChanged(b *Break, h *battery.Breaks) error {
	var p struct {
		After int `json:"after"`
		boundary.AcceptRule
	}
	err := b.with(&p)
	if err == nil && p.CIDR == "" {
		err = errors.New("filter-changed needs cidr")
	}
	if err == nil {
		err = opens(p.AcceptRule)
	}
	h.Boundary.MidRun = &boundary.MidRun{AfterMs: p.After, Accept: p.AcceptRule}
	return err
}

// segment puts another machine on the sandbox's network segment.
func segment(b *Break, h *battery.Breaks) error {
	var p struct {
		With string `json:"with"` // neighbour or world
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if p.With != "neighbour" && p.With != "world" {
		return errors.New("segment needs with: neighbour or world")
	}
	h.Boundary.Segment = map[string]string{"neighbour": "tenant", "world": "world"}[p.With]
	return nil
}

// ofProcess matches what /proc has of a process.
var ofProcess = regexp.MustCompile(`^/proc/(self|thread-self|[0-9]+)(/|$)`)

// over mounts an ordinary file over one that the sandbox has from its runtime.
func over(b *Break, h *battery.Breaks) error {
	var p struct {
		Path string `json:"path"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if !strings.HasPrefix(p.Path, "/") {
		return errors.New("over needs path")
	}
	if ofProcess.MatchString(p.Path) {
		return errors.New("over: " + p.Path + " is of a process, and there is no process yet when the mounts are made")
	}
	if in := func(dir string) bool { return strings.HasPrefix(p.Path, dir) }; !in("/proc/") && !in("/sys/") && !in("/dev/") {
		return errors.New("over: " + p.Path + " is a file of the image's or of the sandbox's own: only in /proc, /sys and /dev does a file mean anything to a runtime; it opens no hole")
	}
	if b.Driver == "gvisor" && strings.HasPrefix(p.Path, "/proc/sys/") && !strings.HasPrefix(p.Path, "/proc/sys/net/") && !slices.Contains(ownSettings, p.Path) {
		return fmt.Errorf("over: the kernel of gvisor has no %s, and no file can be mounted over it; it has %s", p.Path, strings.Join(ownSettings, ", "))
	}
	h.Over = p.Path
	return nil
}

// ownSettings are the kernel's settings that gVisor's kernel has (newSysDir of its
// pkg/sentry/fsimpl/proc).
var ownSettings = []string{"/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/overflowgid", "/proc/sys/kernel/overflowuid", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/sem", "/proc/sys/kernel/shmall", "/proc/sys/kernel/shmmax", "/proc/sys/kernel/shmmni", "/proc/sys/kernel/msgmni", "/proc/sys/kernel/msgmax", "/proc/sys/kernel/msgmnb", "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/keys/maxkeys", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/kernel/version", "/proc/sys/fs/mount-max", "/proc/sys/fs/nr_open", "/proc/sys/fs/pipe-max-size", "/proc/sys/vm/max_map_count", "/proc/sys/vm/mmap_min_addr", "/proc/sys/vm/overcommit_memory"}

// unredacted has a run write secrets down.
func unredacted(b *Break, h *battery.Breaks) error {
	var p struct {
		What string `json:"what"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if p.What != "transcripts" && p.What != "observations" {
		return errors.New("unredacted needs what: transcripts or observations")
	}
	h.Unmasked = p.What
	return nil
}

// secret is which secret is leaked, and where.
type secret struct {
	Secret  string `json:"secret"`  // of the policy, or host, neighbour, prior, git, platform
	Shape   string `json:"shape"`   // in place of a canary: a string in the shape of a real key
	Sandbox string `json:"sandbox"` // work (default), agent, fresh, restored
}

// sandboxes are where a leak can be.
var sandboxes = []string{"work", "agent", "fresh", "restored"}

func (s secret) leak(place plant.Place) (battery.Leak, error) {
	l := battery.Leak{Sandbox: s.Sandbox, Secret: s.Secret, Place: place}
	if l.Sandbox == "" {
		l.Sandbox = "work"
	}
	if !slices.Contains(sandboxes, l.Sandbox) {
		return l, fmt.Errorf("sandbox: %q is none of %s", l.Sandbox, strings.Join(sandboxes, ", "))
	}
	switch s.Secret {
	case "host", "neighbour", "prior", "git", "platform":
		l.Secret = "$" + s.Secret
	}
	if (s.Secret == "") == (s.Shape == "") {
		return l, errors.New("name either a secret or a shape")
	}
	if s.Shape != "" {
		var err error
		if l.Value, err = shaped(s.Shape); err != nil {
			return l, err
		}
	}
	return l, nil
}

func environmentLeak(b *Break, h *battery.Breaks) error {
	var p struct {
		Variable string `json:"variable"`
		secret
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if p.Variable == "" {
		return errors.New("environment-leak needs variable")
	}
	return add(h, p.secret, plant.Place{Env: []string{p.Variable + "=" + battery.SecretMark}})
}

func add(h *battery.Breaks, s secret, place plant.Place) error {
	l, err := s.leak(place)
	h.Leaks = append(h.Leaks, l)
	return err
}

// text is the text of a leak, in which {} stands for the secret.
func text(s, otherwise string) string {
	if s == "" {
		s = otherwise
	}
	return strings.ReplaceAll(s, "{}", battery.SecretMark)
}

const token = "token: {}\n"

func leak(b *Break, h *battery.Breaks) error {
	var p struct {
		secret
		Text        string   `json:"text"`
		File        string   `json:"file"`
		Mode        uint32   `json:"mode"`
		DeletedFile string   `json:"deleted-file"`
		Memory      bool     `json:"memory"`
		Process     string   `json:"process"`
		Arguments   []string `json:"arguments"`
		Environment []string `json:"environment"`
		Socket      string   `json:"socket"`
		Segment     int      `json:"segment"`
		Queue       string   `json:"queue"`
		Pipe        bool     `json:"pipe"`
		Key         string   `json:"key"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	content := text(p.Text, token)
	var seed plant.Seed
	n := 0
	if p.File != "" {
		seed.Files = []plant.File{{Path: text(p.File, ""), Content: content, Mode: p.Mode}}
		n++
	}
	if p.DeletedFile != "" {
		seed.Deleted = []plant.File{{Path: p.DeletedFile, Content: content, Mode: p.Mode}}
		n++
	}
	if p.Memory {
		seed.Memory = []string{content}
		n++
	}
	if p.Process != "" {
		process := plant.Process{Name: p.Process}
		for _, a := range p.Arguments {
			process.Args = append(process.Args, text(a, ""))
		}
		for _, e := range p.Environment {
			process.Env = append(process.Env, text(e, ""))
		}
		seed.Processes = []plant.Process{process}
		n++
	}
	if p.Socket != "" {
		seed.Sockets = []plant.Socket{{Name: p.Socket, Answer: content}}
		n++
	}
	if p.Segment != 0 {
		seed.Segments = []plant.Segment{{Key: p.Segment, Content: content}}
		n++
	}
	if p.Queue != "" {
		if b.Driver == "gvisor" {
			return errors.New("queue: the kernel of gvisor has no POSIX message queues: it opens no hole there; use runc or runc-bare")
		}
		seed.Queues = []plant.Queue{{Name: p.Queue, Message: content}}
		n++
	}
	if p.Pipe {
		seed.Pipes = []string{content}
		n++
	}
	if p.Key != "" {
		seed.Keys = []plant.Key{{Name: p.Key, Content: content}}
		n++
	}
	if n != 1 {
		return errors.New("leak needs exactly one of file, deleted-file, memory, process, socket, segment, queue, pipe, key")
	}
	return add(h, p.secret, plant.Place{Seed: &seed})
}

// mount shares a folder of the host's, or the neighbour's, with the sandbox.
func mount(b *Break, h *battery.Breaks) error {
	var p struct {
		Target   string `json:"target"`
		Of       string `json:"of"`   // host or neighbour
		File     string `json:"file"` // in the folder
		ReadOnly bool   `json:"read-only"`
		Sandbox  string `json:"sandbox"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if p.Target == "" || p.Of != "host" && p.Of != "neighbour" {
		return errors.New("mount needs target, and of: host or neighbour")
	}
	if target := path.Clean(p.Target); target == "/" || target != p.Target || !path.IsAbs(target) {
		return fmt.Errorf("mount: target %q: a clean absolute path, and not /", p.Target)
	}
	if p.File == "" {
		p.File = "secret.txt"
	}
	m := plant.Mount{Target: p.Target, ReadOnly: p.ReadOnly}
	files := []plant.File{{Path: p.File, Content: text("", token)}}
	m.Files = files
	if err := add(h, secret{Secret: p.Of, Sandbox: p.Sandbox}, plant.Place{Mounts: []plant.Mount{m}}); err != nil || p.Of == "host" {
		return err
	}
	// The neighbour has the same folder, and what is in it is the neighbour's, also
	// where a run does without the neighbour's sandbox.
	m.ReadOnly = false
	h.Leaks = append(h.Leaks, battery.Leak{Sandbox: "tenant", Secret: battery.SecretNeighbour, Place: plant.Place{Mounts: []plant.Mount{m}}})
	return nil
}

func descriptor(b *Break, h *battery.Breaks) error {
	var p struct {
		Of string `json:"of"` // file or folder
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if p.Of != "file" && p.Of != "folder" {
		return errors.New("descriptor needs of: file or folder")
	}
	if p.Of == "folder" && b.Driver == "gvisor" {
		return errors.New("descriptor: the runtime of gvisor hands no folder to a command; file is what can be inherited there")
	}
	h.Descriptor = p.Of
	return nil
}

// imageLeak puts a secret into the image.
func imageLeak(b *Break, h *battery.Breaks) error {
	var p struct {
		File        string `json:"file"`
		Environment string `json:"environment"`
		Label       string `json:"label"`
		History     bool   `json:"history"`
		LowerFile   string `json:"lower-file"` // in a layer that a higher one hides it of
		Shape       string `json:"shape"`      // of a real key, in place of a canary
		Text        string `json:"text"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	n := 0
	for _, set := range []bool{p.File != "", p.Environment != "", p.Label != "", p.History, p.LowerFile != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		return errors.New("image needs exactly one of file, environment, label, history, lower-file")
	}
	if p.Shape != "" {
		value, err := shaped(p.Shape)
		if err != nil {
			return err
		}
		if p.LowerFile == "" {
			return errors.New("shape: only with lower-file")
		}
		p.Text = strings.ReplaceAll(text(p.Text, token), battery.SecretMark, value)
	}
	switch {
	case p.LowerFile != "":
		h.ImageLower = &plant.File{Path: p.LowerFile, Content: text(p.Text, token)}
	case p.File != "":
		h.Image = []battery.Leak{{Secret: battery.SecretHost, Place: plant.Place{Seed: &plant.Seed{Files: []plant.File{{Path: p.File, Content: text(p.Text, token)}}}}}}
	case p.Environment != "":
		h.ImageEnv = []string{p.Environment + "=" + text(p.Text, "{}")}
	case p.Label != "":
		h.ImageLabel = [2]string{p.Label, text(p.Text, "{}")}
	default:
		h.ImageHistory = text(p.Text, "RUN echo {} > /run/token && make && rm /run/token")
	}
	return nil
}

func driver(b *Break, h *battery.Breaks) error {
	if err := b.with(&h.Sandbox); err != nil {
		return err
	}
	if len(b.With) == 0 {
		return errors.New("driver needs something to get wrong")
	}
	if b.Driver == "gvisor" && len(h.Sandbox.HostNamespaces) > 0 && len(b.With) == 1 {
		return errors.New("hostNamespaces: processes inside are those of a kernel that is the sandbox's own, in namespaces of its own: it opens no hole on gvisor; use runc or runc-bare")
	}
	if b.Driver == "runc" && h.Sandbox.MakeDevices && !h.Sandbox.NoUserNamespace {
		return errors.New("makeDevices: the kernel lets nobody in a user namespace make device nodes: it opens no hole; add noUserNamespace, or use runc-bare")
	}
	if b.Driver == "gvisor" && len(b.With) == 1 && h.Sandbox.NoUserNamespace {
		return errors.New("noUserNamespace: the ids inside are those of a kernel that is the sandbox's own: it opens no hole on gvisor")
	}
	if len(h.Sandbox.Flags) > 0 && len(b.With) == 1 {
		return errors.New("flags: a flag of the runtime alone opens no hole here: the sandbox's network namespace and its packet filter stay, no mount holds a socket of the host's, " +
			"and what needs a capability lacks it; add capabilities, as [CAP_NET_RAW] to [--net-raw]")
	}
	if err := b.calls(h.Sandbox.AllowCalls); err != nil {
		return err
	}
	for _, d := range h.Sandbox.Devices {
		if _, err := os.Lstat(d); err != nil {
			return fmt.Errorf("devices: this machine has no %s: it opens no hole here", d)
		}
	}
	return h.Sandbox.Check()
}

// calls refuses to allow what is allowed, and what the kernel refuses by itself.
func (b *Break) calls(names []string) error {
	if len(names) == 0 || len(b.With) > 1 {
		return nil
	}
	if b.Driver != "runc" {
		return fmt.Errorf("allowCalls: %s has no filter of system calls that could be wider: it opens no hole; use runc", b.Driver)
	}
	var closed, open []string
	for _, name := range names {
		switch {
		case runc.Allows(name):
			open = append(open, name)
		case slices.Contains(privileged, name):
			closed = append(closed, name)
		default:
			return nil
		}
	}
	return fmt.Errorf("allowCalls: the filter lets %v through anyway, and the kernel refuses %v to whoever lacks the capability, before it looks at anything else: it opens no hole; add the capability", open, closed)
}

// privileged are calls that a kernel refuses at once to whoever has no capability for
// them, whatever a filter says: with a namespace of its own nobody inside has it.
var privileged = []string{"acct", "create_module", "delete_module", "finit_module", "fsmount", "fsopen", "fspick", "init_module", "kexec_file_load", "kexec_load", "lookup_dcookie",
	"move_mount", "nfsservctl", "pivot_root", "reboot", "setdomainname", "sethostname", "swapoff", "vhangup"}

// random has sandboxes restored from one snapshot draw the same bytes.
func random(b *Break, h *battery.Breaks) error {
	var p struct {
		Path string `json:"path"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if !slices.Contains([]string{"/dev/urandom", "/dev/random"}, p.Path) {
		return fmt.Errorf("random: path %q is neither /dev/urandom nor /dev/random", p.Path)
	}
	h.Random = p.Path
	return nil
}

// namespace has the sandbox share namespaces with the neighbour.
func namespace(b *Break, h *battery.Breaks) error {
	var p struct {
		Share []string `json:"share"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	for _, ns := range p.Share {
		if !slices.Contains([]string{"pid", "ipc", "uts"}, ns) {
			return fmt.Errorf("share: %q is none of pid, ipc, uts", ns)
		}
	}
	if len(p.Share) == 0 {
		return errors.New("namespace needs share")
	}
	if len(p.Share) == 1 && p.Share[0] == "uts" {
		return errors.New("share uts: the neighbour's name is all that is shared, and nothing inside may change it: it opens no hole")
	}
	h.Share = p.Share
	return nil
}

func tenant(b *Break, h *battery.Breaks) error {
	var p struct {
		AcceptPlaceholder bool   `json:"accept-placeholder"`
		BelieveHeader     string `json:"believe-header"`
		BelieveAuthority  bool   `json:"believe-authority"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	n := 0
	for _, set := range []bool{p.AcceptPlaceholder, p.BelieveHeader != "", p.BelieveAuthority} {
		if set {
			n++
		}
	}
	if n != 1 {
		return errors.New("tenant needs exactly one of accept-placeholder, believe-header, believe-authority")
	}
	h.NeighbourAccepted, h.NeighbourBelieved, h.Authority = p.AcceptPlaceholder, p.BelieveHeader, p.BelieveAuthority
	return nil
}

func proxySwitch(b *Break, h *battery.Breaks) error {
	if err := b.with(&h.Proxy); err != nil {
		return err
	}
	if !h.Proxy.Any() {
		return errors.New("proxy needs one switch")
	}
	if err := h.Proxy.Check(); err != nil {
		return err
	}
	if h.Proxy.SkipEncoding == "html" {
		return errors.New("skipEncoding html: no secret of a test has a character that HTML writes otherwise, so that it is masked as it is: it opens no hole")
	}
	return reachable(h.Proxy.OpenRange)
}

// ownRanges mean the proxy's own machine or link, or groups. It has neither a listener
// there nor leave of the packet filter to go there, whatever its own gate says.
var ownRanges = []string{"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/127", "fe80::/10", "ff00::/8"}

// reachable refuses a range in which nothing could be reached if it were open.
func reachable(cidr string) error {
	p, err := netip.ParsePrefix(cidr)
	if cidr == "" || err != nil {
		return nil // Check has looked at it
	}
	for _, own := range ownRanges {
		if in := netip.MustParsePrefix(own); in.Bits() <= p.Bits() && in.Contains(p.Addr()) {
			return fmt.Errorf("openRange %s: it means the proxy's own machine or link, or a group, where the packet filter lets the proxy go nowhere: opening it opens no hole", cidr)
		}
	}
	return nil
}
