package policy

// Posture is the decision that an edge of the reachability picture shows.
type Posture string

// The postures.
const (
	PostureAllowed  Posture = "Allowed"
	PostureBrokered Posture = "Brokered"
	PostureDenied   Posture = "Denied"
)

// The edges, in the order of the picture.
const (
	EdgeSource   = "source-repository"
	EdgeRegistry = "package-registry"
	EdgeToken    = "git-token"
	EdgeModel    = "model"
	EdgeMetadata = "cloud-metadata"
	EdgePrivate  = "private-ranges"
	EdgeInternet = "open-internet"
	EdgeTenants  = "other-tenants"
)

// Edge is one edge of the reachability picture: one explicit decision.
type Edge struct {
	ID          string  `json:"id"`
	Label       string  `json:"label"` // "Source repository"
	Posture     Posture `json:"posture"`
	Reason      string  `json:"reason"`           // stable code: "brokered-token", "pinned", "allow-entry", "default-deny", …
	Description string  `json:"description"`      // one sentence
	Vector      string  `json:"vector,omitempty"` // the battery's vector that tests a denial
}

// Edges returns all edges of the picture, in order.
func (e *Evaluator) Edges() []Edge { return nil }
