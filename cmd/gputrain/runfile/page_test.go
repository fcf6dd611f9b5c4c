package runfile

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var keyRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^|]*)` \\| .+ \\|$")

// docs/run-file.md has a row for every key, with the default in force, and for nothing else.
func TestPageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../../docs/run-file.md")
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
