// Wallproof-kms is the helper that holds the clients of the key services of
// Google Cloud, AWS, Azure and HashiCorp Vault or OpenBao, so that the programs
// that verify do not carry them. It speaks Sigstore's KMS plugin protocol and is
// installed under one name a service:
//
//	sigstore-kms-gcpkms  sigstore-kms-awskms  sigstore-kms-azurekms  sigstore-kms-hashivault
//
// so it also serves every other tool that knows the protocol. Beyond it,
//
//	sigstore-kms-SCHEME describe SCHEME://…
//
// prints one JSON object: the reference with the version of the key that signs,
// its protection level and its state.
//
// A test or private endpoint for Google's service is named by
// WALLPROOF_GCPKMS_ENDPOINT (host:port); WALLPROOF_GCPKMS_PLAINTEXT=1 drops TLS
// and credentials, and works only towards this machine.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/aws"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/azure"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/common"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/gcp"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/hashivault"

	"github.com/wallproof/wallproof/attest/keyref"
)

const prefix = "sigstore-kms-"

// callTimeout bounds a call to a key service when the caller sets no nearer deadline,
// and grace is how long before it the helper gives up, to say so.
const (
	callTimeout = 60 * time.Second
	grace       = time.Second
)

func main() {
	scheme := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(os.Args[0]), prefix), ".exe")
	if len(os.Args) == 3 && os.Args[1] == "describe" {
		if err := printDescription(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
			os.Exit(1)
		}
		return
	}
	if err := serve(os.Stdout, os.Stdin, scheme, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

// serve answers one call of the protocol.
func serve(stdout io.Writer, stdin io.Reader, scheme string, args []string) error {
	plugin, err := handler.GetPluginArgs(args)
	if err != nil {
		return handler.WriteErrorResponse(stdout, err)
	}
	if plugin.InitOptions == nil || plugin.MethodArgs == nil {
		return handler.WriteErrorResponse(stdout, fmt.Errorf("init options or method are missing"))
	}
	deadline := time.Now().Add(callTimeout)
	if d := plugin.InitOptions.CtxDeadline; d != nil && d.Add(-grace).Before(deadline) {
		deadline = d.Add(-grace)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	answered := make(chan []byte, 1)
	go func() { answered <- answer(ctx, stdin, scheme, plugin) }()
	select {
	case response := <-answered:
		_, err = stdout.Write(response)
		return err
	case <-ctx.Done():
		// The clients of some services know no deadline, and wait for as long as a
		// busy service asks them to. The program ends here, and the call with it.
		return handler.WriteErrorResponse(stdout, errors.New("the key service gave no answer in time, or asked to wait for longer; try again later"))
	}
}

// answer is the response to one call.
func answer(ctx context.Context, stdin io.Reader, scheme string, plugin *common.PluginArgs) []byte {
	var out bytes.Buffer
	sv, err := open(ctx, scheme, plugin.InitOptions)
	if err == nil {
		_, err = handler.Dispatch(&out, stdin, plugin, sv)
	}
	if err != nil {
		out.Reset()
		if failed := handler.WriteErrorResponse(&out, err); failed != nil {
			return []byte("{}")
		}
	}
	return out.Bytes()
}

func open(ctx context.Context, scheme string, init *common.InitOptions) (kms.SignerVerifier, error) {
	var opts []signature.RPCOption
	if scheme == "gcpkms" {
		opts = gcpOptions()
	}
	return kms.Get(ctx, scheme+"://"+init.KeyResourceID, init.HashFunc, opts...)
}

func printDescription(w io.Writer, ref string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	d, err := describe(ctx, ref)
	if err != nil {
		return err
	}
	return d.Write(w)
}

// describe asks a service about a key. A key of AWS has one version for ever.
func describe(ctx context.Context, ref string) (keyref.Description, error) {
	switch scheme, _, _ := strings.Cut(ref, "://"); scheme {
	case "gcpkms":
		return describeGCP(ctx, ref)
	case "azurekms":
		return describeAzure(ctx, ref)
	case "hashivault", "openbao":
		return describeVault(ctx, ref)
	}
	return keyref.Description{URI: ref}, nil
}
