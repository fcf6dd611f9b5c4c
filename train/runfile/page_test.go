package runfile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var keyRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^|]*)` \\| .+ \\|$")

// docs/run-file.md has a row for every key, with the default in force, and for nothing else.
func TestPageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/run-file.md")
	require.NoError(t, err)
	found := map[string]string{}
	for _, row := range keyRow.FindAllStringSubmatch(string(page), -1) {
		assert.NotContains(t, found, row[1], "found two rows, wanted one")
		found[row[1]] = row[2]
	}
	wanted := map[string]string{}
	c := New()
	for _, f := range fields {
		wanted[f.key] = inline(c.value(f))
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
