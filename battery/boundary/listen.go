package boundary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

// captureBytes is the capture socket's buffer; PACKET_STATISTICS tells its reader
// of frames that did not fit.
const captureBytes = 16 << 20

// Listeners opens the sockets on each gateway address, for the proxy (enforced)
// or for the witness's open proxy and resolver (open):
//
//	proxy        tcp 3128
//	socks        tcp 1080, with Config.SOCKS
//	dns-udp      udp 53
//	dns-tcp      tcp 53
//	transparent  tcp 15001, enforced mode only; origdst.TCP has the destination
//
// Each name has one file for every gateway address of a box that is no service, so two a box, or one without
// IPv6; the local address of a socket tells which. The caller closes the files
// once the process that serves them has started. A second call fails while the
// sockets of the first are open.
func (s *Stage) Listeners() ([]procs.NamedFile, error) {
	type socket struct {
		name, network string
		port          uint16
	}
	sockets := []socket{{"proxy", "tcp", PortProxy}, {"dns-udp", "udp", PortDNS}, {"dns-tcp", "tcp", PortDNS}}
	if s.cfg.SOCKS {
		sockets = append(sockets, socket{"socks", "tcp", PortSOCKS})
	}
	if s.cfg.Mode == Enforced {
		sockets = append(sockets, socket{"transparent", "tcp", PortTransparent})
	}
	if s.cfg.ProxyOnly {
		return nil, fmt.Errorf("%w: the proxy makes its own socket", ErrConfig)
	}
	var o opener
	err := s.open(func() error {
		for _, b := range s.boxes {
			if s.cfg.isService(b.Name) {
				continue
			}
			for _, g := range b.gateways() {
				for _, k := range sockets {
					o.listen(s.router, k.name, k.network, netip.AddrPortFrom(g, k.port), nil)
				}
			}
		}
		return nil
	})
	return o.result(err)
}

// WorldListeners opens the world's sockets, for the witness:
//
//	any-tcp4, any-tcp6  every destination and port; origdst.TCP has them
//	any-udp4, any-udp6  every destination and port; origdst.ReadUDP has them, and
//	                    origdst.ReplyUDP answers
//	tcp-PORT, udp-PORT  for each of Config.Services: IPv4, then IPv6. Every
//	                    destination; for TCP the local address is the destination,
//	                    for UDP it comes as IP_PKTINFO or IPV6_RECVPKTINFO
//	capture             AF_PACKET, SOCK_RAW: every frame that arrives at the world
//
// A read from the capture file is one Ethernet frame, up to 64 KiB because the
// kernel does not cut what never crosses a real wire, and with transport
// checksums that are not filled in. PACKET_STATISTICS has the frames lost.
func (s *Stage) WorldListeners() ([]procs.NamedFile, error) {
	if s.world == nil {
		return nil, fmt.Errorf("%w: there is no world", ErrConfig)
	}
	var o opener
	err := s.open(func() error {
		for _, a := range s.wildcards() {
			f := familyName(a)
			o.listen(s.world, "any-tcp"+f, "tcp"+f, netip.AddrPortFrom(a, PortAny), nil)
			o.listen(s.world, "any-udp"+f, "udp"+f, netip.AddrPortFrom(a, PortAny), originalDst(a.Is4()))
			for _, k := range s.cfg.Services {
				var opts []option
				if k.Proto == "udp" {
					opts = packetInfo(a.Is4())
				}
				o.listen(s.world, k.name(), k.Proto+f, netip.AddrPortFrom(a, k.Port), opts)
			}
		}
		o.capture(s.world)
		return nil
	})
	return o.result(err)
}

func (s *Stage) wildcards() []netip.Addr {
	if s.noIPv6 != "" {
		return []netip.Addr{netip.IPv4Unspecified()}
	}
	return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
}

// option is a socket option that is switched on.
type option struct{ level, name int }

// originalDst makes a UDP socket take what tproxy gives it, and tell where it
// was going. Being transparent takes CAP_NET_ADMIN, so the socket gets it here.
// It shares its port, so that an answer can be sent from that port, too.
func originalDst(v4 bool) []option {
	share := option{unix.SOL_SOCKET, unix.SO_REUSEADDR}
	if v4 {
		return []option{share, {unix.SOL_IP, unix.IP_TRANSPARENT}, {unix.SOL_IP, unix.IP_RECVORIGDSTADDR}}
	}
	return []option{share, {unix.SOL_IPV6, unix.IPV6_TRANSPARENT}, {unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR}}
}

func packetInfo(v4 bool) []option {
	if v4 {
		return []option{{unix.SOL_IP, unix.IP_PKTINFO}}
	}
	return []option{{unix.SOL_IPV6, unix.IPV6_RECVPKTINFO}}
}

// opener collects files until the first error.
type opener struct {
	files []procs.NamedFile
	err   error
}

func (o *opener) listen(ns *namespace, name, network string, addr netip.AddrPort, opts []option) {
	if o.err != nil {
		return
	}
	lc := net.ListenConfig{Control: switchOn(opts)}
	f, err := procs.ListenConfigIn(ns.path(), lc, network, addr.String())
	o.keep(name, f, err)
}

func (o *opener) keep(name string, f *os.File, err error) {
	if err != nil {
		o.err = fmt.Errorf("open socket %s: %w", name, err)
		return
	}
	o.files = append(o.files, procs.NamedFile{Name: name, File: f})
}

// result hands the files over, or closes them when there was an error.
func (o *opener) result(err error) ([]procs.NamedFile, error) {
	if err = errors.Join(err, o.err); err == nil {
		return o.files, nil
	}
	for _, f := range o.files {
		_ = f.File.Close()
	}
	return nil, err
}

func switchOn(opts []option) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var errs []error
		err := c.Control(func(fd uintptr) {
			for _, o := range opts {
				errs = append(errs, unix.SetsockoptInt(int(fd), o.level, o.name, 1))
			}
		})
		return errors.Join(append(errs, err)...)
	}
}

func (o *opener) capture(ns *namespace) {
	if o.err != nil {
		return
	}
	link, err := ns.nl.LinkByName(worldLink)
	if err != nil {
		o.err = fmt.Errorf("find the world's link: %w", err)
		return
	}
	var f *os.File
	err = procs.DoIn(ns.path(), func() error {
		var err error
		f, err = captureSocket(link.Attrs().Index)
		return err
	})
	o.keep("capture", f, err)
}

// captureSocket opens a packet socket on one link. It is made for no protocol
// and bound afterwards, so that it never holds a frame of another link.
func captureSocket(ifindex int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "capture")
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBytes),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: ifindex}))
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// networkOrder is v as the kernel reads it from memory in network byte order.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
