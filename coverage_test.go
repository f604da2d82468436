package wallproof

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/probes/catalog"
)

// Each row of docs/coverage.md names techniques of the catalogue, or says why the idea is
// not tried, and each technique of the catalogue has a row.
func TestCoverageNamesTheCatalogue(t *testing.T) {
	doc, err := os.ReadFile("docs/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	section, rows := "", map[string]int{}
	named, own := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| what is tried |") {
			continue
		}
		rows[section]++
		tried, mentioned, err := techniquesOf(line)
		if err != nil {
			t.Errorf("docs/coverage.md, %s: %v", section, err)
		}
		for _, id := range tried {
			named[id] = true
			own[id] = own[id] || strings.HasPrefix(id, section+"-")
		}
		if len(tried)+len(mentioned) > 0 && section == "" {
			t.Errorf("docs/coverage.md: in no section: %s", line)
		}
	}
	for _, tech := range catalog.All() {
		switch {
		case !named[tech.ID]:
			t.Errorf("docs/coverage.md has no row that %s tries", tech.ID)
		case !own[tech.ID]:
			t.Errorf("docs/coverage.md names %s in sections of other vectors alone", tech.ID)
		}
	}
	for _, v := range catalog.Vectors() {
		if rows[string(v)] < 10 {
			t.Errorf("%d rows of %s; this test reads the page wrongly", rows[string(v)], v)
		}
		delete(rows, string(v))
	}
	if len(rows) > 0 {
		t.Errorf("sections of no vector: %v", rows)
	}
	for _, row := range []string{"| a | `NET-NOSUCH` |", "| a | none |", "| a | NET-TCP |", "| a | `NET-TCP` `net-udp` |", "| a | `NET-TCP` NET-UDP |",
		"| a | not tried |", "| a | not tried, because `NET-NOSUCH` |", "| | `NET-TCP` |", "| a |", "| a | b | `NET-TCP` |"} {
		if _, _, err := techniquesOf(row); err == nil {
			t.Errorf("%s is accepted", row)
		}
	}
}

var (
	quoted   = regexp.MustCompile("`([^`]*)`")
	idShaped = regexp.MustCompile(`^[A-Z]{3}-[A-Z0-9]`)
)

// techniquesOf are the techniques that a row names as those that try something; or, of a
// row that says why nothing does, those that it mentions.
func techniquesOf(line string) (tried, mentioned []string, err error) {
	cells := cellsOf(line)
	if len(cells) != 2 || cells[0] == "" {
		return nil, nil, fmt.Errorf("not two cells: %s", line)
	}
	last := cells[1]
	var ids []string
	for _, m := range quoted.FindAllStringSubmatch(last, -1) {
		if _, ok := catalog.Lookup(m[1]); !ok {
			return nil, nil, fmt.Errorf("there is no technique %s, in %s", m[1], line)
		}
		ids = append(ids, m[1])
	}
	for _, word := range strings.Fields(quoted.ReplaceAllString(last, "")) {
		if idShaped.MatchString(word) {
			return nil, nil, fmt.Errorf("%s is not quoted, in %s", word, line)
		}
	}
	if reason, ok := strings.CutPrefix(last, "not tried, because "); ok && reason != "" {
		return nil, ids, nil
	}
	if len(ids) == 0 || strings.HasPrefix(last, "not tried") {
		return nil, nil, fmt.Errorf("no technique, and no reason why none, in %s", line)
	}
	return ids, nil, nil
}
