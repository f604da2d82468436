package lat

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/sys/unix"
)

// socketPaths are where runtimes and agents listen.
var socketPaths = []string{
	"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
	"/run/podman/podman.sock", "/run/k3s/containerd/containerd.sock", "/run/dockershim.sock", "/run/cri-dockerd.sock",
	"/run/buildkit/buildkitd.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/run/snapd.socket", "/run/lxd.socket",
}

// version is how the Docker API is asked what it is.
const version = "GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n"

func runtimeSockets(ctx context.Context, env *probes.Env) manifest.Observation {
	list := append([]string(nil), socketPaths...)
	for _, s := range kit.UnixSockets() {
		if !strings.HasPrefix(s, "@") {
			list = append(list, s)
		}
	}
	return kit.AskSockets(ctx, list, []byte(version))
}

func abstractSockets(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []string
	for _, s := range kit.UnixSockets() {
		if strings.HasPrefix(s, "@") {
			list = append(list, s)
		}
	}
	return kit.AskSockets(ctx, list, []byte(version))
}

// rawPacket sends a UDP datagram with a header of its own making.
func rawPacket(_ context.Context, env *probes.Env) manifest.Observation {
	return inject(unix.IPPROTO_UDP, own(env, "10.0.0.1"), func(src netip.Addr) []byte {
		return udpHeader(40000, 4445, kit.Probe(env))
	})
}

// tunnelled sends such a datagram to a private address inside a packet to a
// public one, once as IP in IP and once as GRE.
func tunnelled(_ context.Context, env *probes.Env) manifest.Observation {
	outer := kit.OutsideFamily(env, false)
	wrap := func(src netip.Addr) []byte {
		return packet(unix.IPPROTO_UDP, src, own(env, "10.0.0.1"), udpHeader(40000, 4445, kit.Probe(env)))
	}
	o := inject(unix.IPPROTO_IPIP, outer, wrap)
	gre := inject(unix.IPPROTO_GRE, outer, func(src netip.Addr) []byte {
		return append([]byte{0, 0, 0x08, 0x00}, wrap(src)...)
	})
	return kit.Worse(o, gre)
}

// inject sends one IPv4 packet through a raw socket that takes whole packets.
func inject(proto byte, to netip.Addr, payload func(src netip.Addr) []byte) manifest.Observation {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		o := kit.Sign(err)
		o.Sign = manifest.SignMissing
		return o
	}
	defer unix.Close(fd)
	src := netip.IPv4Unspecified() // the kernel fills it in
	raw := packet(proto, src, to, payload(src))
	if err := unix.Sendto(fd, raw, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return kit.Sign(err)
	}
	return manifest.Observation{Sign: manifest.SignSent}
}

// packet builds an IPv4 packet (RFC 791).
func packet(proto byte, src, dst netip.Addr, payload []byte) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
	s, d := src.As4(), dst.As4()
	copy(h[12:], s[:])
	copy(h[16:], d[:])
	binary.BigEndian.PutUint16(h[10:], kit.Checksum(h))
	return append(h, payload...)
}

// udpHeader builds a UDP datagram without a checksum, which IPv4 permits.
func udpHeader(from, to uint16, payload []byte) []byte {
	h := binary.BigEndian.AppendUint16(nil, from)
	h = binary.BigEndian.AppendUint16(h, to)
	h = binary.BigEndian.AppendUint16(h, uint16(8+len(payload)))
	h = binary.BigEndian.AppendUint16(h, 0)
	return append(h, payload...)
}
