package services

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/battery/witness/addr"
)

// role is the name of the instance's role wherever a cloud has one.
const role = "wallproof-role"

// expiry of every credential: long past, so that none could be of use even if
// it were real.
const expiry = "2001-01-01T00:00:00Z"

// Metadata answers as every cloud's metadata service at once: the clouds share
// addresses, so the path and the header fields say which one is meant. Request
// shapes are those of each vendor's documentation. canary is the secret part of
// each credential.
func Metadata(canary string) Service {
	m := metadata{canary: canary}
	return func(req Request) (Response, bool) {
		path := strings.TrimSuffix(req.Path, "/")
		for _, c := range m.clouds() {
			if c.matches(req, path) {
				return c.answer(req, path), true
			}
		}
		return text(http.StatusOK, lines("1.0", "2021-07-15", "latest", "computeMetadata", "metadata", "openstack", "opc")), true
	}
}

type metadata struct{ canary string }

// cloud is one vendor's service: the paths below its prefixes, at its own
// address if it has one.
type cloud struct {
	prefixes []string
	at       string // name of addr.Cloud, "" for the shared address
	answer   func(req Request, path string) Response
}

func (c cloud) matches(req Request, path string) bool {
	if c.at != "" && addr.Cloud(req.Dest.Addr()) != c.at {
		return false
	}
	for _, p := range c.prefixes {
		if path == p || strings.HasPrefix(path, p+"/") || p == "" {
			return true
		}
	}
	return false
}

// clouds lists those with an address of their own first.
func (m metadata) clouds() []cloud {
	return []cloud{
		{[]string{""}, "aws-ecs", m.ecs},
		{[]string{""}, "aws-eks", m.eks},
		{[]string{"/latest"}, "alibaba", m.roleBased("/latest/meta-data/ram/security-credentials", "X-Aliyun-Ecs-Metadata-Token")},
		{[]string{"/latest", "/volcstack/latest"}, "volcengine", m.volcengine},
		{[]string{"/latest"}, "tencent", m.roleBased("/latest/meta-data/cam/security-credentials", "")},
		{[]string{""}, "azure-wireserver", m.wireserver},
		{[]string{"/computeMetadata"}, "", m.gcp},
		{[]string{"/metadata/v1", "/metadata/v1.json"}, "", m.digitalOcean},
		{[]string{"/metadata/instance", "/metadata/identity", "/metadata/attested", "/metadata/scheduledevents"}, "", m.azure},
		{[]string{"/openstack"}, "", m.openStack},
		{[]string{"/opc"}, "", m.oracle},
		{[]string{"/instance_identity/v1", "/identity/v1"}, "", m.ibm},
		{[]string{"/latest/meta-data/ram"}, "", m.roleBased("/latest/meta-data/ram/security-credentials", "")},
		{[]string{"/latest/meta-data/cam"}, "", m.roleBased("/latest/meta-data/cam/security-credentials", "")},
		{[]string{"/latest", "/2009-04-04", "/2021-07-15", "/2018-09-24", "/2016-09-02"}, "", m.aws},
	}
}

// awsCredentials is the shape that EC2, ECS and EKS share.
func (m metadata) awsCredentials(req Request) Response {
	return object(req, http.StatusOK, map[string]any{
		"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": expiry, "Expiration": expiry,
		"AccessKeyId": "ASIAWALLPROOFWITNESS", "SecretAccessKey": m.canary, "Token": m.canary,
		"RoleArn": "arn:aws:iam::000000000000:role/" + role,
	})
}

const awsSession = "wallproof-session-token"

// aws is EC2's service, versions 1 and 2: PUT /latest/api/token, then GET with
// X-aws-ec2-metadata-token. A wrong token is refused, a missing one is version 1.
func (m metadata) aws(req Request, path string) Response {
	if strings.HasSuffix(path, "/api/token") {
		if req.Method != http.MethodPut || req.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			return text(http.StatusBadRequest, "400 - Bad Request\n")
		}
		r := text(http.StatusOK, awsSession+"\n")
		r.Header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", req.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		return r
	}
	if t := req.Header.Get("X-Aws-Ec2-Metadata-Token"); t != "" && t != awsSession {
		return text(http.StatusUnauthorized, "401 - Unauthorized\n")
	}
	switch {
	case strings.HasSuffix(path, "/iam/security-credentials"):
		return text(http.StatusOK, role+"\n")
	case strings.Contains(path, "/iam/security-credentials/"), strings.Contains(path, "/identity-credentials/ec2/security-credentials/"):
		return m.awsCredentials(req)
	case strings.HasSuffix(path, "/iam/info"):
		return object(req, http.StatusOK, map[string]any{"Code": "Success", "InstanceProfileId": "AIPAWALLPROOF"})
	case strings.HasSuffix(path, "/user-data"):
		return text(http.StatusOK, "#!/bin/sh\n# password="+m.canary+"\n")
	case strings.HasSuffix(path, "/dynamic/instance-identity/document"):
		return object(req, http.StatusOK, map[string]any{"accountId": "000000000000", "instanceId": "i-00000000000000000", "region": "eu-test-1"})
	case strings.HasSuffix(path, "/meta-data"):
		return text(http.StatusOK, lines("ami-id", "hostname", "iam/", "instance-id", "local-ipv4", "placement/"))
	}
	return text(http.StatusOK, "i-00000000000000000\n")
}

