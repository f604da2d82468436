package secret

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// fromVault reads one field of a key/value secret of HashiCorp Vault or
// OpenBao. VAULT_TOKEN (or BAO_TOKEN) is the credential; VAULT_ADDR,
// VAULT_NAMESPACE and VAULT_CACERT have their usual meaning.
func (r *Resolver) fromVault(ctx context.Context, s *policy.VaultSource) (string, error) {
	addr := firstOf(s.Address, r.env("VAULT_ADDR"), r.env("BAO_ADDR"))
	token := firstOf(r.env("VAULT_TOKEN"), r.env("BAO_TOKEN"))
	switch {
	case addr == "":
		return "", errFinal{fmt.Errorf("no address; set vault.address in the policy or VAULT_ADDR")}
	case token == "":
		return "", errFinal{fmt.Errorf("no token; set VAULT_TOKEN")}
	}
	req, err := newRequest("GET", vaultURL(addr, s), "", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true")
	if ns := firstOf(s.Namespace, r.env("VAULT_NAMESPACE")); ns != "" {
		req.Header.Set("X-Vault-Namespace", ns)
	}
	var roots []byte
	if path := firstOf(r.env("VAULT_CACERT"), r.env("BAO_CACERT")); path != "" {
		if roots, err = r.read(path); err != nil {
			return "", errFinal{err}
		}
	}
	client, err := r.client(roots)
	if err != nil {
		return "", err
	}
	var answer struct{ Data map[string]any }
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	data := answer.Data
	if engine(s) == 2 {
		data, _ = answer.Data["data"].(map[string]any)
	}
	value, ok := data[s.Field].(string)
	if !ok {
		return "", fmt.Errorf("%w: field %q is not there or not a text", ErrMissing, s.Field)
	}
	return value, nil
}

func engine(s *policy.VaultSource) int64 {
	if s.Engine == 1 {
		return 1
	}
	return 2
}

func vaultURL(addr string, s *policy.VaultSource) string {
	mount := firstOf(s.Mount, "secret")
	if engine(s) == 1 {
		return strings.TrimRight(addr, "/") + "/v1/" + escapePath(mount) + "/" + escapePath(s.Path)
	}
	u := strings.TrimRight(addr, "/") + "/v1/" + escapePath(mount) + "/data/" + escapePath(s.Path)
	if s.Version > 0 {
		u += "?version=" + strconv.FormatInt(s.Version, 10)
	}
	return u
}

func escapePath(p string) string {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
