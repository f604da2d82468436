package shell

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRead bounds what a program reads of one input.
const maxRead = 16 << 20

// path makes an argument absolute.
func (c *call) path(arg string) string {
	if filepath.IsAbs(arg) {
		return filepath.Clean(arg)
	}
	return filepath.Join(c.dir, arg)
}

// flags splits leading options from operands: the letters of all options, and
// the rest. "-" alone is an operand.
func flags(args []string) (letters string, operands []string) {
	for i, a := range args {
		if a == "--" {
			return letters, append(operands, args[i+1:]...)
		}
		if len(a) > 1 && a[0] == '-' {
			letters += strings.TrimLeft(a, "-")
			continue
		}
		operands = append(operands, a)
	}
	return letters, operands
}

// inputs calls f with each operand's content, or with standard input without any.
func (c *call) inputs(operands []string, f func(name string, r io.Reader) error) error {
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	var missing error
	for _, name := range operands {
		if name == "-" {
			if err := f(name, io.LimitReader(c.in, maxRead)); err != nil {
				return err
			}
			continue
		}
		file, err := os.Open(c.path(name))
		if err != nil { // the others are read all the same
			missing = errors.Join(missing, err)
			continue
		}
		err = f(name, io.LimitReader(file, maxRead))
		file.Close()
		if err != nil {
			return err
		}
	}
	return missing
}

func ls(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	if len(operands) == 0 {
		operands = []string{"."}
	}
	for _, o := range operands {
		entries, err := listing(c.path(o))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Name()[0] == '.' && !strings.ContainsAny(letters, "aA") {
				continue
			}
			if strings.Contains(letters, "l") {
				fmt.Fprintf(c.out, "%s %10d %s %s\n", e.Mode(), e.Size(), e.ModTime().UTC().Format(time.DateTime), e.Name())
				continue
			}
			fmt.Fprintln(c.out, e.Name())
		}
	}
	return nil
}

// listing returns a folder's entries, or the one that a path is.
func listing(path string) ([]fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if target, err := os.Stat(path); err == nil {
		info = target
	}
	if !info.IsDir() {
		return []fs.FileInfo{info}, nil
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []fs.FileInfo
	for _, e := range list {
		if i, err := e.Info(); err == nil {
			out = append(out, i)
		}
	}
	return out, nil
}

func cat(_ context.Context, c *call) error {
	_, operands := flags(c.args)
	return c.inputs(operands, func(_ string, r io.Reader) error {
		_, err := io.Copy(c.out, r)
		return err
	})
}

// count reads the number of "-n N", "-nN" or "-N".
func count(args []string, def int) (n int, operands []string, err error) {
	n = def
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-n" || a == "-c":
			if i++; i == len(args) {
				return 0, nil, errUsage("a number is missing after " + a)
			}
			n, err = strconv.Atoi(args[i])
		case len(a) > 1 && a[0] == '-':
			n, err = strconv.Atoi(strings.TrimLeft(a, "-nc"))
		default:
			operands = append(operands, a)
		}
		if err != nil || n < 0 {
			return 0, nil, errUsage("not a number: " + a)
		}
	}
	return n, operands, nil
}

func readLines(r io.Reader) ([]string, error) {
	var out []string
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRead)
	for s.Scan() {
		out = append(out, s.Text())
	}
	return out, s.Err()
}

func head(_ context.Context, c *call) error {
	return c.part(func(lines []string, n int) []string { return lines[:min(n, len(lines))] })
}

func tail(_ context.Context, c *call) error {
	return c.part(func(lines []string, n int) []string { return lines[max(0, len(lines)-n):] })
}

func (c *call) part(cut func([]string, int) []string) error {
	n, operands, err := count(c.args, 10)
	if err != nil {
		return err
	}
	return c.inputs(operands, func(_ string, r io.Reader) error {
		lines, err := readLines(r)
		for _, line := range cut(lines, n) {
			fmt.Fprintln(c.out, line)
		}
		return err
	})
}

func wc(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	return c.inputs(operands, func(name string, r io.Reader) error {
		b, err := io.ReadAll(r)
		counts := []struct {
			letter string
			n      int
		}{{"l", strings.Count(string(b), "\n")}, {"w", len(strings.Fields(string(b)))}, {"c", len(b)}}
		for _, k := range counts {
			if letters == "" || strings.Contains(letters, k.letter) {
				fmt.Fprintf(c.out, "%d ", k.n)
			}
		}
		fmt.Fprintln(c.out, strings.TrimPrefix(name, "-"))
		return err
	})
}