// roleBased is the shape that Alibaba and Tencent took over: a list of roles,
// then the role's credentials.
func (m metadata) roleBased(base, tokenHeader string) func(Request, string) Response {
	return func(req Request, path string) Response {
		switch {
		case strings.HasSuffix(path, "/api/token") && req.Method == http.MethodPut:
			return text(http.StatusOK, awsSession+"\n")
		case tokenHeader != "" && req.Header.Get(tokenHeader) != "" && req.Header.Get(tokenHeader) != awsSession:
			return text(http.StatusForbidden, "403 - Forbidden\n")
		case path == base:
			return text(http.StatusOK, role+"\n")
		case strings.HasPrefix(path, base+"/"):
			return object(req, http.StatusOK, map[string]any{
				"Code": "Success", "Expiration": expiry, "AccessKeyId": "STS.wallproof", "AccessKeySecret": m.canary,
				"TmpSecretId": "AKIDwallproof", "TmpSecretKey": m.canary, "SecurityToken": m.canary, "Token": m.canary,
			})
		}
		return text(http.StatusOK, lines("hostname", "instance-id", "ram/", "cam/", "region-id"))
	}
}

// volcengine: /volcstack/latest/iam/security_credentials/ROLE.
func (m metadata) volcengine(req Request, path string) Response {
	switch {
	case strings.HasSuffix(path, "/iam/security_credentials"):
		return text(http.StatusOK, role+"\n")
	case strings.Contains(path, "/iam/security_credentials/"):
		return object(req, http.StatusOK, map[string]any{
			"CurrentTime": expiry, "ExpiredTime": expiry, "AccessKeyId": "AKTPwallproof",
			"SecretAccessKey": m.canary, "SessionToken": m.canary,
		})
	}
	return text(http.StatusOK, lines("hostname", "iam/", "instance_id", "region_id"))
}

// ecs is the task credential and metadata endpoint.
func (m metadata) ecs(req Request, path string) Response {
	if strings.HasSuffix(path, "/metadata") || strings.HasSuffix(path, "/task") {
		return object(req, http.StatusOK, map[string]any{"Cluster": "default", "TaskARN": "arn:aws:ecs:eu-test-1:000000000000:task/default/0"})
	}
	return m.awsCredentials(req)
}

// eks is the pod identity agent: GET /v1/credentials with the service-account
// token in Authorization.
func (m metadata) eks(req Request, _ string) Response { return m.awsCredentials(req) }

// gcp wants "Metadata-Flavor: Google" everywhere but below /computeMetadata/v1beta1,
// and refuses requests that were forwarded.
func (m metadata) gcp(req Request, path string) Response {
	beta := strings.HasPrefix(path, "/computeMetadata/v1beta1")
	flavor := req.Header.Get("Metadata-Flavor") == "Google" || req.Header.Get("X-Google-Metadata-Request") == "True"
	if !beta && !flavor {
		return text(http.StatusForbidden, "Missing Metadata-Flavor:Google header.\n")
	}
	var r Response
	switch {
	case strings.HasSuffix(path, "/token"):
		r = object(req, http.StatusOK, map[string]any{"access_token": m.canary, "expires_in": 0, "token_type": "Bearer"})
	case strings.HasSuffix(path, "/identity"):
		r = text(http.StatusOK, m.canary+"\n")
	case strings.HasSuffix(path, "/service-accounts"):
		r = text(http.StatusOK, lines("default/", "wallproof@wallproof.test/"))
	case strings.Contains(path, "/attributes/"):
		r = text(http.StatusOK, "password: "+m.canary+"\n")
	default:
		r = text(http.StatusOK, lines("instance/", "oslogin/", "project/"))
	}
	r.Header.Set("Metadata-Flavor", "Google")
	r.Header.Set("Server", "Metadata Server for VM")
	return r
}

