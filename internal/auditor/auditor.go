// Package auditor holds the commands of who relies on evidence: verify, gate,
// inspect, prove. They are the same in both programs that have them. wallproof
// adds what reaches out (Outward): it asks registries and signs.
// wallproof-verify does not, and so carries nothing that could.
package auditor

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/verify"
)

// Outward is what only a program can do that may open sockets and use keys.
type Outward struct {
	// RegistryFlags say how a registry is asked, and Fetch asks one for what is
	// attached to an image. Nothing of it is believed.
	RegistryFlags func() []cli.Flag
	Fetch         func(c *cli.Context, ref string) (Fetched, error)
	// KeyServices names, for the help, where keys may be besides files.
	KeyServices string
	// SigningFlags say which services take part in a signature, and Sign opens who
	// signs. root is the deployment's trusted root, or nil.
	SigningFlags func() []cli.Flag
	Sign         func(c *cli.Context, key string, root []byte) (Signing, error)
}

// Fetched is what a registry has for one image.
type Fetched struct {
	Repository string
	Image      string // digest
	Pairs      []verify.Pair
}

// Signing signs what a verification found.
type Signing interface {
	// Rerun signs a re-run and puts it into the packet's folder. It returns where.
	Rerun(ctx context.Context, r verify.Report, packet string) (path string, err error)
	// Binding signs that a scorecard was bound to the attestation at a moment.
	Binding(ctx context.Context, r verify.Report, scorecard []byte, at time.Time) (bundle []byte, err error)
}

// commands are the commands of one program.
type commands struct {
	program string
	outward *Outward // nil in a program that does not reach out
}

// Commands are verify, gate, inspect, prove and the hidden verify-bundle, for a
// program of that name. outward is nil where it opens no socket.
func Commands(program string, outward *Outward) []*cli.Command {
	a := &commands{program, outward}
	list := []*cli.Command{a.verify(), a.gate(), a.inspect(), a.prove(), verifyBundleCommand()}
	for _, c := range list {
		c.Description = strings.ReplaceAll(c.Description, "   wallproof ", "   "+program+" ")
	}
	return list
}

// Program is the name of the program that has these commands and no others.
const Program = "wallproof-verify"

// Main is that program: it runs the command line and ends the process.
func Main(args []string) {
	command.Short()
	command.Main(command.NewApp(Program, "re-verify evidence offline", Commands(Program, nil)), args)
}

// registryFlags are the flags that say how a registry is asked.
func (a *commands) registryFlags() []cli.Flag {
	if a.outward == nil {
		return nil
	}
	return a.outward.RegistryFlags()
}

// signingFlags are the flags of who signs: first those of the command's own.
func (a *commands) signingFlags(own func(keyServices string) []cli.Flag) []cli.Flag {
	if a.outward == nil {
		return nil
	}
	return append(own(a.outward.KeyServices), a.outward.SigningFlags()...)
}

// arguments is how the help names what a command takes, without images where no
// registry is asked.
func (a *commands) arguments(list string) string {
	if a.outward == nil {
		return strings.TrimSuffix(list, "|IMAGE")
	}
	return list
}

// OpenPacket opens a packet's folder or archive. The packet is nil where path is
// other evidence.
func OpenPacket(path string) (fs.FS, error) {
	var q question
	err := q.openPath(path)
	return q.Packet, err
}

// ReferencePrefix tells a reference from a path where a name could be both.
const ReferencePrefix = "oci://"

// IsReference tells whether an argument names an image in a registry: it says so,
// or no such path exists and it begins with a registry's name.
func IsReference(arg string) bool {
	if strings.HasPrefix(arg, ReferencePrefix) {
		return true
	}
	if _, err := os.Lstat(arg); err == nil || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
		return false
	}
	host, rest, ok := strings.Cut(arg, "/")
	return ok && rest != "" && (strings.ContainsAny(host, ".:") || host == "localhost")
}
