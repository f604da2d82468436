package battery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/plant"
)

// Some of what a secret can stand in is seen by nobody inside: what a lower layer of
// the image holds and a higher one removes, and the files of a checkpoint. The battery
// looks there itself, and tells the attempts what it found; the control is looked at in
// the same way.

// layersTechniques are those that are told of layers.
var layersTechniques = []string{"ENV-LAYERS", "SNP-IMAGE"}

// unpackImage unpacks the image, and looks at what its upper layers hide; for the
// control, at an image in which a canary is hidden.
func (r *run) unpackImage(ctx context.Context) error {
	report, err := image.Unpack(ctx, r.opt.Image, r.rootfs, image.UnpackOptions{Command: r.self("unpack")})
	if err != nil {
		return err
	}
	r.attack.hidden = told(report)
	if !slices.ContainsFunc(r.techniques, func(t catalog.Technique) bool { return slices.Contains(layersTechniques, t.ID) }) {
		return nil
	}
	planted := plant.File{Path: "/root/.config/token", Content: "token: " + r.control.canaries.hostFile + "\n"}
	if r.control.hidden, err = r.hiding(ctx, planted); err != nil {
		return err
	}
	for _, f := range r.opt.Breaks.lower(r) {
		more, err := r.hiding(ctx, f)
		if err != nil {
			return err
		}
		r.attack.hidden += more
	}
	return nil
}

// told is what a report says of hidden files, for kit.Told.
func told(report *image.Report) string {
	return fmt.Sprintf("%d hidden files searched\n%s\n", report.Hidden, strings.Join(report.Secrets, "\n"))
}

// hiding unpacks an image that hides a file.
func (r *run) hiding(ctx context.Context, f plant.File) (string, error) {
	img, err := image.Hiding(f.Path, f.Content)
	if err != nil {
		return "", fmt.Errorf("make an image that hides a file: %w", err)
	}
	dir := filepath.Join(r.state, "hiding")
	report, err := image.Unpack(ctx, img, dir, image.UnpackOptions{Command: r.self("unpack")})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", storage("remove an image that hides a file", err)
	}
	return told(report), nil
}

// Bounds of the search of a checkpoint.
const (
	maxCheckpoint  = 2 << 30
	checkpointStep = 1 << 20
)

// searchCheckpoint looks for canaries in the files of a checkpoint as they lie.
func searchCheckpoint(dir string) (string, error) {
	var files, size int64
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		n, err := searchFile(path, maxCheckpoint-size, found)
		size += n
		return err
	})
	if err != nil {
		return "", fmt.Errorf("search the checkpoint: %w", err)
	}
	out := fmt.Sprintf("%d files of the checkpoint searched\n", files)
	for d := range found {
		out += d + "\n"
	}
	return out, nil
}

// searchFile looks for canaries in a file, in steps that overlap by one.
func searchFile(path string, most int64, found map[string]bool) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, checkpointStep+canary.Length)
	kept, total := 0, int64(0)
	for total < most {
		n, err := io.ReadFull(f, buf[kept:])
		for _, d := range canary.FindPlain(buf[:kept+n]) {
			found[d] = true
		}
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return total, nil
		case err != nil:
			return total, err
		}
		kept = copy(buf, buf[len(buf)-canary.Length:])
	}
	return total, nil
}
