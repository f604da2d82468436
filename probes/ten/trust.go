package ten

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// trustFiles are where programs look for the authorities that they believe, and
// trustVariables name further ones.
var (
	trustFiles = []string{"/etc/ssl/certs/*", "/etc/ssl/cert.pem", "/etc/pki/tls/certs/*", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted/pem/*",
		"/etc/ca-certificates/*", "/usr/local/share/ca-certificates/*", "/usr/share/ca-certificates/*", "/etc/wallproof/*"}
	trustVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"}
)

// authority looks whether a certificate that the neighbour's authority has signed, its
// own, would be believed by what this sandbox's programs believe.
func authority(_ context.Context, env *probes.Env) manifest.Observation {
	theirs := certificates([]byte(env.Facts.Tenant.CA))
	if len(theirs) == 0 {
		return kit.Missing("the neighbour's authority is not known")
	}
	list := []string{env.Facts.CAFile}
	for _, pattern := range trustFiles {
		found, _ := filepath.Glob(pattern)
		list = append(list, found...)
	}
	for _, name := range trustVariables {
		list = append(list, os.Getenv(name))
	}
	looked := 0
	for _, path := range list {
		if path == "" {
			continue
		}
		b, err := kit.ReadHead(path, maxTrust)
		if err != nil {
			continue
		}
		looked++
		for _, believed := range certificates(b) {
			for _, c := range theirs {
				if c.Equal(believed) || c.CheckSignatureFrom(believed) == nil {
					return manifest.Observation{Sign: manifest.SignReached, Detail: path + " believes the neighbour's authority"}
				}
			}
		}
	}
	return manifest.Observation{Sign: manifest.SignAbsent, Detail: kit.Count(looked, "file of authorities", "files of authorities") + ", the neighbour's is in none"}
}

// maxTrust bounds what is read of a file of authorities.
const maxTrust = 2 << 20

// certificates are those in a PEM text.
func certificates(b []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
}

// otherLease asks the git host to repeat a credential that this sandbox's proxy has not
// lent out. Only that very credential is proof.
func otherLease(ctx context.Context, env *probes.Env) manifest.Observation {
	u, err := url.Parse(env.Facts.Broker.Repo)
	if err != nil || u.Hostname() == "" {
		return kit.Missing("the repository has no address")
	}
	lease := canary.Derive([]byte("another sandbox's lease " + env.Nonce))
	r := &kit.Request{Scheme: u.Scheme, Host: u.Hostname(),
		Path:   strings.TrimSuffix(u.Path, "/") + paths.Build("", paths.Echo, env.Nonce, url.Values{paths.QueryEncoding: {paths.EncodingRaw}}),
		Header: []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+lease))}}
	if u.Port() != "" {
		if r.Port, err = strconv.Atoi(u.Port()); err != nil {
			return kit.Sign(err)
		}
	}
	return kit.CanaryOnly(kit.Web(ctx, env, r))
}
