package manifest

import (
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/internal/canon"
)

// Reason says in which way a manifest is refused.
type Reason string

// The reasons that the chain gives. A line that is not canonical JSON is refused
// with canon's reason.
const (
	ReasonEmpty         Reason = "manifest-empty"          // no line at all
	ReasonIncomplete    Reason = "manifest-incomplete"     // ends before its terminal entry
	ReasonCutLine       Reason = "manifest-cut-line"       // the last line has no LF
	ReasonSchema        Reason = "manifest-schema"         // line 0 names another format
	ReasonGenesis       Reason = "manifest-genesis"        // prev of line 0 is not the constant
	ReasonType          Reason = "manifest-type"           // an entry of an unknown type, or out of place
	ReasonMissing       Reason = "manifest-missing-line"   // a line was taken out
	ReasonReordered     Reason = "manifest-reordered"      // lines stand in another order
	ReasonDuplicate     Reason = "manifest-duplicate-line" // a line stands there twice
	ReasonInserted      Reason = "manifest-inserted-line"  // a line that does not belong
	ReasonChain         Reason = "manifest-chain-broken"   // prev is not the hash of the line before
	ReasonAfterTerminal Reason = "manifest-after-terminal" // lines behind the terminal entry
	ReasonTerminalHead  Reason = "manifest-terminal-head"  // head is not the terminal entry's own prev
	ReasonTerminalCount Reason = "manifest-terminal-count" // count is not the number of lines
	ReasonTotals        Reason = "manifest-totals"         // totals are not what the entries add up to
	ReasonTooLarge      Reason = "manifest-too-large"      // more or longer lines than the limit
	ReasonRead          Reason = "manifest-read"           // the reader failed
)

// Error is a refusal. Line is the number of the line at fault, from 0.
type Error struct {
	Reason Reason
	Line   int64
	Detail string
	Err    error
}

// Error describes the refusal in one line.
func (e *Error) Error() string {
	s := fmt.Sprintf("manifest line %d: %s", e.Line, e.Reason)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
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

// lineError wraps canon's refusal of a line.
func lineError(line int64, err error) error {
	return &Error{Reason: Reason(canon.ReasonOf(err)), Line: line, Err: err}
}
