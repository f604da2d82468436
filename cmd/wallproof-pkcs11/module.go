//go:build (linux || darwin) && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Of PKCS #11 2.40, what a signer needs. A CK_ULONG is as long as a pointer on the
// platforms that this builds for.
type ulong = uintptr

// Places in the list of functions (CK_FUNCTION_LIST).
const (
	fnInitialize, fnFinalize, fnGetSlotList, fnGetTokenInfo = 0, 1, 4, 6
	fnOpenSession, fnLogin                                  = 12, 18
	fnGetAttributeValue                                     = 24
	fnFindObjectsInit, fnFindObjects, fnFindObjectsFinal    = 26, 27, 28
	fnSignInit, fnSign                                      = 42, 43
	functions                                               = 68
)

// Attributes, classes, key types and mechanisms.
const (
	attrClass, attrLabel, attrValue, attrKeyType, attrID = 0x0, 0x3, 0x11, 0x100, 0x102
	attrModulus, attrExponent                            = 0x120, 0x122
	attrECParams, attrECPoint                            = 0x180, 0x181

	classCertificate, classPublic, classPrivate = 1, 2, 3
	keyRSA, keyEC                               = 0, 3
	mechRSA, mechECDSA                          = 0x1, 0x1041

	userPIN       = 1
	serialSession = 4
	alreadyIn     = 0x100 // CKR_USER_ALREADY_LOGGED_IN
	alreadyInit   = 0x191 // CKR_CRYPTOKI_ALREADY_INITIALIZED
)

// Bounds on what a module answers.
const (
	maxSlots     = 1024
	maxAttribute = 64 << 10
	maxSignature = 2 << 10
)

// Names of the return values that users meet.
var returnNames = map[ulong]string{
	0x03: "wrong slot", 0x05: "general error", 0x06: "function failed", 0x07: "bad arguments", 0x30: "device error", 0x32: "device removed",
	0x68: "the key may not be used for this", 0x70: "the token cannot sign like this", 0xA0: "wrong PIN", 0xA1: "PIN of a wrong form",
	0xA2: "PIN of a wrong length", 0xA3: "the PIN has expired", 0xA4: "the PIN is locked", 0xE0: "no token", 0xE1: "token not recognised",
	0x101: "not logged in", 0x102: "no user PIN was set",
}

var errModule = errors.New("the PKCS #11 module failed")

func check(what string, rv ulong) error {
	if rv == 0 {
		return nil
	}
	if name, ok := returnNames[rv]; ok {
		return fmt.Errorf("%w: %s: %s (0x%x)", errModule, what, name, rv)
	}
	return fmt.Errorf("%w: %s: 0x%x", errModule, what, rv)
}

// functionList is CK_FUNCTION_LIST: a version of two bytes, then the functions.
type functionList struct {
	_  [2]byte
	fn [functions]uintptr
}

// attribute is CK_ATTRIBUTE.
type attribute struct {
	typ   ulong
	value unsafe.Pointer
	size  ulong
}

func bytesAttribute(typ ulong, value []byte) attribute {
	if len(value) == 0 {
		return attribute{typ: typ}
	}
	return attribute{typ, unsafe.Pointer(&value[0]), ulong(len(value))}
}

func numberAttribute(typ, value ulong) attribute {
	v := new(ulong)
	*v = value
	return attribute{typ, unsafe.Pointer(v), unsafe.Sizeof(*v)}
}

// module is a loaded and initialised module.
type module struct{ list *functionList }

// call calls a function of the module. What its arguments point to stays where it
// is until it returns.
//
//go:uintptrescapes
func (m module) call(n int, args ...uintptr) ulong {
	rv, _, _ := purego.SyscallN(m.list.fn[n], args...)
	return rv
}

// load opens a module. It is never closed: the process lives for one answer.
func load(path string) (module, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return module{}, fmt.Errorf("load the PKCS #11 module %s: %w", path, err)
	}
	get, err := purego.Dlsym(lib, "C_GetFunctionList")
	if err != nil {
		return module{}, fmt.Errorf("%s is not a PKCS #11 module: %w", path, err)
	}
	var list *functionList
	rv, _, _ := purego.SyscallN(get, uintptr(unsafe.Pointer(&list)))
	if err := check("list its functions", rv); err != nil {
		return module{}, err
	}
	if list == nil {
		return module{}, fmt.Errorf("%w: it has no list of functions", errModule)
	}
	m := module{list}
	if rv := m.call(fnInitialize, 0); rv != alreadyInit {
		return m, check("initialise", rv)
	}
	return m, nil
}

// session is an open session with a token.
type session struct {
	module
	handle ulong
	key    ulong // the private key
	ref    reference
}

