package verify_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const ownModule = "github.com/wallproof/wallproof"

// forbidden are the packages through which a program reaches the network, files
// or processes. net/netip and net/url are plain data and allowed.
var forbidden = []string{"net", "net/http", "net/rpc", "net/smtp", "os", "os/exec", "os/signal", "os/user", "plugin", "syscall", "unsafe"}

// thirdParty are modules below the verifier that import one of them, with the
// reason why that is accepted. Nothing that the verifier calls in them opens a
// socket: TestE5VerifyOpensNoSocket runs it where that would kill the process.
var thirdParty = map[string]string{
	"github.com/asaskevich/govalidator":                 "parses addresses; linked by rekor's generated types",
	"github.com/digitorus/pkcs7":                        "RFC 3161 timestamps; os only in a debugging helper",
	"github.com/go-logr/logr":                           "logging interface of OpenTelemetry",
	"github.com/go-logr/stdr":                           "logging of OpenTelemetry",
	"github.com/go-openapi/analysis":                    "rekor's generated types",
	"github.com/go-openapi/errors":                      "rekor's generated types; status names",
	"github.com/go-openapi/jsonpointer":                 "rekor's generated types",
	"github.com/go-openapi/loads":                       "rekor's generated types",
	"github.com/go-openapi/runtime":                     "rekor's generated types",
	"github.com/go-openapi/runtime/server-middleware":   "rekor's generated types",
	"github.com/go-openapi/spec":                        "rekor's generated types",
	"github.com/go-openapi/strfmt":                      "rekor's generated types; parses addresses",
	"github.com/go-openapi/swag/fileutils":              "rekor's generated types",
	"github.com/go-openapi/swag/loading":                "rekor's generated types",
	"github.com/go-openapi/swag/netutils":               "rekor's generated types",
	"github.com/go-openapi/validate":                    "rekor's generated types",
	"github.com/go-viper/mapstructure/v2":               "rekor's generated types; decodes addresses",
	"github.com/google/certificate-transparency-go":     "certificate logs: its copy of crypto/x509",
	"github.com/google/go-containerregistry":            "digest parsing in sigstore's payloads",
	"github.com/google/uuid":                            "rekor's entry ids; reads interfaces only for version 1",
	"github.com/grpc-ecosystem/grpc-gateway/v2":         "annotations of rekor-tiles' protobufs",
	"github.com/in-toto/in-toto-golang":                 "rekor's intoto entry type; files only when running a layout",
	"github.com/secure-systems-lab/go-securesystemslib": "DSSE; os only when reading key files",
	"github.com/sigstore/rekor":                         "log entry types",
	"github.com/sigstore/rekor-tiles/v2":                "log entry types of Rekor v2",
	"github.com/sigstore/sigstore":                      "signature algorithms; os only when reading key files",
	"github.com/sigstore/sigstore-go":                   "bundle and verification; os for a warning on standard error",
	"github.com/theupdateframework/go-tuf/v2":           "linked by sigstore-go's root package; never called here",
	"go.opentelemetry.io/auto/sdk":                      "linked by go-openapi/runtime",
	"go.opentelemetry.io/otel":                          "linked by go-openapi/runtime",
	"go.opentelemetry.io/otel/trace":                    "linked by go-openapi/runtime",
	"golang.org/x/crypto":                               "its OCSP and OpenPGP types",
	"golang.org/x/net":                                  "http2 frames for gRPC's status types",
	"golang.org/x/sys":                                  "system call numbers",
	"google.golang.org/grpc":                            "status types of rekor-tiles' protobufs",
	"google.golang.org/protobuf":                        "os for an environment variable",
	"k8s.io/klog/v2":                                    "logging of certificate-transparency-go",
}

type listed struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

func TestVerifierImportsNothingThatReachesOut(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Module", ownModule+"/verify/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	used := map[string]bool{}
	own := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil {
			continue
		}
		if p.Module.Path == ownModule {
			own++
		}
		for _, name := range p.Imports {
			if !slices.Contains(forbidden, name) || (name == "unsafe" && p.Module.Path != ownModule) {
				continue
			}
			if p.Module.Path == ownModule {
				t.Errorf("%s imports %s: the verifier is bytes in, report out", strings.TrimPrefix(p.ImportPath, ownModule+"/"), name)
			}
			used[p.Module.Path] = true
			if thirdParty[p.Module.Path] == "" && p.Module.Path != ownModule {
				t.Errorf("%s imports %s: a new dependency of the verifier that reaches out; give the reason why it may, or do without", p.ImportPath, name)
			}
		}
	}
	if own < 8 {
		t.Errorf("only %d packages of our own were looked at", own)
	}
	for module := range thirdParty {
		if !used[module] {
			t.Logf("%s no longer reaches out", module)
		}
	}
}
