package auditor

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/render"
)

// Forms of annotations.
const (
	annotateAuto   = "auto"
	annotateGitHub = "github"
	annotateGitLab = "gitlab"
	annotateNone   = "none"
)

func annotationFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "annotations", Value: annotateAuto, Usage: "`FORM` of annotations: github, gitlab, none, or auto, which looks for the CI system"},
		&cli.StringFlag{Name: "annotations-out", Usage: "GitLab's code quality report (`FILE`)"},
		&cli.StringFlag{Name: "summary", Usage: "add the report as Markdown to this file (`FILE`, default: GitHub's job summary)"},
	}
}

// annotate tells the CI system what fails or holds. GitHub's workflow commands go
// to standard error, where the runner reads them too, so that --output stays
// whole.
func annotate(c *cli.Context, r verify.Report) error {
	form, out := c.String("annotations"), c.String("annotations-out")
	summary := c.String("summary")
	if form == annotateAuto {
		form = detectCI(out)
		if form == annotateGitHub {
			summary = command.FirstOf(summary, os.Getenv("GITHUB_STEP_SUMMARY"))
		}
	}
	switch form {
	case annotateNone:
	case annotateGitHub:
		if err := render.GitHub(os.Stderr, r); err != nil {
			return fmt.Errorf("write the annotations: %w", err)
		}
	case annotateGitLab:
		if out == "" {
			return errors.New("GitLab reads a file: name it with --annotations-out FILE, and as reports: codequality of the job")
		}
		var b bytes.Buffer
		if err := render.GitLab(&b, r, reportOptions(&b, c.Args().First())); err != nil {
			return fmt.Errorf("write the annotations: %w", err)
		}
		if err := files.Write(out, b.Bytes(), 0o644); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--annotations %q: there is no such form; there are: auto, github, gitlab, none", form)
	}
	return appendSummary(summary, r)
}

// detectCI is the form for the CI system that runs this. GitLab needs a file to
// be named.
func detectCI(out string) string {
	switch {
	case os.Getenv("GITHUB_ACTIONS") == "true":
		return annotateGitHub
	case out != "":
		return annotateGitLab
	}
	return annotateNone
}

// appendSummary adds a report to a file, to which other steps have written.
func appendSummary(path string, r verify.Report) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	if err := errors.Join(render.Markdown(f, r), f.Close()); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}
