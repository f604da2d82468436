package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/keyref"
)

// Variables of the environment.
const (
	moduleVariable = "WALLPROOF_PKCS11_MODULE"
	pinVariable    = "WALLPROOF_PKCS11_PIN"
)

// maxPIN bounds the file of pin-source.
const maxPIN = 4 << 10

var errReference = errors.New("not a PKCS #11 reference; write pkcs11://token=NAME;object=LABEL")

// reference names a key in a token, and how to get there.
type reference struct {
	token, serial, object string
	id                    []byte
	slot                  int64 // -1 for any
	module, pinFile       string
}

// parseReference reads a PKCS #11 URI.
func parseReference(s string) (reference, error) {
	r := reference{slot: -1}
	scheme, key, ok := keyref.Split(s)
	if !ok || scheme != keyref.PKCS11 {
		return r, fmt.Errorf("%w (%.200q)", errReference, s)
	}
	path, query, _ := strings.Cut(key, "?")
	for part := range strings.SplitSeq(path, ";") {
		if err := r.attribute(part); err != nil {
			return r, fmt.Errorf("%w: %w", errReference, err)
		}
	}
	for part := range strings.SplitSeq(query, "&") {
		if err := r.query(part); err != nil {
			return r, fmt.Errorf("%w: %w", errReference, err)
		}
	}
	switch {
	case r.token == "" && r.serial == "" && r.slot < 0:
		return r, fmt.Errorf("%w: name the token by token=, serial= or slot-id=", errReference)
	case r.object == "" && len(r.id) == 0:
		return r, fmt.Errorf("%w: name the key by object= or id=", errReference)
	}
	return r, nil
}

// attribute reads one attribute of the path.
func (r *reference) attribute(part string) error {
	name, value, err := pair(part)
	if err != nil || name == "" {
		return err
	}
	switch name {
	case "token":
		r.token = value
	case "serial":
		r.serial = value
	case "object":
		r.object = value
	case "id":
		r.id = []byte(value)
	case "slot-id":
		if r.slot, err = strconv.ParseInt(value, 10, 64); err != nil || r.slot < 0 {
			return fmt.Errorf("slot-id %.40q is not a number", value)
		}
	case "type":
		if value != "private" {
			return fmt.Errorf("type %.40q: only a private key signs", value)
		}
	default:
		return fmt.Errorf("attribute %.40q is not understood; there are token, serial, slot-id, object, id", name)
	}
	return nil
}

// query reads one attribute of the query.
func (r *reference) query(part string) error {
	name, value, err := pair(part)
	if err != nil || name == "" {
		return err
	}
	switch name {
	case "module-path":
		r.module = value
	case "pin-source":
		file, ok := strings.CutPrefix(value, "file:")
		if !ok {
			return errors.New("pin-source must be file:/…")
		}
		r.pinFile = strings.TrimPrefix(file, "//")
	case "pin-value":
		return fmt.Errorf("pin-value would be seen by other users of the machine: set %s, or use pin-source=file:/…", pinVariable)
	default:
		return fmt.Errorf("attribute %.40q is not understood; there are module-path, pin-source", name)
	}
	return nil
}

func pair(part string) (name, value string, err error) {
	if part == "" {
		return "", "", nil
	}
	name, value, ok := strings.Cut(part, "=")
	if !ok || value == "" {
		return "", "", fmt.Errorf("%.60q is not NAME=VALUE", part)
	}
	if value, err = url.PathUnescape(value); err != nil {
		return "", "", fmt.Errorf("%s: %w", name, err)
	}
	return name, value, nil
}

// record is the reference as it goes into evidence: what names the key, without
// the module's path and the PIN's.
func (r reference) record() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+escape(value))
		}
	}
	add("token", r.token)
	add("serial", r.serial)
	if r.slot >= 0 {
		add("slot-id", strconv.FormatInt(r.slot, 10))
	}
	add("object", r.object)
	add("id", string(r.id))
	return keyref.PKCS11 + "://" + strings.Join(parts, ";")
}

// escape writes everything but unreserved characters as %XX.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// modulePath is the module to load.
func (r reference) modulePath() (string, error) {
	path := r.module
	if path == "" {
		path = os.Getenv(moduleVariable)
	}
	if path == "" {
		return "", fmt.Errorf("no PKCS #11 module: set %s, or add ?module-path=/…", moduleVariable)
	}
	return path, nil
}

// pin is the token's PIN.
func (r reference) pin() (string, error) {
	if r.pinFile == "" {
		if pin := os.Getenv(pinVariable); pin != "" {
			return pin, nil
		}
		return "", fmt.Errorf("no PIN: set %s, or add ?pin-source=file:/…", pinVariable)
	}
	data, err := os.ReadFile(r.pinFile)
	if err != nil {
		return "", fmt.Errorf("read the PIN: %w", err)
	}
	line, _, _ := strings.Cut(string(data[:min(len(data), maxPIN)]), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("read the PIN: %s is empty", r.pinFile)
	}
	return line, nil
}
