//go:build e2e

package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/witness/pki"
	"github.com/wallproof/wallproof/internal/procs"
	"golang.org/x/sys/unix"
)

// outside is what the host's network is for a run of exec in these tests: a
// namespace in which every IPv4 address answers on 80 and 443, and which leads
// nowhere.
type outside struct {
	ns, ca string // path of the namespace; file with its authority
	mu     sync.Mutex
	got    []seen
	asked  []string // names that were looked up
}

// seen is a request that arrived.
type seen struct{ Host, Addr, Path, Query, Auth, Key, User, Body string }

const outsideResolver = "203.0.113.53:53"

// newOutside makes the namespace and starts what answers there.
func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	name := fmt.Sprintf("e2e-%d-%d", os.Getpid(), len(t.Name()))
	o.ns = "/run/netns/" + name
	err := procs.DoIn("", func() error {
		ns, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		ns.Close()
		return answerEverywhere()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(o.ns, unix.MNT_DETACH)
		_ = os.Remove(o.ns)
	})
	ca, err := pki.New("outside")
	if err != nil {
		t.Fatal(err)
	}
	o.ca = filepath.Join(t.TempDir(), "upstream.pem")
	if err := os.WriteFile(o.ca, []byte(ca.CertPEM), 0o644); err != nil {
		t.Fatal(err)
	}
	minter, err := ca.Minter()
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(o.answer)}
	t.Cleanup(func() { _ = srv.Close() })
	go func() { _ = srv.Serve(o.listen(t, "0.0.0.0:80")) }()
	secure := tls.NewListener(o.listen(t, "0.0.0.0:443"), &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "" {
			return minter.For("93.184.216.34")
		}
		return minter.For(h.ServerName)
	}})
	go func() { _ = srv.Serve(secure) }()
	o.serveNames(t)
	return o
}

// answerEverywhere makes every IPv4 address one of this namespace's own.
func answerEverywhere() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	_, all, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo),
		netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: all, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}))
}

func (o *outside) listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	f, err := procs.ListenIn(o.ns, "tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// answer records a request and says what arrived.
func (o *outside) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	user, pass, _ := r.BasicAuth()
	s := seen{Host: r.Host, Path: r.URL.Path, Query: r.URL.RawQuery, Auth: r.Header.Get("Authorization"), Key: r.Header.Get("X-Api-Key"), Body: string(body)}
	if user != "" {
		s.User = user + ":" + pass
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		s.Addr = a.String()
	}
	o.mu.Lock()
	o.got = append(o.got, s)
	o.mu.Unlock()
	if strings.Contains(r.URL.Path, "chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"gpt-oss-120b","choices":[{"index":0,"message":{"role":"assistant","content":"the model answers"},"finish_reason":"stop"}]}`)
		return
	}
	fmt.Fprintf(w, "outside %s %s auth=%s key=%s query=%s\n", r.Host, r.URL.Path, s.Auth, s.Key, s.Query)
}

// serveNames is the resolver: every name below .example leads to one address.
func (o *outside) serveNames(t *testing.T) {
	f, err := procs.ListenIn(o.ns, "udp4", outsideResolver)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pc, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		name := strings.TrimSuffix(strings.ToLower(q.Question[0].Name), ".")
		o.mu.Lock()
		o.asked = append(o.asked, name)
		o.mu.Unlock()
		if strings.HasSuffix(name, ".example") && q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP("93.184.216.34")})
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	t.Cleanup(func() { _ = srv.Shutdown() })
}

// requests are those that arrived for a host.
func (o *outside) requests(host string) []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []seen
	for _, s := range o.got {
		if s.Host == host {
			out = append(out, s)
		}
	}
	return out
}

func (o *outside) lookedUp(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.asked {
		if n == name {
			return true
		}
	}
	return false
}

// reset forgets what arrived.
func (o *outside) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got, o.asked = nil, nil
}

