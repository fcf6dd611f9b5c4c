package template

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// field is the member of an object, nil where it has none.
func field(v any, name string) any {
	value, _ := v.(*Object).Get(name)
	return value
}

// The files of cases hold what Jinja2 itself, set up as transformers does, makes of templates: a text, the parts of it
// that were generated, a message of raise_exception, or any other error.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := Decode(raw)
		require.NoError(t, err)
		now, err := time.Parse("2006-01-02T15:04:05", field(file, "now").(string))
		require.NoError(t, err)
		variables, _ := field(file, "variables").(*Object)
		shared, _ := field(file, "template").(string)
		cases := field(file, "cases").([]any)
		require.NotEmpty(t, cases)
		for i, c := range cases {
			source, given := shared, variables
			if s, ok := field(c, "template").(string); ok {
				source = s
			}
			if o, ok := field(c, "variables").(*Object); ok {
				given = o
			}
			t.Run(filepath.Base(name)+"/"+strconv.Itoa(i), func(t *testing.T) {
				check(t, c, source, given, now)
			})
		}
	}
}

func check(t *testing.T, c any, source string, given *Object, now time.Time) {
	var made *Rendering
	parsed, err := Parse("case", source)
	if err == nil {
		made, err = parsed.Render(given, Options{Now: now})
	}
	var raised *RaisedError
	if errors.As(err, &raised) {
		assert.Equal(t, field(c, "raised"), raised.Message, source)
		return
	}
	if field(c, "error") != nil {
		var wrong *fault
		require.ErrorAs(t, err, &wrong, source)
		return
	}
	require.NoError(t, err, source)
	require.Equal(t, field(c, "text"), made.Text, source)
	generated := []any{}
	for _, g := range made.Generated {
		generated = append(generated, []any{int64(g[0]), int64(g[1])})
	}
	want, _ := field(c, "generation").([]any)
	require.Equal(t, append([]any{}, want...), generated, source)
}
