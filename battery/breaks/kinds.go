//go:build breaks

package breaks

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/boundary"
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
	return errors.Join(err, noGuard(rule))
}

// noGuard refuses what opens no hole that anything inside could go through.
func noGuard(rule boundary.AcceptRule) error {
	if rule.Chain != "guard" {
		return nil
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
	err = errors.Join(err, noGuard(p.AcceptRule))
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
	h.Over = p.Path
	return nil
}

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
	if p.Sandbox == "restored" {
		return errors.New("mount: a sandbox that is restored has the mounts that it had when its snapshot was taken; fresh, work and agent can have one more")
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
	if len(b.With) == 1 && len(h.Sandbox.HostNamespaces) > 0 && empty(h.Sandbox.HostNamespaces) {
		return errors.New("hostNamespaces uts and cgroup: the host's name and the names of its control groups are all that is shared, and nothing inside may change them: it opens no hole")
	}
	if b.Driver == "runc" && h.Sandbox.MakeDevices && !h.Sandbox.NoUserNamespace {
		return errors.New("makeDevices: the kernel lets nobody in a user namespace make device nodes: it opens no hole; add noUserNamespace, or use runc-bare")
	}
	if b.Driver == "runc" && len(b.With) == 1 && len(h.Sandbox.Writable) > 0 {
		return errors.New("writable: with a user namespace of its own root inside may not write to the kernel's settings whatever their mount allows: it opens no hole; add noUserNamespace, or use runc-bare")
	}
	if b.Driver == "gvisor" && len(b.With) == 1 && h.Sandbox.NoUserNamespace {
		return errors.New("noUserNamespace: the ids inside are those of a kernel that is the sandbox's own: it opens no hole on gvisor")
	}
	if shares := h.Sandbox.HostNamespaces; b.Driver == "runc" && !h.Sandbox.NoUserNamespace && (slices.Contains(shares, "pid") || slices.Contains(shares, "ipc")) {
		return errors.New("hostNamespaces pid and ipc: with a user namespace of its own no sandbox starts in them, since the kernel mounts it neither's file system; add noUserNamespace, or use runc-bare")
	}
	return h.Sandbox.Check()
}

// empty reports whether nothing of anybody's is in the namespaces.
func empty(namespaces []string) bool {
	return !slices.ContainsFunc(namespaces, func(ns string) bool { return ns != "uts" && ns != "cgroup" })
}

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
	if empty(p.Share) {
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
