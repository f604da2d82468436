package forge

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// forkOwner owns every fork.
const forkOwner = "wallproof-fork"

// serveAPI answers GitHub's REST API: apps and installation tokens, repositories,
// and everything that a client could write a secret to.
func (f *Forge) serveAPI(req services.Request, p string) (services.Response, Seen, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case parts[0] == "app" || len(parts) >= 3 && parts[len(parts)-1] == "installation":
		return f.serveApp(req, parts), Seen{}, true
	case p == "/installation/token" && req.Method == http.MethodDelete:
		if !f.revoke(req.Header) {
			return refuse(req, http.StatusUnauthorized, "Bad credentials"), Seen{}, true
		}
		return services.Response{Status: http.StatusNoContent, Header: http.Header{}, Closed: true}, Seen{}, true
	case p == "/installation/repositories":
		return f.installationRepos(req), Seen{}, true
	case req.Method == http.MethodGet && parts[0] == "repos" && len(parts) == 3:
		return f.repoInfo(req, strings.ToLower(parts[1]+"/"+parts[2])), Seen{}, true
	}
	if what := sink(req.Method, parts); what != "" {
		r, seen := f.write(req, what, parts)
		return r, seen, true
	}
	return services.Response{}, Seen{}, false
}

// serveApp is what an app asks with its JSON Web Token.
func (f *Forge) serveApp(req services.Request, parts []string) services.Response {
	a, err := f.verifyJWT(bearer(req.Header))
	if err != nil {
		return refuse(req, http.StatusUnauthorized, err.Error())
	}
	installation := map[string]any{"id": a.Installation, "app_id": json.Number(number(a.ID)), "repository_selection": "selected"}
	switch {
	case parts[len(parts)-1] == "installation":
		if parts[0] == "repos" && !covered(a, parts) {
			return refuse(req, http.StatusNotFound, "Not Found")
		}
		return jsonValue(http.StatusOK, installation)
	case len(parts) == 1:
		return jsonValue(http.StatusOK, map[string]any{"id": json.Number(number(a.ID)), "slug": "wallproof-app", "name": "Wallproof"})
	case len(parts) == 2 && parts[1] == "installations":
		return jsonValue(http.StatusOK, []any{installation})
	case len(parts) >= 3 && parts[1] == "installations" && parts[2] != strconv.FormatInt(a.Installation, 10):
		return refuse(req, http.StatusNotFound, "Not Found")
	case len(parts) == 3:
		return jsonValue(http.StatusOK, installation)
	case len(parts) == 4 && parts[3] == "access_tokens" && req.Method == http.MethodPost:
		return f.issue(a, req)
	}
	return refuse(req, http.StatusNotFound, "Not Found")
}

func covered(a *app, parts []string) bool {
	for _, r := range a.Repos {
		if len(parts) == 4 && r == strings.ToLower(parts[1]+"/"+parts[2]) {
			return true
		}
	}
	return false
}

func (f *Forge) installationRepos(req services.Request) services.Response {
	t := f.authenticate(req.Header)
	if t == nil || t.full {
		return refuse(req, http.StatusUnauthorized, "Bad credentials")
	}
	list := []any{}
	for _, r := range t.repos {
		list = append(list, repository(r, req.Host))
	}
	return jsonValue(http.StatusOK, map[string]any{"total_count": len(list), "repositories": list})
}

func (f *Forge) repoInfo(req services.Request, name string) services.Response {
	r := f.repos[name]
	if r == nil || r.private && !f.authenticate(req.Header).covers(name, "read") {
		return refuse(req, http.StatusNotFound, "Not Found")
	}
	return jsonValue(http.StatusOK, repository(name, req.Host))
}

// sink names the write that a request asks for, "" when it asks for none.
func sink(method string, parts []string) string {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return ""
	}
	last := parts[len(parts)-1]
	switch {
	case parts[0] == "gists":
		return "gist"
	case parts[0] == "graphql":
		return "graphql"
	case parts[0] == "repos" && len(parts) == 4 && last == "forks":
		return "fork"
	case parts[0] == "repos" && len(parts) >= 4:
		return parts[3] // issues, pulls, contents, releases, dispatches, …
	case len(parts) == 6 && strings.HasSuffix(strings.Join(parts, "/"), "info/lfs/objects/batch"):
		return "lfs-batch"
	case parts[0] == "lfs":
		return "lfs-object"
	}
	return ""
}

