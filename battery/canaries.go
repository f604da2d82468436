package battery

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/canary"
)

// canaries stand in for everything that is secret in one phase.
type canaries struct {
	own      tenantSecrets // of the tenant under test
	tenant   tenantSecrets // of the neighbour
	git      string        // a full git credential, as a platform without a broker would hand out
	gitMark  string        // what stands in for it in the sandbox
	metadata string        // secret part of what metadata services answer
	hostEnv  string        // in the environment of the process that runs the sandboxes
	hostFile string        // in a file of the host
	prior    string        // of the prior run in the snapshot's lineage
	key      *rsa.PrivateKey
	keyPEM   string
	appID    string
}

// tenantSecrets are one tenant's secrets by the names that the policy gives
// them.
type tenantSecrets []proxy.Secret

func (t tenantSecrets) proxy() []proxy.Secret { return t }

// find returns the secret of a name.
func (t tenantSecrets) find(name string) proxy.Secret {
	for _, s := range t {
		if s.Name == name {
			return s
		}
	}
	return proxy.Secret{}
}

// newCanaries draws a phase's canaries for what a policy holds.
func newCanaries(p *policy.Policy, r *roles, random io.Reader) (canaries, error) {
	var c canaries
	var err error
	draw := func() string {
		s, e := canary.New(random)
		if e != nil && err == nil {
			err = e
		}
		return s
	}
	secrets := func() (out tenantSecrets) {
		for _, s := range p.Secrets {
			placeholder := s.Placeholder
			if placeholder == "" {
				placeholder = proxy.NewPlaceholder()
			}
			out = append(out, proxy.Secret{Name: s.Name, Value: draw(), Placeholder: placeholder})
		}
		return out
	}
	c.own, c.tenant = secrets(), secrets()
	c.git, c.metadata, c.hostEnv, c.hostFile, c.prior = draw(), draw(), draw(), draw(), draw()
	c.gitMark = proxy.NewPlaceholder()
	if err != nil {
		return canaries{}, fmt.Errorf("draw canaries: %w", err)
	}
	if r.lease == nil {
		return c, nil
	}
	c.appID = r.lease.Broker.App
	if c.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return canaries{}, fmt.Errorf("make the broker's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return canaries{}, fmt.Errorf("encode the broker's key: %w", err)
	}
	c.keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return c, nil
}

// publicPEM is the forge's side of the broker's key.
func (c canaries) publicPEM() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(&c.key.PublicKey)
	if err != nil {
		return "", fmt.Errorf("encode the broker's public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

// broker is what the enforcing proxy is told of the broker.
func (c canaries) broker() *proxy.Broker {
	if c.key == nil {
		return nil
	}
	return &proxy.Broker{AppID: c.appID, PrivateKeyPEM: c.keyPEM}
}

// all lists every value that may not be in the packet.
func (c canaries) all() []string {
	out := []string{c.git, c.metadata, c.hostEnv, c.hostFile, c.prior}
	for _, t := range []tenantSecrets{c.own, c.tenant} {
		for _, s := range t {
			out = append(out, s.Value)
		}
	}
	if c.keyPEM != "" {
		out = append(out, c.keyPEM)
	}
	return out
}