// open finds the token, logs in and finds the private key.
func open(r reference) (*session, error) {
	path, err := r.modulePath()
	if err != nil {
		return nil, err
	}
	pin, err := r.pin()
	if err != nil {
		return nil, err
	}
	m, err := load(path)
	if err != nil {
		return nil, err
	}
	slot, err := m.slot(r)
	if err != nil {
		return nil, err
	}
	s := &session{module: m, ref: r}
	if err := check("open a session", m.call(fnOpenSession, slot, serialSession, 0, 0, uintptr(unsafe.Pointer(&s.handle)))); err != nil {
		return nil, err
	}
	secret := []byte(pin)
	if rv := m.call(fnLogin, s.handle, userPIN, uintptr(unsafe.Pointer(&secret[0])), uintptr(len(secret))); rv != alreadyIn {
		if err := check("log in", rv); err != nil {
			return nil, err
		}
	}
	clear(secret)
	found, err := s.find(classPrivate, r.object, r.id)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("the token has %s private keys for %s; name one by object= and id=", manyOf(len(found)), r.record())
	}
	s.key = found[0]
	return s, nil
}

func manyOf(n int) string {
	if n == 0 {
		return "no"
	}
	return "several"
}

// slot finds the one slot whose token fits.
func (m module) slot(r reference) (ulong, error) {
	var n ulong
	if err := check("count its slots", m.call(fnGetSlotList, 1, 0, uintptr(unsafe.Pointer(&n)))); err != nil {
		return 0, err
	}
	if n > maxSlots {
		return 0, fmt.Errorf("%w: %d slots", errModule, n)
	}
	list := make([]ulong, n+1)
	if err := check("list its slots", m.call(fnGetSlotList, 1, uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&n)))); err != nil {
		return 0, err
	}
	var fit []ulong
	for _, slot := range list[:min(n, ulong(len(list)))] {
		label, serial, err := m.token(slot)
		if err != nil {
			return 0, err
		}
		if (r.token == "" || r.token == label) && (r.serial == "" || r.serial == serial) && (r.slot < 0 || ulong(r.slot) == slot) {
			fit = append(fit, slot)
		}
	}
	if len(fit) != 1 {
		return 0, fmt.Errorf("the module has %s tokens for %s; name one by token=, serial= or slot-id=", manyOf(len(fit)), r.record())
	}
	return fit[0], nil
}

// token reads label and serial number of the token in a slot (CK_TOKEN_INFO).
func (m module) token(slot ulong) (label, serial string, err error) {
	var info [64]uint64 // more than the structure, and aligned like it
	if err := check("read a token's label", m.call(fnGetTokenInfo, slot, uintptr(unsafe.Pointer(&info)))); err != nil {
		return "", "", err
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	text := func(from, to int) string { return strings.TrimRight(string(raw[from:to]), " \x00") }
	return text(0, 32), text(80, 96), nil
}

// find lists up to two objects of a class with a label and id.
func (s *session) find(class ulong, label string, id []byte) ([]ulong, error) {
	template := []attribute{numberAttribute(attrClass, class)}
	if label != "" {
		template = append(template, bytesAttribute(attrLabel, []byte(label)))
	}
	if len(id) > 0 {
		template = append(template, bytesAttribute(attrID, id))
	}
	if err := check("look for a key", s.call(fnFindObjectsInit, s.handle, uintptr(unsafe.Pointer(&template[0])), uintptr(len(template)))); err != nil {
		return nil, err
	}
	found := make([]ulong, 2)
	var n ulong
	err := check("look for a key", s.call(fnFindObjects, s.handle, uintptr(unsafe.Pointer(&found[0])), uintptr(len(found)), uintptr(unsafe.Pointer(&n))))
	runtime.KeepAlive(template)
	if err == nil {
		err = check("look for a key", s.call(fnFindObjectsFinal, s.handle))
	}
	return found[:min(n, ulong(len(found)))], err
}

// attribute reads an attribute of an object.
func (s *session) attribute(object, typ ulong) ([]byte, error) {
	a := []attribute{{typ: typ}}
	read := func() error {
		return check(fmt.Sprintf("read attribute 0x%x", typ), s.call(fnGetAttributeValue, s.handle, object, uintptr(unsafe.Pointer(&a[0])), 1))
	}
	if err := read(); err != nil {
		return nil, err
	}
	if a[0].size == 0 || a[0].size > maxAttribute {
		return nil, fmt.Errorf("%w: attribute 0x%x has no value, or a value without end", errModule, typ)
	}
	value := make([]byte, a[0].size)
	a[0].value = unsafe.Pointer(&value[0])
	if err := read(); err != nil {
		return nil, err
	}
	return value[:min(int(a[0].size), len(value))], nil
}

// sign signs data as a mechanism has it.
func (s *session) sign(mechanism ulong, data []byte) ([]byte, error) {
	m := []attribute{{typ: mechanism}} // CK_MECHANISM has the same form
	if err := check("begin to sign", s.call(fnSignInit, s.handle, uintptr(unsafe.Pointer(&m[0])), s.key)); err != nil {
		return nil, err
	}
	out := make([]byte, maxSignature)
	n := ulong(len(out))
	if err := check("sign", s.call(fnSign, s.handle, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&out[0])), uintptr(unsafe.Pointer(&n)))); err != nil {
		return nil, err
	}
	return out[:min(n, ulong(len(out)))], nil
}
