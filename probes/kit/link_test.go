package kit

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// entry is a message of the table of neighbours, with one attribute before the address.
func entry(link int32, state uint16, addr netip.Addr) syscall.NetlinkMessage {
	data := make([]byte, unix.SizeofNdMsg)
	data[0] = unix.AF_INET6
	binary.NativeEndian.PutUint32(data[4:], uint32(link))
	binary.NativeEndian.PutUint16(data[8:], state)
	data = binary.NativeEndian.AppendUint16(data, 4+6)
	data = binary.NativeEndian.AppendUint16(data, unix.NDA_LLADDR)
	data = append(data, 1, 2, 3, 4, 5, 6, 0, 0)
	data = binary.NativeEndian.AppendUint16(data, 4+16)
	data = binary.NativeEndian.AppendUint16(data, unix.NDA_DST)
	data = append(data, addr.AsSlice()...)
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWNEIGH}, Data: data}
}

// TestNeighbour reads entries of the table of neighbours, and cuts and breaks them.
func TestNeighbour(t *testing.T) {
	want := netip.MustParseAddr("fe80::77")
	whole := entry(3, unix.NUD_FAILED, want)
	if link, state, addr, ok := neighbour(whole); link != 3 || state != unix.NUD_FAILED || addr != want || !ok {
		t.Errorf("got %d %d %s %t", link, state, addr, ok)
	}
	for i := range whole.Data {
		cut := whole
		cut.Data = whole.Data[:i]
		if _, _, _, ok := neighbour(cut); ok {
			t.Errorf("an entry cut after %d bytes is read", i)
		}
	}
	for _, size := range []uint16{0, 3, 0xffff} { // of the first attribute
		broken := entry(3, unix.NUD_FAILED, want)
		binary.NativeEndian.PutUint16(broken.Data[unix.SizeofNdMsg:], size)
		if _, _, _, ok := neighbour(broken); ok {
			t.Errorf("an attribute of %d bytes is read", size)
		}
	}
	other := whole
	other.Header.Type = unix.RTM_DELNEIGH
	if _, _, _, ok := neighbour(other); ok {
		t.Error("another message is read")
	}
}

// TestNobody: what the kernel has not looked for is not called absent.
func TestNobody(t *testing.T) {
	for _, c := range [][2]string{{"lo", "fe80::77"}, {"no-such-link", "fe80::77"}, {"lo", "no address"}} {
		if Nobody(c[0], c[1]) {
			t.Errorf("%s on %s", c[1], c[0])
		}
	}
}
