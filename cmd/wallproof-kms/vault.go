package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	vault "github.com/hashicorp/vault/api"

	"github.com/wallproof/wallproof/attest/keyref"
)

var vaultReference = regexp.MustCompile(`\A(?:hashivault|openbao)://([\w.-]+)\z`)

// describeVault says which version of a transit key signs. A reference cannot
// name one: Vault signs with the latest.
func describeVault(ctx context.Context, ref string) (keyref.Description, error) {
	m := vaultReference.FindStringSubmatch(ref)
	if m == nil {
		return keyref.Description{}, fmt.Errorf("%.200q is not hashivault://KEY", ref)
	}
	address := firstSet("VAULT_ADDR", "BAO_ADDR")
	if address == "" {
		return keyref.Description{}, fmt.Errorf("set VAULT_ADDR or BAO_ADDR to the server's address")
	}
	client, err := vault.NewClient(&vault.Config{Address: address})
	if err != nil {
		return keyref.Description{}, fmt.Errorf("connect to Vault: %w", err)
	}
	if token := firstSet("VAULT_TOKEN", "BAO_TOKEN"); token != "" {
		client.SetToken(token)
	}
	engine := firstSet("TRANSIT_SECRET_ENGINE_PATH")
	if engine == "" {
		engine = "transit"
	}
	key, err := client.Logical().ReadWithContext(ctx, engine+"/keys/"+m[1])
	if err != nil {
		return keyref.Description{}, fmt.Errorf("look for the key %s: %w", ref, err)
	}
	if key == nil {
		return keyref.Description{}, fmt.Errorf("the engine %s has no key %s", engine, m[1])
	}
	version, ok := key.Data["latest_version"].(json.Number)
	if !ok {
		return keyref.Description{}, fmt.Errorf("the engine %s did not say which version the key %s has", engine, m[1])
	}
	return keyref.Description{URI: ref, Version: version.String(), State: "ENABLED"}, nil
}

// firstSet is the first of some environment variables that has a value.
func firstSet(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}
