//go:build (linux || darwin) && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"

	"github.com/wallproof/wallproof/attest/keyref"
)

func main() {
	runtime.LockOSThread() // modules may keep state by thread
	err := run(os.Stdout, os.Stdin, os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sigstore-kms-pkcs11:", err)
		os.Exit(1)
	}
}

func run(stdout io.Writer, stdin io.Reader, args []string) error {
	if len(args) == 3 && args[1] == "describe" {
		return describe(stdout, args[2])
	}
	plugin, err := handler.GetPluginArgs(args)
	if err == nil && (plugin.InitOptions == nil || plugin.MethodArgs == nil) {
		err = errors.New("init options or method are missing")
	}
	var s *signer
	if err == nil {
		var r reference
		if r, err = parseReference(keyref.PKCS11 + "://" + plugin.InitOptions.KeyResourceID); err == nil {
			s, err = newSigner(r, plugin.InitOptions.HashFunc)
		}
	}
	if err != nil {
		return handler.WriteErrorResponse(stdout, err)
	}
	_, err = handler.Dispatch(stdout, stdin, plugin, s)
	return err
}

// describe says which key a reference names, once the token has it.
func describe(w io.Writer, ref string) error {
	r, err := parseReference(ref)
	if err != nil {
		return err
	}
	if _, err := open(r); err != nil {
		return err
	}
	return keyref.Description{URI: ref, Record: r.record()}.Write(w)
}