func grep(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	if len(operands) == 0 {
		return errUsage("a pattern is missing")
	}
	pattern := operands[0]
	if strings.Contains(letters, "F") {
		pattern = regexp.QuoteMeta(pattern)
	}
	if strings.Contains(letters, "i") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return errUsage(err.Error())
	}
	found := false
	err = c.inputs(operands[1:], func(_ string, r io.Reader) error {
		lines, err := readLines(r)
		for _, line := range lines {
			if re.MatchString(line) != strings.Contains(letters, "v") {
				found = true
				if !strings.Contains(letters, "q") {
					fmt.Fprintln(c.out, line)
				}
			}
		}
		return err
	})
	if err == nil && !found {
		return statusError(1)
	}
	return err
}

func base64Program(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	return c.inputs(operands, func(_ string, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if strings.ContainsAny(letters, "dD") {
			raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(b)), ""))
			if err != nil {
				return err
			}
			_, err = c.out.Write(raw)
			return err
		}
		_, err = fmt.Fprintln(c.out, base64.StdEncoding.EncodeToString(b))
		return err
	})
}

func mkdir(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	for _, o := range operands {
		var err error
		if strings.Contains(letters, "p") {
			err = os.MkdirAll(c.path(o), 0o755)
		} else {
			err = os.Mkdir(c.path(o), 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func rm(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	for _, o := range operands {
		var err error
		if strings.ContainsAny(letters, "rR") {
			err = os.RemoveAll(c.path(o))
		} else {
			err = os.Remove(c.path(o))
		}
		if err != nil && !(strings.Contains(letters, "f") && os.IsNotExist(err)) {
			return err
		}
	}
	return nil
}

// target is where a file goes when it is copied or moved to an operand.
func (c *call) target(from, to string) string {
	to = c.path(to)
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		return filepath.Join(to, filepath.Base(from))
	}
	return to
}

func cp(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	if len(operands) < 2 {
		return errUsage("want SOURCE… TARGET")
	}
	to := operands[len(operands)-1]
	for _, o := range operands[:len(operands)-1] {
		from := c.path(o)
		if info, err := os.Stat(from); err == nil && info.IsDir() && strings.ContainsAny(letters, "rRa") {
			if err := os.CopyFS(c.target(from, to), os.DirFS(from)); err != nil {
				return err
			}
			continue
		}
		if err := copyFile(from, c.target(from, to)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func mv(_ context.Context, c *call) error {
	_, operands := flags(c.args)
	if len(operands) < 2 {
		return errUsage("want SOURCE… TARGET")
	}
	for _, o := range operands[:len(operands)-1] {
		from := c.path(o)
		if err := os.Rename(from, c.target(from, operands[len(operands)-1])); err != nil {
			return err
		}
	}
	return nil
}

func touch(_ context.Context, c *call) error {
	_, operands := flags(c.args)
	for _, o := range operands {
		f, err := os.OpenFile(c.path(o), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func tee(_ context.Context, c *call) error {
	letters, operands := flags(c.args)
	mode := os.O_TRUNC
	if strings.Contains(letters, "a") {
		mode = os.O_APPEND
	}
	outs := []io.Writer{c.out}
	for _, o := range operands {
		f, err := os.OpenFile(c.path(o), os.O_CREATE|os.O_WRONLY|mode, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		outs = append(outs, f)
	}
	_, err := io.Copy(io.MultiWriter(outs...), c.in)
	return err
}

// maxFound bounds how much find prints.
const maxFound = 10000

func find(ctx context.Context, c *call) error {
	root, name := ".", ""
	for i := 0; i < len(c.args); i++ {
		switch {
		case c.args[i] == "-name" && i+1 < len(c.args):
			i++
			name = c.args[i]
		case c.args[i][0] != '-':
			root = c.args[i]
		default:
			return errUsage("unknown option " + c.args[i])
		}
	}
	var list []string
	err := filepath.WalkDir(c.path(root), func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil || len(list) >= maxFound {
			return fs.SkipDir
		}
		if ok, matchErr := filepath.Match(name, d.Name()); name == "" || matchErr == nil && ok {
			list = append(list, path)
		}
		return nil
	})
	slices.Sort(list)
	for _, path := range list {
		fmt.Fprintln(c.out, path)
	}
	return err
}
