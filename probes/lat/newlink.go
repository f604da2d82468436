package lat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// ownLink looks whether a link of one's own can be laid into the sandbox's network.
// With one, a child network namespace, which has none of the rules that a sandbox may
// have in its own, has a way out past them. Each link is taken away at once.
func ownLink(context.Context, *probes.Env) manifest.Observation {
	var found, refused []string
	if _, err := os.Stat(plant.KernelRoot + "/link"); err == nil { // the control's stand-in
		found = append(found, "a link")
	}
	links, err := net.Interfaces()
	if err != nil {
		return kit.Sign(err)
	}
	below := 0
	for _, l := range links {
		if l.Flags&net.FlagLoopback == 0 && l.Flags&net.FlagUp != 0 {
			below = l.Index
		}
	}
	for i, kind := range []string{"macvlan", "ipvlan", "veth", "dummy", "bridge"} {
		err := tryLink(kind, fmt.Sprintf("wp-own%d", i), below)
		if err == nil {
			found = append(found, kind)
		} else {
			refused = append(refused, kind+": "+reason(err))
		}
	}
	if len(found) > 0 {
		return manifest.Observation{Sign: manifest.SignReached, Detail: "can be made: " + strings.Join(found, ", ")}
	}
	return manifest.Observation{Sign: manifest.SignAbsent, Detail: strings.Join(refused, ", ")}
}

// reason is an error's errno by name, where it has one.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) && unix.ErrnoName(errno) != "" {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// stacked are the kinds of link that lie upon another.
var stacked = map[string]bool{"macvlan": true, "ipvlan": true}

// tryLink makes a link and takes it away (rtnetlink(7)).
func tryLink(kind, name string, below int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(kit.Patience.Seconds())}); err != nil {
		return err
	}
	if err := ask(fd, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkBody(kind, name, below)); err != nil {
		return err
	}
	if err := ask(fd, unix.RTM_DELLINK, 0, append(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, []byte(name+"\x00"))...)); err != nil {
		return nil // it was made, and that is what counts
	}
	return nil
}

// linkBody is what RTM_NEWLINK says of a link: its name, what it lies upon, its kind.
func linkBody(kind, name string, below int) []byte {
	body := append(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, []byte(name+"\x00"))...)
	if stacked[kind] {
		body = append(body, attribute(unix.IFLA_LINK, binary.NativeEndian.AppendUint32(nil, uint32(below)))...)
	}
	return append(body, attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, []byte(kind)))...)
}

// attribute is one of netlink's: length, type, value, padding.
func attribute(kind int, value []byte) []byte {
	out := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	out = append(binary.NativeEndian.AppendUint16(out, uint16(kind)), value...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	return out
}

// ask sends one request and waits for the kernel's word on it.
func ask(fd int, kind, flags int, body []byte) error {
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, uint16(kind))
	m = binary.NativeEndian.AppendUint16(m, uint16(unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags))
	m = append(m, 0, 0, 0, 1, 0, 0, 0, 0) // sequence, sender
	if err := unix.Sendto(fd, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(buf[4:]) != unix.NLMSG_ERROR {
		return errors.New("no answer to the request")
	}
	if code := int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
