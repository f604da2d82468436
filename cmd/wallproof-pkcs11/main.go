//go:build (linux || darwin) && (amd64 || arm64)

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
)

const scheme = "pkcs11://"

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
		if r, err = parseReference(scheme + plugin.InitOptions.KeyResourceID); err == nil {
			s, err = newSigner(r, plugin.InitOptions.HashFunc)
		}
	}
	if err != nil {
		return handler.WriteErrorResponse(stdout, err)
	}
	_, err = handler.Dispatch(stdout, stdin, plugin, s)
	return err
}

// description is what describe prints.
type description struct {
	URI    string `json:"uri"`
	Record string `json:"record"` // what goes into evidence
}

func describe(w io.Writer, ref string) error {
	r, err := parseReference(ref)
	if err != nil {
		return err
	}
	if _, err := open(r); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(description{URI: ref, Record: r.record()})
}
