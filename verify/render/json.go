package render

import (
	"encoding/json"
	"io"

	"github.com/wallproof/wallproof/verify"
)

// JSON writes the report as one object.
func JSON(w io.Writer, r verify.Report) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