// azure wants "Metadata: true" and refuses X-Forwarded-For.
func (m metadata) azure(req Request, path string) Response {
	if !strings.EqualFold(req.Header.Get("Metadata"), "true") || req.Header.Get("X-Forwarded-For") != "" {
		return object(req, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "Required metadata header not specified"})
	}
	if strings.HasPrefix(path, "/metadata/identity/oauth2/token") {
		return object(req, http.StatusOK, map[string]any{
			"access_token": m.canary, "expires_in": "0", "expires_on": "0", "resource": req.Query.Get("resource"), "token_type": "Bearer",
		})
	}
	return object(req, http.StatusOK, map[string]any{"compute": map[string]any{"vmId": "00000000-0000-0000-0000-000000000000", "location": "test"}})
}

// wireserver is Azure's host agent.
func (m metadata) wireserver(req Request, _ string) Response {
	r := text(http.StatusOK, `<?xml version="1.0" encoding="utf-8"?><GoalState><Version>2012-11-30</Version><Incarnation>1</Incarnation><Secret>`+
		m.canary+`</Secret><!-- `+req.Answer+` --></GoalState>`+"\n")
	r.Header.Set("Content-Type", "text/xml; charset=utf-8")
	return r
}

func (m metadata) openStack(req Request, path string) Response {
	switch {
	case strings.HasSuffix(path, "/meta_data.json"), strings.HasSuffix(path, "/vendor_data.json"):
		return object(req, http.StatusOK, map[string]any{
			"uuid": "00000000-0000-0000-0000-000000000000", "name": "wallproof", "admin_pass": m.canary, "meta": map[string]any{"secret": m.canary},
		})
	case strings.HasSuffix(path, "/user_data"):
		return text(http.StatusOK, "#cloud-config\npassword: "+m.canary+"\n")
	case strings.HasSuffix(path, "/password"):
		return text(http.StatusOK, m.canary+"\n")
	}
	return text(http.StatusOK, lines("meta_data.json", "user_data", "password", "vendor_data.json", "network_data.json"))
}

// oracle: version 2 wants "Authorization: Bearer Oracle".
func (m metadata) oracle(req Request, path string) Response {
	if strings.HasPrefix(path, "/opc/v2") && req.Header.Get("Authorization") != "Bearer Oracle" {
		return text(http.StatusNotFound, "404 - Not Found\n")
	}
	if strings.HasSuffix(path, "/identity/key.pem") {
		return text(http.StatusOK, "-----BEGIN WALLPROOF CANARY-----\n"+m.canary+"\n-----END WALLPROOF CANARY-----\n")
	}
	return object(req, http.StatusOK, map[string]any{"id": "ocid1.instance.test", "metadata": map[string]any{"user_data": m.canary}})
}

func (m metadata) digitalOcean(req Request, path string) Response {
	switch {
	case strings.HasSuffix(path, ".json"):
		return object(req, http.StatusOK, map[string]any{"droplet_id": 0, "hostname": "wallproof", "auth_key": m.canary, "user_data": m.canary})
	case strings.HasSuffix(path, "/user-data"), strings.HasSuffix(path, "/auth-key"):
		return text(http.StatusOK, m.canary+"\n")
	}
	return text(http.StatusOK, lines("id", "hostname", "user-data", "vendor-data", "public-keys", "region", "interfaces/", "dns/"))
}

// ibm: PUT /instance_identity/v1/token with "Metadata-Flavor: ibm".
func (m metadata) ibm(req Request, _ string) Response {
	if req.Header.Get("Metadata-Flavor") != "ibm" {
		return text(http.StatusBadRequest, "400 - Bad Request\n")
	}
	return object(req, http.StatusOK, map[string]any{"access_token": m.canary, "expires_in": 0})
}

// MetadataNames are host names that clouds resolve to their metadata service,
// with the address that each gives.
func MetadataNames() map[string]netip.Addr {
	shared := netip.MustParseAddr("169.254.169.254")
	return map[string]netip.Addr{
		"metadata.google.internal":   shared,
		"metadata.goog":              shared,
		"metadata":                   shared,
		"instance-data":              shared,
		"instance-data.ec2.internal": shared,
		"metadata.tencentyun.com":    netip.MustParseAddr("169.254.0.23"),
		"rancher-metadata":           netip.MustParseAddr("169.254.169.250"),
	}
}
