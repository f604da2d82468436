package kit

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxMessages and maxMessageSize are what unprivileged queues are allowed by
// default (mq_overview(7)).
const (
	maxMessages    = 4
	maxMessageSize = 4096
)

// mqAttr is struct mq_attr of mqueue.h.
type mqAttr struct {
	flags, maxMessages, messageSize, current int64
	_                                        [4]int64
}

// MakeQueue makes a POSIX message queue, readable by everybody, with one message.
func MakeQueue(name string, message []byte) error {
	attr := mqAttr{maxMessages: maxMessages, messageSize: maxMessageSize}
	fd, err := openQueue(name, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, &attr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return sendQueue(fd, message)
}

// Queue takes the first message of a queue and puts it back.
func Queue(name string) ([]byte, error) {
	fd, err := openQueue(name, unix.O_RDWR|unix.O_NONBLOCK, nil)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, maxMessageSize)
	n, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDRECEIVE, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return buf[:n], sendQueue(fd, buf[:n])
}

// RemoveQueue removes a queue.
func RemoveQueue(name string) error {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func openQueue(name string, flags int, attr *mqAttr) (int, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)), uintptr(flags|unix.O_CLOEXEC), 0o666, uintptr(unsafe.Pointer(attr)), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func sendQueue(fd int, message []byte) error {
	if len(message) == 0 {
		return unix.EINVAL
	}
	_, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(fd), uintptr(unsafe.Pointer(&message[0])), uintptr(len(message)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
