package tests

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// objects reads one JSON object after another.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, text)
		all = append(all, o)
	}
}
