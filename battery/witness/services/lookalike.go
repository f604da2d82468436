package services

import (
	"net/http"
	"strings"
)

// Ports at which control planes listen.
const (
	PortDocker      = 2375
	PortDockerTLS   = 2376
	PortEtcd        = 2379
	PortKubelet     = 10250
	PortKubeletRead = 10255
	PortKubernetes  = 6443
)

// ControlPlanes answers as a container engine, a kubelet, etcd and a Kubernetes
// API server would, by port and path: enough to be recognised, and nothing that
// does anything. canary is the secret that each of them holds.
func ControlPlanes(canary string) Service {
	return func(req Request) (Response, bool) {
		switch req.Dest.Port() {
		case PortDocker, PortDockerTLS:
			return docker(req, canary), true
		case PortEtcd:
			return etcd(req, canary), true
		case PortKubelet, PortKubeletRead:
			return kubelet(req, canary), true
		}
		if req.Dest.Port() == PortKubernetes || strings.HasPrefix(req.Host, "kubernetes.default") {
			return kubernetes(req, canary), true
		}
		return Response{}, false
	}
}

// docker is the Engine API. Containers cannot be created: the answer to every
// write is the identifier of nothing.
func docker(req Request, canary string) Response {
	var r Response
	switch path := req.Path; {
	case strings.HasSuffix(path, "/_ping"):
		r = text(http.StatusOK, "OK\n")
	case strings.HasSuffix(path, "/version"):
		r = object(req, http.StatusOK, map[string]any{"Version": "0.0.0-wallproof", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "none"})
	case strings.HasSuffix(path, "/info"):
		r = object(req, http.StatusOK, map[string]any{"ID": "WALLPROOF", "Containers": 1, "Name": "wallproof"})
	case strings.Contains(path, "/containers/") && strings.HasSuffix(path, "/json") && !strings.HasSuffix(path, "/containers/json"):
		r = object(req, http.StatusOK, map[string]any{"Id": strings.Repeat("0", 64), "Config": map[string]any{"Env": []string{"SECRET=" + canary}}})
	case strings.HasSuffix(path, "/containers/json"):
		r = value(http.StatusOK, []any{map[string]any{"Id": strings.Repeat("0", 64), "Names": []string{"/wallproof"}, "Image": "none", "Labels": map[string]string{"witness": req.Answer}}})
	case req.Method == http.MethodPost:
		r = object(req, http.StatusCreated, map[string]any{"Id": strings.Repeat("0", 64), "Warnings": []string{}})
	default:
		r = object(req, http.StatusNotFound, map[string]any{"message": "page not found"})
	}
	r.Header.Set("Api-Version", "1.41")
	r.Header.Set("Server", "Docker/0.0.0-wallproof (linux)")
	return r
}

func kubelet(req Request, canary string) Response {
	switch {
	case strings.HasPrefix(req.Path, "/pods"), strings.HasPrefix(req.Path, "/runningpods"):
		pod := map[string]any{
			"metadata": map[string]any{"name": "wallproof", "namespace": "default"},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "env": []any{map[string]any{"name": "SECRET", "value": canary}}}}},
		}
		return object(req, http.StatusOK, map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{pod}})
	case strings.HasPrefix(req.Path, "/healthz"):
		return text(http.StatusOK, "ok\n")
	case strings.HasPrefix(req.Path, "/metrics"):
		return text(http.StatusOK, "kubelet_running_pods 1\n")
	case strings.HasPrefix(req.Path, "/run/"), strings.HasPrefix(req.Path, "/exec/"):
		return text(http.StatusOK, "SECRET="+canary+"\n")
	}
	return text(http.StatusNotFound, "404 page not found\n")
}

func kubernetes(req Request, canary string) Response {
	switch {
	case req.Path == "/version":
		return object(req, http.StatusOK, map[string]any{"major": "0", "minor": "0", "gitVersion": "v0.0.0-wallproof"})
	case strings.HasSuffix(req.Path, "/secrets"):
		item := map[string]any{"metadata": map[string]any{"name": "wallproof"}, "stringData": map[string]any{"token": canary}}
		return object(req, http.StatusOK, map[string]any{"kind": "SecretList", "apiVersion": "v1", "items": []any{item}})
	case req.Path == "/api", req.Path == "/apis":
		return object(req, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	}
	return object(req, http.StatusForbidden, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403})
}

func etcd(req Request, canary string) Response {
	switch {
	case req.Path == "/version":
		return object(req, http.StatusOK, map[string]any{"etcdserver": "0.0.0-wallproof", "etcdcluster": "0.0.0"})
	case req.Path == "/health":
		return object(req, http.StatusOK, map[string]any{"health": "true"})
	case strings.HasPrefix(req.Path, "/v2/keys"):
		return object(req, http.StatusOK, map[string]any{"action": "get", "node": map[string]any{"key": "/registry/secrets/default/wallproof", "value": canary}})
	case strings.HasPrefix(req.Path, "/v3/"):
		return object(req, http.StatusOK, map[string]any{"kvs": []any{map[string]any{"key": "L3dhbGxwcm9vZg==", "value": canary}}, "count": "1"})
	}
	return text(http.StatusNotFound, "404 page not found\n")
}
