package runfile

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// update writes the tables of keys anew: make pages.
var update = flag.Bool("update", false, "write the tables of keys in docs/run-file.md")

const (
	runFilePage = "../../docs/run-file.md"
	keysBegin   = "<!-- From the tags of run/runfile/run.go, by make pages. Marks of code and links stay. -->\n"
	keysEnd     = "<!-- end of keys -->\n"
)

var (
	keyRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `[^|]*` \\| (.+) \\|$")
	link   = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\.md[^)]*\)`)
)

// plainText is what a row of the page looks like: without the marks of code and links.
func plainText(row string) string {
	return strings.NewReplacer("`", "", `\|`, "|").Replace(link.ReplaceAllString(row, "$1"))
}

// keyTables are the tables of all keys, a section each, in the order of the template. A meaning that has the words of the tag stays as it is marked on the page.
func keyTables(page string) string {
	meant := map[string]string{}
	for _, row := range keyRow.FindAllStringSubmatch(page, -1) {
		meant[row[1]] = row[2]
	}
	var out strings.Builder
	c := New()
	for section := range reflect.TypeFor[Run]().Fields() {
		fmt.Fprintf(&out, "\n### `%s`: %s\n\n| key | default | meaning |\n|---|---|---|\n", keyOf(section), section.Tag.Get("doc"))
		for _, f := range fields {
			if f.key != keyOf(section) && !strings.HasPrefix(f.key, keyOf(section)+".") {
				continue
			}
			meaning := told(f.doc)
			if plainText(meant[f.key]) == meaning {
				meaning = meant[f.key]
			} else {
				meaning = strings.ReplaceAll(meaning, "|", `\|`)
			}
			fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", f.key, inline(c.value(f)), meaning)
		}
	}
	return out.String() + "\n"
}

// docs/run-file.md has a row for every key, with the default in force and what it means, and for nothing else.
func TestPageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile(runFilePage)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(page), keysBegin)
	tables, after, ends := strings.Cut(rest, keysEnd)
	require.True(t, begins && ends, "found no tables between %q and %q", keysBegin, keysEnd)
	if *update {
		require.NoError(t, os.WriteFile(runFilePage, []byte(before+keysBegin+keyTables(tables)+keysEnd+after), 0o666))
		return
	}
	assert.Equal(t, keyTables(tables), tables, "make pages writes them")
	assert.Empty(t, keyRow.FindString(before+after), "a key outside of the tables")
	other := keyTables(strings.Replace(tables, "| updates between", "| steps between", 1))
	assert.Contains(t, other, "| updates between evaluations", "other words than the tag's do not stay")
}

// The section on resuming names every key that may change when a run goes on, and no other.
func TestPageSaysWhatMayChange(t *testing.T) {
	page, err := os.ReadFile(runFilePage)
	require.NoError(t, err)
	said := func(from, to string) (keys []string) {
		_, section, ok := strings.Cut(string(page), from)
		require.True(t, ok, from)
		section, _, ok = strings.Cut(section, to)
		require.True(t, ok, to)
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(section, -1) {
			keys = append(keys, quoted[1])
		}
		return keys
	}
	var free, scheduled []string
	for _, f := range fields {
		switch {
		case strings.HasPrefix(f.key, "pipeline."):
			assert.Equal(t, f.key != "pipeline.microbatches", f.resume == Free, f.key)
		case f.resume == Free:
			free = append(free, f.key)
		case strings.HasPrefix(f.key, "optimizer.schedule."):
			assert.Equal(t, Scheduled, f.resume, f.key)
		case f.resume == Scheduled:
			scheduled = append(scheduled, f.key)
		}
	}
	assert.ElementsMatch(t, append(free, "pipeline", "pipeline.microbatches"), said("**What may change.**", "The same command"))
	assert.ElementsMatch(t, append(scheduled, "--reschedule", "optimizer.schedule", "run.yaml"), said("**Another schedule.**", "**Text.**"))
}
