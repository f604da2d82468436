package record

import (
	_ "embed"
	"html/template"
	"net/http"
)

//go:embed dashboard.html
var dashboardText string

var dashboardPage = template.Must(template.New("dashboard").Parse(dashboardText))

// maxShown is how many rows of each table the page has; the interface has all.
const maxShown = 500

// dashboard is a page for people: the state, the blocked hosts and the routes. It
// changes nothing and runs no script.
func (r *Recorder) dashboard(w http.ResponseWriter, _ *http.Request) {
	blocked, routes := r.Blocked(""), r.Routes("")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = dashboardPage.Execute(w, struct {
		Status
		BlockedHosts []BlockedHost
		EgressRoutes []Route
	}{r.Status(), blocked[:min(len(blocked), maxShown)], routes[:min(len(routes), maxShown)]})
}
