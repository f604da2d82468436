package secret

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// azureVersion is the version of Key Vault's REST interface.
const azureVersion = "7.4"

// fromAzure reads a secret of Azure Key Vault with a client secret
// (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET). The vault is given by
// its name or its base URL.
func (r *Resolver) fromAzure(ctx context.Context, s *policy.AzureSource) (string, error) {
	tenant, id, key := r.env("AZURE_TENANT_ID"), r.env("AZURE_CLIENT_ID"), r.env("AZURE_CLIENT_SECRET")
	if tenant == "" || id == "" || key == "" {
		return "", errFinal{errors.New("no credentials; set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")}
	}
	client, err := r.client(nil)
	if err != nil {
		return "", err
	}
	login := r.endpoint("azure-login", "https://login.microsoftonline.com") + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token"
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {key},
		"scope": {"https://vault.azure.net/.default"},
	}
	token, err := r.exchangeToken(ctx, client, login, form)
	if err != nil {
		return "", err
	}
	base := s.Vault
	if !strings.Contains(base, "://") {
		base = "https://" + base + ".vault.azure.net"
	}
	target := r.endpoint("azure", strings.TrimRight(base, "/")) + "/secrets/" + escapePath(s.Secret)
	if s.Version != "" {
		target += "/" + escapePath(s.Version)
	}
	req, err := newRequest("GET", target+"?api-version="+azureVersion, "", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	var answer struct{ Value string }
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	return answer.Value, nil
}
