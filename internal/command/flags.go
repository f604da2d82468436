package command

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/policy"
)

// OutputFlag offers the forms in which a command prints its result.
func OutputFlag(forms string) *cli.StringFlag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORM` of the result: " + forms}
}

// PrintJSON prints a result for programs, and readably.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// FirstOf is the first value that is not empty.
func FirstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// NoEmptyFlags refuses a flag that was given with nothing in it. In CI that is most
// often a variable that is not set, and what it should have named would in silence not
// be compared.
func NoEmptyFlags(c *cli.Context) error {
	for _, f := range c.Command.Flags {
		if s, ok := f.(*cli.StringFlag); ok && c.IsSet(s.Name) && c.String(s.Name) == "" {
			return fmt.Errorf("--%s is empty: is a variable not set? Give it a value, or leave it out", s.Name)
		}
	}
	return nil
}

// ReadInto reads the file that a flag names, if it names one.
func ReadInto(c *cli.Context, flag string, to *[]byte) error {
	path := c.String(flag)
	if path == "" {
		return nil
	}
	data, err := files.Read(path, packet.MaxDocumentBytes)
	if err != nil {
		return fmt.Errorf("read --%s: %w", flag, err)
	}
	*to = data
	return nil
}

// PolicyFlag names an egress policy.
func PolicyFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "policy", Aliases: []string{"p"}, Usage: "the egress policy, YAML or JSON (`FILE`, or - for standard input)"}
}

// ReadPolicy reads and parses the policy that a flag or the only argument names.
func ReadPolicy(path string) (*policy.Policy, error) {
	if path == "" {
		return nil, fmt.Errorf("no policy given; name one with --policy FILE")
	}
	data, err := files.Read(path, policy.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return nil, err
	}
	err = p.LoadLockfiles(func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && path != "-" {
			name = filepath.Join(filepath.Dir(path), name) // beside the policy
		}
		return files.Read(name, policy.MaxBytes)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