// command is exec in the outside's network, without anything of the tests'
// environment but what is given.
func (o *outside) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, "wallproof", append([]string{"exec", "--resolver", outsideResolver, "--upstream-ca", o.ca}, args...)...)
	cmd.Env = append([]string{"NO_COLOR=1", "PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// start starts a command in the outside's network.
func (o *outside) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := procs.DoIn(o.ns, cmd.Start); err != nil {
		t.Fatal(err)
	}
}

// exec runs exec to its end.
func (o *outside) exec(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := o.command(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	o.start(t, cmd)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// actorImage is a layout whose image has the actor as its programs. It trusts
// the outside's authority, as an image trusts the web's.
func actorImage(t *testing.T, ca string, config v1.Config) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	base, err := image.Demo([]byte("no agent"), image.DemoOptions{Files: map[string][]byte{"etc/ssl/certs/ca-certificates.crt": authority}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, err := range []error{
		w.WriteHeader(&tar.Header{Name: "bin/" + actorName, Mode: 0o755, Size: int64(len(self)), Typeflag: tar.TypeReg}),
		func() error { _, err := w.Write(self); return err }(),
		w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	img, err := mutate.AppendLayers(base, static.NewLayer(b.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	if config.Cmd != nil {
		cfg.Config.Cmd = config.Cmd
	}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "image")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// records reads the record that a run wrote.
func readRecord(t *testing.T, path string) (r execRecord) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// execRecord is what the tests read of a run's record.
type execRecord struct {
	Run, PolicyDigest, Routing, Wired string
	Proxy                             struct{ Placement string }
	Enforcement                       struct{ State, Reason string }
	Phases                            []struct{ Phase, Mode, PolicyDigest, Started, Ended string }
	Sandboxes                         []struct {
		Name, Role, PolicyDigest, Routing string
		User                              int
	}
	Exits []struct {
		Phase, Sandbox string
		Exit           int
	}
	Edits []struct {
		PolicyDigest, Error string
		InForce             bool
	}
	Halts      []struct{ Halted bool }
	Overrides  []string
	Attestable bool
	Why        []string
}

// actorName is the program of the tests' images.
const actorName = "actor"

// actors are what the program does inside a sandbox, by its first argument.
var actors map[string]func(args []string) error

func init() {
	actors = map[string]func(args []string) error{
		"get": actGet, "env": actEnv, "id": actID, "greet": actGreet, "tcp": actTCP, "write": actWrite, "read": actRead, "exit": actExit,
		"leave": actLeave, "linger": actLinger, "search": actSearch, "wait": actWait, "copy": actCopy, "chat": actChat, "all": actAll,
		"obey": actObey, "persist": actPersist, "kill": actKill, "tty": actTTY, "web": actWeb, "hostile": actHostile,
	}
}

// isActor runs the actor when this program is it.
func isActor() (code int, ok bool) {
	if filepath.Base(os.Args[0]) != actorName {
		return 0, false
	}
	if len(os.Args) < 2 || actors[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "actor: no such act")
		return 1, true
	}
	if err := actors[os.Args[1]](os.Args[2:]); err != nil {
		var e exitCode
		if errors.As(err, &e) {
			return int(e), true
		}
		fmt.Fprintln(os.Stderr, "actor:", err)
		return 1, true
	}
	return 0, true
}

type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// actAll does several things, separated by ",".
func actAll(args []string) error {
	var one []string
	for _, a := range append(args, ",") {
		if a != "," {
			one = append(one, a)
			continue
		}
		if act := actors[one[0]]; act == nil {
			return fmt.Errorf("no act %q", one[0])
		} else if err := act(one[1:]); err != nil {
			return err
		}
		one = nil
	}
	return nil
}

// actGet asks for each URL and prints what came. "direct:" in front goes past
// the proxy of the environment.
func actGet(args []string) error {
	for _, u := range args {
		fmt.Println(u, fetch(u))
	}
	return nil
}

func fetch(u string) string {
	direct := false
	u, direct = strings.CutPrefix(u, "direct:")
	tr := &http.Transport{DisableKeepAlives: true}
	if !direct {
		tr.Proxy = http.ProxyFromEnvironment
	}
	resp, err := (&http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(u)
	if err != nil {
		return "error " + err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body)))
}

func actEnv([]string) error {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	return nil
}

func actID([]string) error {
	host, _ := os.Hostname()
	fmt.Printf("uid=%d gid=%d host=%s\n", os.Getuid(), os.Getgid(), host)
	return nil
}

// actGreet answers every connection to a port with a text, for ever.
func actGreet(args []string) error {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.WriteString(c, args[1]+"\n")
			if len(args) > 2 { // and says what it can reach itself
				_, _ = io.WriteString(c, fetch(args[2])+"\n"+dial(args[3])+"\n")
			}
		}()
	}
}

func dial(addr string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return "error " + err.Error()
	}
	defer c.Close()
	b, _ := io.ReadAll(io.LimitReader(c, 4096))
	return "connected " + strings.TrimSpace(string(b))
}

func actTCP(args []string) error {
	for _, a := range args {
		fmt.Println(a, dial(a))
	}
	return nil
}

func actWrite(args []string) error { return os.WriteFile(args[0], []byte(args[1]), 0o644) }

func actRead(args []string) error {
	b, err := os.ReadFile(args[0])
	fmt.Print(string(b))
	return err
}

func actExit(args []string) error {
	var n int
	_, _ = fmt.Sscan(args[0], &n)
	return exitCode(n)
}

// actLeave starts another actor that outlives this one, in a session of its own.
func actLeave(args []string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = actorName
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// actLinger asks for a URL again and again, and keeps connections to the proxy
// open that already hold a whole request, in case that somebody else comes to
// serve them.
func actLinger(args []string) error {
	proxy := strings.TrimPrefix(os.Getenv("http_proxy"), "http://")
	var kept []net.Conn
	for i := 0; ; i++ {
		if c, err := net.Dial("tcp", proxy); err == nil && len(kept) < 64 {
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: queued\r\n\r\n", args[0])
			kept = append(kept, c)
		}
		_ = fetch(args[0])
	}
}

// actSearch looks for a text in every environment, command line, and file that
// it may read, and in its own sandbox's memory files.
func actSearch(args []string) error {
	found := 0
	look := func(where string, b []byte) {
		for _, text := range args {
			if bytes.Contains(b, []byte(text)) {
				found++
				fmt.Println("found", text, where)
			}
		}
	}
	procDirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procDirs {
		for _, f := range []string{"environ", "maps"} {
			b, _ := os.ReadFile(filepath.Join(p, f))
			look(filepath.Join(p, f), b)
		}
	}
	for _, root := range []string{"/etc", "/home", "/root", "/tmp", "/run", "/var", "/workspace", "/.wallproof", "/dev/shm"} {
		_ = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() && info.Size() < 16<<20 {
				b, _ := os.ReadFile(path)
				look(path, b)
			}
			return nil
		})
	}
	fmt.Println("searched; found", found)
	return nil
}

// actWait prints a word and waits until its standard input ends.
func actWait(args []string) error {
	fmt.Println(args[0])
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// actCopy copies standard input to standard output.
func actCopy([]string) error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

// actChat asks the model by the variables of the environment; "search" asks for
// the provider's hosted search.
func actChat(args []string) error {
	tools := ""
	if len(args) > 1 && args[1] == "search" {
		tools = `,"tools":[{"type":"web_search_preview"}]`
	}
	req, err := http.NewRequest("POST", os.Getenv("OPENAI_BASE_URL")+"/chat/completions", strings.NewReader(`{"model":"`+args[0]+`","messages":[{"role":"user","content":"hello"}]`+tools+`}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	fmt.Println("chat", args[0], resp.StatusCode, strings.TrimSpace(string(b)))
	return nil
}

// scanLines sends each line, and closes the channel at the end.
func scanLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines <- s.Text()
	}
}

// actObey does what each line of standard input says.
func actObey([]string) error {
	s := bufio.NewScanner(os.Stdin)
	for s.Scan() {
		words := strings.Fields(s.Text())
		if len(words) == 0 || actors[words[0]] == nil {
			return fmt.Errorf("no act %q", s.Text())
		}
		if err := actors[words[0]](words[1:]); err != nil {
			return err
		}
	}
	return s.Err()
}

// transport talks to what listens in the outside's network.
func (o *outside) transport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		derr := procs.DoIn(o.ns, func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, addr)
			return nil
		})
		return c, errors.Join(err, derr)
	}}
}

// actWeb serves HTTP at a port.
func actWeb(args []string) error {
	return http.ListenAndServe(":"+args[0], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, args[1], os.Getenv("GREETING"))
	}))
}

// actKill ends this program by a signal.
func actKill([]string) error { return unix.Kill(os.Getpid(), unix.SIGKILL) }
