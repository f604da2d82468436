package packet

import (
	"errors"
	"fmt"
)

// Reason says what is wrong with a packet.
type Reason string

// The reasons.
const (
	ReasonUnlisted Reason = "packet-unlisted-file"  // a file that the index does not have
	ReasonMissing  Reason = "packet-missing-file"   // a file of the index, or a required one, is not there
	ReasonSize     Reason = "packet-size-differs"   // a file of another length
	ReasonDigest   Reason = "packet-digest-differs" // a file of other content
	ReasonName     Reason = "packet-file-name"      // a name that has no place in the layout
	ReasonNotFile  Reason = "packet-not-a-file"     // a link, device or the like
	ReasonLimit    Reason = "packet-too-large"      // more or larger files than the limit
	ReasonIndex    Reason = "packet-index"          // an index out of order, with doubles or malformed
	ReasonDocument Reason = "packet-document"       // a file that is not what its name says
	ReasonArchive  Reason = "packet-archive"        // not the archive form
	ReasonRead     Reason = "packet-read"           // reading failed
)

// Error is one thing that is wrong with a packet.
type Error struct {
	Reason Reason
	Path   string
	Detail string
	Err    error
}

// Error describes the fault in one line.
func (e *Error) Error() string {
	s := string(e.Reason)
	if e.Path != "" {
		s += ": " + plain(e.Path)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// plain is a path as it stands in an error: in quotes where it could be taken for
// something else than a path.
func plain(path string) string {
	if quoted := fmt.Sprintf("%.200q", path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of the first *Error in err's chain, or "".
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
