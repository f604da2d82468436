package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseReference(t *testing.T) {
	for in, want := range map[string]string{
		"pkcs11://token=wallproof;object=signer":                          "pkcs11://token=wallproof;object=signer",
		"pkcs11:token=wall%20proof;object=a%3Bb;type=private":             "pkcs11://token=wall%20proof;object=a%3Bb",
		"pkcs11:serial=1f;id=%01%ff?module-path=/m.so&pin-source=file:/p": "pkcs11://serial=1f;id=%01%FF",
		"pkcs11:slot-id=0;object=x":                                       "pkcs11://slot-id=0;object=x",
	} {
		r, err := parseReference(in)
		if err != nil || r.record() != want {
			t.Errorf("%s: %s, %v, want %s", in, r.record(), err, want)
			continue
		}
		if again, err := parseReference(r.record()); err != nil || again.record() != want {
			t.Errorf("%s is read again as %s, %v", want, again.record(), err)
		}
	}
	for in, text := range map[string]string{
		"gcpkms://x": "not a PKCS #11 reference", "pkcs11:": "name the token", "pkcs11:token=x": "name the key", "pkcs11:object=x": "name the token",
		"pkcs11:token=x;object=y;colour=z": "colour", "pkcs11:token=x;object=y?pin-value=1234": pinVariable, "pkcs11:token=x;object=y?pin-source=|cat": "file:/",
		"pkcs11:token=x;object": "NAME=VALUE", "pkcs11:token=%zz;object=y": "token", "pkcs11:slot-id=-1;object=y": "slot-id", "pkcs11:token=x;object=y;type=cert": "private",
		"pkcs11:token=x;object=y?x=y": `"x"`,
	} {
		if _, err := parseReference(in); !errors.Is(err, errReference) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", in, err, text)
		}
	}
}

func TestModuleAndPIN(t *testing.T) {
	t.Setenv(moduleVariable, "")
	t.Setenv(pinVariable, "")
	if _, err := (reference{}).modulePath(); err == nil {
		t.Error("a module out of nowhere")
	}
	if _, err := (reference{}).pin(); err == nil {
		t.Error("a PIN out of nowhere")
	}
	file := filepath.Join(t.TempDir(), "pin")
	if _, err := (reference{pinFile: file}).pin(); err == nil {
		t.Error("a PIN out of a file that is not there")
	}
	for content, want := range map[string]string{"1234\n": "1234", "12 34\r\nx": "12 34", "1": "1", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (reference{pinFile: file}).pin()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	t.Setenv(moduleVariable, "/m.so")
	t.Setenv(pinVariable, "5678")
	if path, err := (reference{}).modulePath(); path != "/m.so" || err != nil {
		t.Errorf("%s, %v", path, err)
	}
	if pin, err := (reference{}).pin(); pin != "5678" || err != nil {
		t.Errorf("%s, %v", pin, err)
	}
}
