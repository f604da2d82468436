package image

import (
	"errors"
	"fmt"
)

// ErrLimit means that unpacking would go beyond one of the Limits; the error
// names which.
var ErrLimit = errors.New("image exceeds a limit")

// ErrHostile means that a layer has an entry that no honest tool writes, such
// as one that names a path outside.
var ErrHostile = errors.New("hostile layer")

// Limits bound what unpacking may produce. Zero fields mean DefaultLimits'.
type Limits struct {
	Bytes     int64 `json:"bytes"`     // uncompressed, of all layers together, tar headers included
	FileBytes int64 `json:"fileBytes"` // of one file
	Entries   int64 `json:"entries"`   // in all layers together
	Layers    int   `json:"layers"`    //
	PathBytes int   `json:"pathBytes"` // of one entry's name, and of a link's target
	Depth     int   `json:"depth"`     // folders below one another
	Ratio     int64 `json:"ratio"`     // uncompressed bytes a compressed byte, once RatioFloor bytes came out of a layer
}

// RatioFloor is how much a layer may unpack to before Limits.Ratio counts.
const RatioFloor = 64 << 20

// DefaultLimits are far above what images in use need.
var DefaultLimits = Limits{
	Bytes:     16 << 30,
	FileBytes: 8 << 30,
	Entries:   1_000_000,
	Layers:    256,
	PathBytes: 4096, // PATH_MAX
	Depth:     128,
	Ratio:     400,
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	fill(&l.Bytes, d.Bytes)
	fill(&l.FileBytes, d.FileBytes)
	fill(&l.Entries, d.Entries)
	fill(&l.Layers, d.Layers)
	fill(&l.PathBytes, d.PathBytes)
	fill(&l.Depth, d.Depth)
	fill(&l.Ratio, d.Ratio)
	return l
}

func fill[T int | int64](field *T, standard T) {
	if *field <= 0 {
		*field = standard
	}
}

func limitError(name string, most any) error {
	return fmt.Errorf("%w: %s, at most %v", ErrLimit, name, most)
}
