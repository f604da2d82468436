package record

import (
	"encoding/json"
	"net/http"
)

// Handler is the operators' read-only interface:
//
//	GET /v1/status
//	GET /v1/runs/{id}/blocked-hosts
//	GET /v1/runs/{id}/egress-routes
//	GET /metrics
//
// It has no authentication of its own: serve it on a socket that only operators
// reach, such as a Unix socket with mode 0600, and never in a sandbox's network.
func (r *Recorder) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"enforcement": r.Enforcement(), "blocked": len(r.Blocked("")), "routes": len(r.Routes(""))})
	})
	mux.HandleFunc("GET /v1/runs/{id}/blocked-hosts", func(w http.ResponseWriter, q *http.Request) {
		writeJSON(w, map[string]any{"run": q.PathValue("id"), "blockedHosts": r.Blocked(q.PathValue("id"))})
	})
	mux.HandleFunc("GET /v1/runs/{id}/egress-routes", func(w http.ResponseWriter, q *http.Request) {
		writeJSON(w, map[string]any{"run": q.PathValue("id"), "egressRoutes": r.Routes(q.PathValue("id"))})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = r.WriteMetrics(w)
	})
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}
