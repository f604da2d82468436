package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/version"
)

// Version prints which program this is.
func Version() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Example:\n   wallproof version --output json",
		Flags:       []cli.Flag{OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.String("output") == "json" {
				return PrintJSON(c.App.Writer, map[string]string{"version": version.String(), "commit": version.Commit})
			}
			_, err := fmt.Fprintln(c.App.Writer, c.App.Name+" "+version.String())
			return err
		},
	}
}

// Completion scripts ask the program itself for what fits, so they never age.
// PROGRAM and FUNCTION stand for its name.
const (
	bashCompletion = `FUNCTION() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  mapfile -t COMPREPLY < <(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur")
}
complete -o bashdefault -o default -F FUNCTION PROGRAM
`
	zshCompletion = `#compdef PROGRAM
FUNCTION() {
  local -a opts words_before
  words_before=("${words[@]:0:$((CURRENT-1))}")
  [[ "${words[CURRENT]}" == -* ]] && words_before+=("${words[CURRENT]}")
  opts=("${(@f)$("${words_before[@]}" --generate-bash-completion 2>/dev/null)}")
  [[ -n "${opts[1]}" ]] && _describe 'values' opts || _files
}
compdef FUNCTION PROGRAM
`
)

// Completion prints a completion script for a program of that name.
func Completion(program string) *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a shell completion script",
		ArgsUsage:   "bash|zsh|fish",
		Description: fmt.Sprintf("Examples:\n   source <(%[1]s completion bash)\n   %[1]s completion fish > ~/.config/fish/completions/%[1]s.fish", program),
		Action: func(c *cli.Context) error {
			named := strings.NewReplacer("PROGRAM", program, "FUNCTION", "_"+strings.ReplaceAll(program, "-", "_"))
			var script string
			var err error
			switch c.Args().First() {
			case "bash":
				script = named.Replace(bashCompletion)
			case "zsh":
				script = named.Replace(zshCompletion)
			case "fish":
				script, err = c.App.ToFishCompletion()
			default:
				return fmt.Errorf("completion takes one of bash, zsh, fish")
			}
			if err == nil {
				_, err = fmt.Fprint(c.App.Writer, script)
			}
			return err
		},
	}
}
