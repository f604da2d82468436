package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	gcpkms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/gcp"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wallproof/wallproof/attest/keyref"
)

// Environment variables of a private or test endpoint.
const (
	endpointVariable  = "WALLPROOF_GCPKMS_ENDPOINT"
	plaintextVariable = "WALLPROOF_GCPKMS_PLAINTEXT"
)

// clientOptions are what the environment asks for. Plaintext is refused towards
// another machine, since credentials are then dropped and the answer is forged
// by whoever stands in between.
func clientOptions() []option.ClientOption {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		return nil
	}
	out := []option.ClientOption{option.WithEndpoint(endpoint)}
	host, _, err := net.SplitHostPort(endpoint)
	if ip := net.ParseIP(host); os.Getenv(plaintextVariable) == "1" && err == nil && ip != nil && ip.IsLoopback() {
		out = append(out, option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	return out
}

func gcpOptions() []signature.RPCOption {
	var out []signature.RPCOption
	for _, o := range clientOptions() {
		out = append(out, gcp.WithGoogleAPIClientOption(o))
	}
	return out
}

var gcpReference = regexp.MustCompile(`\Agcpkms://(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)(?:/(?:cryptoKeyVersions|versions)/([^/]+))?\z`)

// describeGCP pins the version of a key: the one named, or the newest that is
// enabled.
func describeGCP(ctx context.Context, ref string) (keyref.Description, error) {
	m := gcpReference.FindStringSubmatch(ref)
	if m == nil {
		return keyref.Description{}, fmt.Errorf("%.200q is not gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K[/cryptoKeyVersions/N]", ref)
	}
	client, err := gcpkms.NewKeyManagementClient(ctx, clientOptions()...)
	if err != nil {
		return keyref.Description{}, fmt.Errorf("connect to the key service: %w", err)
	}
	defer client.Close()
	version, err := findVersion(ctx, client, m[1], m[2])
	if err != nil {
		return keyref.Description{}, err
	}
	if version.GetState() != kmspb.CryptoKeyVersion_ENABLED {
		return keyref.Description{}, fmt.Errorf("%s is %s; name a version that is enabled", version.GetName(), version.GetState())
	}
	if err := checkPublicKey(ctx, client, version.GetName()); err != nil {
		return keyref.Description{}, err
	}
	return keyref.Description{URI: "gcpkms://" + version.GetName(), Protection: version.GetProtectionLevel().String(), State: version.GetState().String()}, nil
}

func findVersion(ctx context.Context, client *gcpkms.KeyManagementClient, key, version string) (*kmspb.CryptoKeyVersion, error) {
	if version != "" {
		v, err := client.GetCryptoKeyVersion(ctx, &kmspb.GetCryptoKeyVersionRequest{Name: key + "/cryptoKeyVersions/" + version})
		if err != nil {
			return nil, fmt.Errorf("look for version %s of %s: %w", version, key, err)
		}
		return v, nil
	}
	var newest *kmspb.CryptoKeyVersion
	list := client.ListCryptoKeyVersions(ctx, &kmspb.ListCryptoKeyVersionsRequest{Parent: key, Filter: "state=ENABLED"})
	for {
		v, err := list.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the versions of %s: %w", key, err)
		}
		if v.GetState() == kmspb.CryptoKeyVersion_ENABLED && number(v.GetName()) > number(newest.GetName()) {
			newest = v
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%s has no enabled version", key)
	}
	return newest, nil
}

// number is the number at the end of a version's name, −1 where there is none.
func number(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '/')+1:])
	if err != nil {
		return -1
	}
	return n
}

// checkPublicKey reads the public key and compares the checksum that the service
// sends with it, as its documentation asks of clients.
func checkPublicKey(ctx context.Context, client *gcpkms.KeyManagementClient, name string) error {
	key, err := client.GetPublicKey(ctx, &kmspb.GetPublicKeyRequest{Name: name})
	if err != nil {
		return fmt.Errorf("read the public key of %s: %w", name, err)
	}
	sum := crc32.Checksum([]byte(key.GetPem()), crc32.MakeTable(crc32.Castagnoli))
	if key.GetPemCrc32C() == nil || key.GetPemCrc32C().GetValue() != int64(sum) || key.GetName() != name {
		return fmt.Errorf("the public key of %s was damaged on its way, or is another's", name)
	}
	return nil
}
