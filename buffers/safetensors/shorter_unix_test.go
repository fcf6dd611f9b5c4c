//go:build unix

package safetensors_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
)

// A file that becomes shorter while it is open, as one that is copied over does, is an error: the processor's fault does not end the process.
func TestFileThatBecomesShorter(t *testing.T) {
	var raw bytes.Buffer
	require.NoError(t, safetensors.Write(&raw, []safetensors.Tensor{safetensors.Float32s("a", []int{1 << 15}, make([]float32, 1<<15))}, nil))
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, raw.Bytes(), 0o666))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Float32("a")
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 10))
	_, err = f.Float32("a")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, `tensor "a": the file has become shorter`)
	section, err := f.Bytes("a")
	require.NoError(t, err)
	_, err = io.ReadAll(section)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
