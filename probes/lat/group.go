package lat

import (
	"context"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// Groups at which machines of one network find each other: mDNS, LLMNR, SSDP and WS
// discovery. Those of IPv6 are of the site's scope, which a router may pass on.
var (
	groups4 = []string{"224.0.0.251:5353", "224.0.0.252:5355", "239.255.255.250:1900", "239.255.255.250:3702"}
	groups6 = []string{"[ff05::fb]:5353", "[ff05::1:3]:5355", "[ff05::c]:1900", "[ff05::c]:3702"}
)

// groups sends a datagram to each; nobody's answer is waited for.
func groups(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	list := groups4
	if _, v6 := kit.WayOf(env.Variant); v6 {
		list = groups6
	}
	o := manifest.Observation{Sign: manifest.SignRefused}
	for i, g := range list {
		next := t.Throw(ctx, g, kit.Probe(env))
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
	}
	return t.Done(o)
}

// vsock looks for a socket to the host that no network sees. It sends nothing.
func vsock(ctx context.Context, env *probes.Env) manifest.Observation {
	var found []string
	if b, err := kit.ReadHead(plant.KernelRoot+"/dev/vsock", 256); err == nil { // the control's stand-in
		found = append(found, "a listener at "+strings.TrimSpace(string(b)))
	}
	if opensVsock() {
		found = append(found, "a socket towards the host can be opened")
	}
	if len(found) == 0 {
		return manifest.Observation{Sign: manifest.SignAbsent, Detail: "no socket towards the host can be opened"}
	}
	return manifest.Observation{Sign: manifest.SignReached, Detail: strings.Join(found, " ")}
}

// opensVsock opens a socket and gives it an address. It connects to nothing: the
// host is not the battery's to knock at.
func opensVsock() bool {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: unix.VMADDR_PORT_ANY}) == nil
}
