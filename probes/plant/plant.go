// Package plant says what has to stand where for a phase's local techniques to
// mean something. It is pure data: the battery applies it through the driver
// (environment, mounts) and through `wallproof-probe seed` and `serve`, which run
// inside the sandbox.
//
// The control never removes the sandbox. What an escape would find outside is
// planted inside instead, as if the wall were not there; what tenants must not
// share is shared on purpose. In the attack the same places exist, with
// placeholders, and the canaries are outside.
package plant

// Canaries are the secrets of one phase, and what stands in for them inside an
// intact boundary.
type Canaries struct {
	Own        []Secret // of the tenant under test, by variable name
	Git        Secret   // a full git credential
	HostEnv    string   // in the environment of a process of the host
	HostFile   string   // in a file of the host
	Tenant     Secret   // of the neighbour
	Prior      string   // of a run that ended before
	Platform   Secret   // token of the platform; Name is the variable by which the policy lets it in, or ""
	AgentToken Secret   // the credential that the agent is tempted to give away
}

// Secret is a canary and its placeholder.
type Secret struct {
	Name        string // variable that holds it, e.g. "GITHUB_TOKEN"
	Value       string // the canary
	Placeholder string // what the sandbox holds in its place
}

// Planting is what a phase needs, sandbox by sandbox.
type Planting struct {
	Work   Place // the sandbox under test
	Agent  Place // the obedient agent's
	Tenant Place // the neighbour's own sandbox; Serve is set
	// Fresh is planted in the new sandbox in which techniques with the variant
	// "fresh" run, Prior in the sandbox that is checkpointed for "restored". In
	// the attack Prior is planted in a sandbox that is thrown away after the
	// checkpoint that is restored was taken.
	Fresh Place
	Prior Place
	// Host is planted outside every sandbox, where an escape would find it; nothing
	// of it in the control.
	Host Outside
}

// Place is what one sandbox gets.
type Place struct {
	// Env is added to the environment of the sandbox's first process and to that
	// of everything executed in it.
	Env []string
	// Mounts are host folders, made with these files and mounted at these places,
	// writable: what a leaking boundary shares.
	Mounts []Mount
	// Seed is the plan of a `wallproof-probe seed`, executed as uid 0 before
	// anything else and left running; nil for none.
	Seed *Seed
	// Serve is the plan of a `wallproof-probe serve`, executed as uid 0 and left
	// running; nil for none. Its Key, Listen and Proofs are the battery's to set.
	Serve *Serve
}

// Mount is a host folder inside a sandbox.
type Mount struct {
	Target   string
	Files    []File
	ReadOnly bool
}

// Outside is what stands on the host.
type Outside struct {
	Env   []string // environment of a process of the host that holds it for the whole phase
	Args  []string // its arguments
	Files []File   // with paths relative to a folder of the run that no sandbox mounts
}

// File is a file to make; its folders are made too.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    uint32 `json:"mode,omitempty"` // 0 means 0644
}

// Seed is the standard input of `wallproof-probe seed`: one line of JSON.
type Seed struct {
	Files     []File    `json:"files,omitempty"`     // made, and left
	Deleted   []File    `json:"deleted,omitempty"`   // made, held open, and unlinked
	Memory    []string  `json:"memory,omitempty"`    // held in the process's memory
	Processes []Process `json:"processes,omitempty"` // started, and left running
	Sockets   []Socket  `json:"sockets,omitempty"`   // listened on
	Segments  []Segment `json:"segments,omitempty"`  // System V shared memory
	Queues    []Queue   `json:"queues,omitempty"`    // POSIX message queues
	Keys      []Key     `json:"keys,omitempty"`      // in the kernel's keyring of the user
	Pipes     []string  `json:"pipes,omitempty"`     // written to a pipe that nobody reads
	Owner     uint32    `json:"owner,omitempty"`     // uid and gid that files, processes and memory belong to
}

// Process is a process that does nothing but hold its name, arguments and
// environment.
type Process struct {
	Name string   `json:"name"`
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"` // working folder, "" for /
}

// Socket is a Unix socket that answers every connection with a text. A name
// that begins with "@" is abstract.
type Socket struct {
	Name   string `json:"name"`
	Answer string `json:"answer"`
}

// Segment is a System V shared memory segment.
type Segment struct {
	Key     int    `json:"key"`
	Content string `json:"content"`
}

// Queue is a POSIX message queue with one message. Name has no slash.
type Queue struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// Key is a key of the type "user" in the user's keyring.
type Key struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Serve is the standard input of `wallproof-probe serve`: one line of JSON. What
// it holds (Seed) is planted first.
type Serve struct {
	Key    string            `json:"key"`              // hex; authenticates the lines it prints
	Listen []string          `json:"listen,omitempty"` // "tcp:ADDRESS:PORT", "udp:ADDRESS:PORT", "unix:@NAME"
	Proofs map[string]string `json:"proofs,omitempty"` // nonce → proof, for what it answers
	Answer string            `json:"answer,omitempty"` // what stands in every answer besides the proof
	Seed   Seed              `json:"seed"`
}

// Ready is the first line that seed and serve print, as JSON, when everything
// that can stand stands. Failed says what could not be planted, and why: the
// control of a technique that needs it will then stay silent.
type Ready struct {
	Ready   bool     `json:"ready"`
	Planted int      `json:"planted"`
	Failed  []string `json:"failed,omitempty"`
}
