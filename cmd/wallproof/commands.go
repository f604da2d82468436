package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/version"
)

// verifyCommands are the commands that run on every system.
func verifyCommands() []*cli.Command {
	return []*cli.Command{attestCommand(), verifyCommand(), gateCommand(), inspectCommand(), proveCommand(), liveCommand(), reportCommand(), verifyBundleCommand(), siteCommand(), diffCommand(), policyCommand(), probesCommand(), versionCommand(), completionCommand()}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Example:\n   wallproof version --output json",
		Flags:       []cli.Flag{outputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.String("output") == "json" {
				return printJSON(c.App.Writer, map[string]string{"version": version.String(), "commit": version.Commit})
			}
			_, err := fmt.Fprintln(c.App.Writer, "wallproof "+version.String())
			return err
		},
	}
}

// Completion scripts ask the program itself for what fits, so they never age.
const (
	bashCompletion = `_wallproof() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  mapfile -t COMPREPLY < <(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur")
}
complete -o bashdefault -o default -F _wallproof wallproof
`
	zshCompletion = `#compdef wallproof
_wallproof() {
  local -a opts words_before
  words_before=("${words[@]:0:$((CURRENT-1))}")
  [[ "${words[CURRENT]}" == -* ]] && words_before+=("${words[CURRENT]}")
  opts=("${(@f)$("${words_before[@]}" --generate-bash-completion 2>/dev/null)}")
  [[ -n "${opts[1]}" ]] && _describe 'values' opts || _files
}
compdef _wallproof wallproof
`
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a shell completion script",
		ArgsUsage:   "bash|zsh|fish",
		Description: "Examples:\n   source <(wallproof completion bash)\n   wallproof completion fish > ~/.config/fish/completions/wallproof.fish",
		Action: func(c *cli.Context) error {
			var script string
			var err error
			switch c.Args().First() {
			case "bash":
				script = bashCompletion
			case "zsh":
				script = zshCompletion
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
