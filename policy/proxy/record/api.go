package record

import (
	"encoding/json"
	"net/http"
)

// Status is what a running proxy says of itself.
type Status struct {
	Enforcement Enforcement `json:"enforcement"`
	Blocked     int         `json:"blocked"` // different hosts
	Routes      int         `json:"routes"`  // different hosts and routes
	Lingering   *Lingering  `json:"lingering,omitempty"`
}

// Status is the state now.
func (r *Recorder) Status() Status {
	return Status{r.Enforcement(), len(r.Blocked("")), len(r.Routes("")), r.Lingering()}
}

// BlockedHosts and EgressRoutes are the answers about one run.
type (
	BlockedHosts struct {
		Run  string        `json:"run"`
		List []BlockedHost `json:"blockedHosts"`
	}
	EgressRoutes struct {
		Run  string  `json:"run"`
		List []Route `json:"egressRoutes"`
	}
)

// Handler is the operators' read-only interface:
//
//	GET /                              the dashboard, a page without script
//	GET /v1/status
//	GET /v1/runs/{id}/blocked-hosts
//	GET /v1/runs/{id}/egress-routes
//	GET /metrics
//
// It has no authentication of its own: serve it on a socket that only operators
// reach, such as a Unix socket with mode 0600, and never in a sandbox's network.
func (r *Recorder) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", r.dashboard)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, r.Status()) })
	mux.HandleFunc("GET /v1/runs/{id}/blocked-hosts", func(w http.ResponseWriter, q *http.Request) {
		writeJSON(w, BlockedHosts{q.PathValue("id"), r.Blocked(q.PathValue("id"))})
	})
	mux.HandleFunc("GET /v1/runs/{id}/egress-routes", func(w http.ResponseWriter, q *http.Request) {
		writeJSON(w, EgressRoutes{q.PathValue("id"), r.Routes(q.PathValue("id"))})
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
