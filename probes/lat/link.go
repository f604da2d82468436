package lat

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/sys/unix"
)

// frame writes a UDP datagram to a private address as an Ethernet frame to the
// gateway.
func frame(ctx context.Context, env *probes.Env) manifest.Observation {
	self, gateway := kit.AddrOf(env.Facts.Self, false), kit.AddrOf(env.Facts.Gateway, false)
	link := linkOf(self)
	if link == nil {
		return kit.Missing("no interface has the sandbox's address")
	}
	to := hardwareAddr(ctx, env, gateway)
	if to == nil {
		return kit.Missing("the gateway's hardware address is not known")
	}
	payload := packet(unix.IPPROTO_UDP, self, own(env, "10.0.0.1"), udpHeader(40000, 4445, kit.Probe(env)))
	f := append(append(append([]byte{}, to...), link.HardwareAddr...), 0x08, 0x00)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		o := kit.Sign(err)
		o.Sign = manifest.SignMissing
		return o
	}
	defer unix.Close(fd)
	sa := &unix.SockaddrLinklayer{Ifindex: link.Index, Protocol: binary.BigEndian.Uint16([]byte{0, 8})}
	if err := unix.Sendto(fd, append(f, payload...), 0, sa); err != nil {
		return kit.Sign(err)
	}
	return manifest.Observation{Sign: manifest.SignSent}
}

// linkOf returns the interface with an address.
func linkOf(a netip.Addr) *net.Interface {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, have := range addrs {
			if p, err := netip.ParsePrefix(have.String()); err == nil && p.Addr() == a {
				return &i
			}
		}
	}
	return nil
}

// hardwareAddr asks the neighbour table for the gateway's address, after a
// datagram that makes the kernel look for it.
func hardwareAddr(ctx context.Context, env *probes.Env, gateway netip.Addr) net.HardwareAddr {
	t := kit.Begin(env)
	defer t.End()
	t.Throw(ctx, netip.AddrPortFrom(gateway, 53).String(), kit.Probe(env))
	t.Catch(ctx)
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || fields[0] != gateway.String() {
			continue
		}
		if mac, err := hex.DecodeString(strings.ReplaceAll(fields[3], ":", "")); err == nil && len(mac) == 6 {
			return mac
		}
	}
	return nil
}

// fromUserNamespace has a child process with a user namespace of its own try what
// LAT-10 and LAT-ULA try.
func fromUserNamespace(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.InUserNamespace(ctx, env, kit.JoinHostPort(private(env).String(), 8081))
}
