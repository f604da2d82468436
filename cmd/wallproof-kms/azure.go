package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/wallproof/wallproof/attest/keyref"
)

var azureReference = regexp.MustCompile(`\Aazurekms://([^/]+)/([^/]+)(?:/([a-z0-9]*))?\z`)

// describeAzure pins the version of a key in an Azure key vault or managed HSM:
// the one named, or the current one.
func describeAzure(ctx context.Context, ref string) (keyref.Description, error) {
	m := azureReference.FindStringSubmatch(ref)
	if m == nil {
		return keyref.Description{}, fmt.Errorf("%.200q is not azurekms://VAULT.vault.azure.net/KEY[/VERSION]", ref)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return keyref.Description{}, fmt.Errorf("find credentials for Azure: %w", err)
	}
	client, err := azkeys.NewClient("https://"+m[1]+"/", credential, nil)
	if err != nil {
		return keyref.Description{}, fmt.Errorf("connect to the key vault: %w", err)
	}
	key, err := client.GetKey(ctx, m[2], m[3], nil)
	if err != nil {
		return keyref.Description{}, fmt.Errorf("look for the key %s: %w", ref, err)
	}
	if key.Key == nil || key.Key.KID == nil || key.Key.KID.Version() == "" {
		return keyref.Description{}, errors.New("the key vault did not say which version of the key it has")
	}
	d := keyref.Description{URI: "azurekms://" + m[1] + "/" + m[2] + "/" + key.Key.KID.Version(), State: "ENABLED"}
	if a := key.Attributes; a != nil && a.Enabled != nil && !*a.Enabled {
		return keyref.Description{}, fmt.Errorf("%s is disabled; name a version that is enabled", d.URI)
	}
	if t := key.Key.Kty; t != nil {
		d.Protection = "SOFTWARE"
		if *t == azkeys.KeyTypeECHSM || *t == azkeys.KeyTypeRSAHSM {
			d.Protection = "HSM"
		}
	}
	return d, nil
}
