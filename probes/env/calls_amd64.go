package env

import "golang.org/x/sys/unix"

// callsOfMachine are calls that only this kind of machine has.
var callsOfMachine = []call{
	{"iopl", unix.SYS_IOPL, [4]uintptr{99}},
	{"ioperm", unix.SYS_IOPERM, [4]uintptr{^uintptr(0), 1, 1}},
	{"uselib", unix.SYS_USELIB, [4]uintptr{0}},
	{"ustat", unix.SYS_USTAT, [4]uintptr{0xffffffff, 0}},
}
