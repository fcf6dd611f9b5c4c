package runfile

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	keyRow  = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^|]*)` \\| (.+) \\|$")
	heading = regexp.MustCompile("(?m)^### `([a-z]+)`: (.+)$")
	link    = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\.md[^)]*\)`)
)

// plainText is what a row of the page looks like: without the marks of code and links.
func plainText(row string) string {
	return strings.NewReplacer("`", "", `\|`, "|").Replace(link.ReplaceAllString(row, "$1"))
}

// docs/run-file.md has a row for every key, with the default in force and what it means, and for nothing else.
func TestPageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/run-file.md")
	require.NoError(t, err)
	found, order := map[string][2]string{}, []string{}
	for _, row := range keyRow.FindAllStringSubmatch(string(page), -1) {
		order = append(order, row[1])
		assert.NotContains(t, found, row[1], "found two rows, wanted one")
		found[row[1]] = [2]string{row[2], plainText(row[3])}
	}
	for _, section := range heading.FindAllStringSubmatch(string(page), -1) {
		found[section[1]] = [2]string{"", section[2]}
	}
	wanted := map[string][2]string{}
	c := New()
	var keys []string
	for _, f := range fields {
		wanted[f.key] = [2]string{inline(c.value(f)), told(f.doc)}
		keys = append(keys, f.key)
	}
	assert.Equal(t, keys, order, "in the order of the template")
	// Which families there are is for the registry to say.
	wanted["model.kind"] = [2]string{wanted["model.kind"][0], "a family of models; gputrain config template lists them"}
	for i := range reflect.TypeFor[Run]().NumField() {
		section := reflect.TypeFor[Run]().Field(i)
		wanted[keyOf(section)] = [2]string{"", section.Tag.Get("doc")}
	}
	assert.Equal(t, wanted, found)
}

// The section on resuming names every key that may change when a run goes on, and no other.
func TestPageSaysWhatMayChange(t *testing.T) {
	page, err := os.ReadFile("../../docs/run-file.md")
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
