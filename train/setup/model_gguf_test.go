package setup

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A GGUF file in place of a model directory is told by its content, whatever it is called.
func TestHoldModelOfGGUF(t *testing.T) {
	at := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.WriteFile(at, []byte("GGUF\x03\x00\x00\x00"), 0o666))
	_, _, err := HoldModel(at, io.Discard)
	var usage *UsageError
	require.ErrorAs(t, err, &usage)
	require.ErrorContains(t, err, "found a GGUF file, wanted a model directory")
}
