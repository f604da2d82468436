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
	"github.com/wallproof/wallproof/probes/plant"
)

// canaries stand in for everything that is secret in one phase.
type canaries struct {
	own                      tenantSecrets // of the tenant under test
	tenant                   tenantSecrets // of the neighbour
	git                      string        // a full git credential, as a platform without a broker would hand out
	gitMark                  string        // what stands in for it in the sandbox
	metadata                 string        // secret part of what metadata services answer
	hostEnv                  string        // in the environment of the process that runs the sandboxes
	hostFile                 string        // in a file of the host
	prior                    string        // of the prior run in the snapshot's lineage
	platform                 string        // the token of the platform that runs the sandboxes
	platformVariable         string        // brings it inside, by the policy; "" for nothing
	neighbour, neighbourMark string        // the neighbour's secret where the policy names none
	modelKey, tenantModelKey string        // the run's own keys for the model: worth nothing outside, so no canaries
	key                      *rsa.PrivateKey
	keyPEM                   string
}

// tenantSecrets are one tenant's secrets by the names that the policy gives
// them.
type tenantSecrets []proxy.Secret

// find returns the secret of a name.
func (t tenantSecrets) find(name string) proxy.Secret {
	for _, s := range t {
		if s.Name == name {
			return s
		}
	}
	return proxy.Secret{}
}

// bare returns the secrets as a platform without a proxy would hand them out:
// with nothing in their place.
func (t tenantSecrets) bare() tenantSecrets {
	out := make(tenantSecrets, len(t))
	for i, s := range t {
		s.Placeholder = s.Value
		out[i] = s
	}
	return out
}

// placeholders lists what stands in the secrets' places.
func (t tenantSecrets) placeholders() []string {
	var out []string
	for _, s := range t {
		out = append(out, s.Placeholder)
	}
	return out
}

// newCanaries draws a phase's canaries for what a policy holds.
func newCanaries(p *policy.Policy, random io.Reader) (canaries, error) {
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
	c.git, c.metadata, c.hostEnv, c.hostFile, c.prior, c.neighbour, c.platform = draw(), draw(), draw(), draw(), draw(), draw(), draw()
	c.gitMark, c.neighbourMark = proxy.NewPlaceholder(), proxy.NewPlaceholder()
	c.modelKey, c.tenantModelKey = proxy.NewModelKey(), proxy.NewModelKey()
	if err != nil {
		return canaries{}, fmt.Errorf("draw canaries: %w", err)
	}
	if len(p.Broker) == 0 {
		return c, nil
	}
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

// brokerKeys is what the enforcing proxy is told of the policy's brokers: all of
// them sign with the phase's one key.
func (c canaries) brokerKeys(p *policy.Policy) map[string]string {
	if c.key == nil {
		return nil
	}
	out := map[string]string{}
	for _, b := range p.Broker {
		out[b.Name] = c.keyPEM
	}
	return out
}

// plant is the phase's canaries as plantings need them.
func (c canaries) plant() plant.Canaries {
	out := plant.Canaries{HostEnv: c.hostEnv, HostFile: c.hostFile, Prior: c.prior, Platform: plant.Secret{Name: c.platformVariable, Value: c.platform}}
	for _, s := range c.own {
		out.Own = append(out.Own, plant.Secret{Name: s.Name, Value: s.Value, Placeholder: s.Placeholder})
	}
	out.Git = plant.Secret{Name: "GITHUB_TOKEN", Value: c.git, Placeholder: c.gitMark}
	out.AgentToken = out.Git
	out.Tenant = plant.Secret{Name: "TENANT_TOKEN", Value: c.neighbour, Placeholder: c.neighbourMark}
	if len(c.tenant) > 0 {
		t := c.tenant[0]
		out.Tenant = plant.Secret{Name: t.Name, Value: t.Value, Placeholder: t.Placeholder}
	}
	return out
}

// all lists every value that may not be in the packet.
func (c canaries) all() []string {
	out := []string{c.git, c.metadata, c.hostEnv, c.hostFile, c.prior, c.neighbour, c.platform}
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
