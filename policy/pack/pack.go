// Package pack holds the starter packs: the hosts that the common package
// managers and forges need, as data. A pack opens reading only, except where the
// protocol itself needs POST (git fetch). What a pack contains is part of a
// policy's hash, because packs are expanded before hashing.
package pack

// Host is one host of a pack.
type Host struct {
	Name    string
	Ports   []uint16 // nil: 443
	Methods []string // sorted
	// Artefacts are endings of paths that a pin is held against: what is
	// downloaded and run, as opposed to indexes.
	Artefacts []string
}

// Pack is a named set of hosts.
type Pack struct {
	Name  string
	Title string
	Hosts []Host
	// Registry: the pack is a package registry (and not a forge), for the
	// reachability picture.
	Registry bool
}

var (
	read  = []string{"GET", "HEAD"}
	fetch = []string{"GET", "HEAD", "POST"} // git-upload-pack is a POST
	sdist = []string{".egg", ".tar.bz2", ".tar.gz", ".whl", ".zip"}
)

var packs = []Pack{
	{Name: "npm", Title: "npm and Yarn", Registry: true, Hosts: []Host{
		{Name: "registry.npmjs.org", Methods: read, Artefacts: []string{".tgz"}},
		{Name: "registry.yarnpkg.com", Methods: read, Artefacts: []string{".tgz"}},
	}},
	{Name: "pypi", Title: "Python Package Index", Registry: true, Hosts: []Host{
		{Name: "files.pythonhosted.org", Methods: read, Artefacts: sdist},
		{Name: "pypi.org", Methods: read, Artefacts: sdist},
	}},
	{Name: "go", Title: "Go module proxy and checksum database", Registry: true, Hosts: []Host{
		{Name: "proxy.golang.org", Methods: read, Artefacts: []string{".zip"}},
		{Name: "sum.golang.org", Methods: read, Artefacts: []string{".zip"}},
	}},
	{Name: "crates", Title: "crates.io", Registry: true, Hosts: []Host{
		{Name: "crates.io", Methods: read, Artefacts: []string{".crate", "/download"}},
		{Name: "index.crates.io", Methods: read, Artefacts: []string{".crate"}},
		{Name: "static.crates.io", Methods: read, Artefacts: []string{".crate", "/download"}},
	}},
	{Name: "debian", Title: "Debian archive (signed, so http too)", Registry: true, Hosts: []Host{
		{Name: "deb.debian.org", Ports: []uint16{80, 443}, Methods: read, Artefacts: []string{".deb", ".udeb"}},
		{Name: "security.debian.org", Ports: []uint16{80, 443}, Methods: read, Artefacts: []string{".deb", ".udeb"}},
	}},
	{Name: "github", Title: "GitHub: git over https, API, archives and releases, for reading", Hosts: []Host{
		{Name: "api.github.com", Methods: read},
		{Name: "codeload.github.com", Methods: read},
		{Name: "github.com", Methods: fetch},
		{Name: "objects.githubusercontent.com", Methods: read},
		{Name: "raw.githubusercontent.com", Methods: read},
		{Name: "release-assets.githubusercontent.com", Methods: read},
	}},
	{Name: "gitlab", Title: "GitLab.com: git over https, API and archives, for reading", Hosts: []Host{
		{Name: "gitlab.com", Methods: fetch},
	}},
}

// All returns the packs. The result must not be changed.
func All() []Pack { return packs }

// Names returns the names of the packs, in their order.
func Names() []string {
	out := make([]string, len(packs))
	for i, p := range packs {
		out[i] = p.Name
	}
	return out
}

// Lookup returns a pack by name.
func Lookup(name string) (Pack, bool) {
	for _, p := range packs {
		if p.Name == name {
			return p, true
		}
	}
	return Pack{}, false
}