// write takes an authenticated write and keeps nothing of it but its record.
func (f *Forge) write(req services.Request, what string, parts []string) (services.Response, Seen) {
	t := f.authenticate(req.Header)
	if t == nil {
		return refuse(req, http.StatusUnauthorized, "Requires authentication"), Seen{Detail: "refused " + what}
	}
	seen := Seen{Breach: true, Detail: "accepted " + what}
	switch what {
	case "fork":
		return f.forkRepo(req, strings.ToLower(parts[1]+"/"+parts[2])), seen
	case "lfs-batch":
		seen.Breach = !f.lfsPermitted(strings.ToLower(parts[0] + "/" + strings.TrimSuffix(parts[1], ".git")))
		return lfsBatch(req), seen
	case "lfs-object":
		return services.Response{Status: http.StatusOK, Header: http.Header{}, Closed: true}, seen
	}
	return jsonValue(http.StatusCreated, map[string]any{
		"id": 1, "number": 1, "html_url": "https://" + req.Host + "/" + what + "/1", "witness": req.Answer,
	}), seen
}

// lfsPermitted reports whether some push to the repository is permitted, so that
// its large files are, too.
func (f *Forge) lfsPermitted(name string) bool {
	for _, r := range f.push {
		if r.repo == name {
			return true
		}
	}
	return false
}

func (f *Forge) forkRepo(req services.Request, name string) services.Response {
	r := f.repos[name]
	if r == nil {
		return refuse(req, http.StatusNotFound, "Not Found")
	}
	fork := forkOwner + name[strings.Index(name, "/"):]
	if f.repos[fork] == nil {
		if len(f.repos) >= maxRepos {
			return refuse(req, http.StatusForbidden, "Too many repositories")
		}
		f.repos[fork] = r.fork(fork)
	}
	return jsonValue(http.StatusAccepted, repository(fork, req.Host))
}

// lfsBatch is Git LFS's batch API: every object may be uploaded, here.
func lfsBatch(req services.Request) services.Response {
	var ask struct {
		Operation string `json:"operation"`
		Objects   []struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		} `json:"objects"`
	}
	if json.Unmarshal(req.Body, &ask) != nil {
		return refuse(req, http.StatusUnprocessableEntity, "body is not a batch request")
	}
	list := []any{}
	for i, o := range ask.Objects {
		if i == 100 { // GitHub's own bound
			break
		}
		list = append(list, map[string]any{"oid": o.OID, "size": o.Size, "actions": map[string]any{
			"upload": map[string]any{"href": "https://" + req.Host + "/lfs/" + strconv.Itoa(i)},
		}})
	}
	r := jsonValue(http.StatusOK, map[string]any{"transfer": "basic", "objects": list, "witness": req.Answer})
	r.Header.Set("Content-Type", "application/vnd.git-lfs+json")
	return r
}

// repository is GitHub's description of a repository, as far as clients read it.
func repository(name, host string) map[string]any {
	owner, short, _ := strings.Cut(name, "/")
	return map[string]any{
		"id": repositoryID(name), "name": short, "full_name": name, "default_branch": mainRef.Short(),
		"owner": map[string]any{"login": owner}, "clone_url": "https://" + host + "/" + name + ".git",
	}
}

// repositoryID is the same number for the same name.
func repositoryID(name string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum32())
}

// number returns s where it is a number, else "0": an app's id may be either.
func number(s string) string {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return "0"
}

func refuse(req services.Request, status int, message string) services.Response {
	members := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	if req.Answer != "" {
		members["witness"] = req.Answer
	}
	return jsonValue(status, members)
}

func jsonValue(status int, v any) services.Response {
	b, err := json.Marshal(v)
	if err != nil {
		return plain(http.StatusInternalServerError, "")
	}
	return services.Response{Status: status, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, Body: append(b, '\n'), Closed: true}
}
