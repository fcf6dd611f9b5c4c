package setup

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// opened watches a directory, and counts how often a file there is opened.
func opened(t *testing.T, dir string) (count func() int) {
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(watch) })
	_, err = unix.InotifyAddWatch(watch, dir, unix.IN_OPEN)
	require.NoError(t, err)
	return func() (n int) {
		raw := make([]byte, 1<<16)
		size, err := unix.Read(watch, raw)
		if err == unix.EAGAIN {
			return 0
		}
		require.NoError(t, err)
		for at := 0; at < size; n++ {
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(raw[at+12:]))
		}
		return n
	}
}

// readAll reads a model's directory in every way that commands do, and returns the errors.
func readAll(t *testing.T, dir string) (wrong []error) {
	failed := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	b, err := Open(dir, io.Discard)
	if failed(err); err != nil {
		b = hub.Open(dir)
	}
	defer b.Close()
	failed(checkpoint.VerifyModel(checkpoint.OS, dir))
	if _, err := os.Lstat(filepath.Join(dir, checkpoint.RecordFile)); err == nil {
		_, err = checkpoint.ReadRecord(checkpoint.OS, dir)
		failed(err)
	}
	_, _, err = b.Partial(nil)
	failed(err)
	_, err = b.WeightFiles()
	failed(err)
	_, err = Companions(b)
	failed(err)
	_, err = OpenTokenizer(dir)
	failed(err)
	_, err = Sampling(b, &train.SampleConfig{})
	failed(err)
	cfg := runfile.New()
	cfg.Model.From = dir
	_, begin, err := Definition(cfg, io.Discard)
	failed(err)
	begin.Release()
	return wrong
}

// A file of a model's directory may be a link to anything, a pipe or a directory, under every name that is read there. None is followed out of the directory or
// waited for, and each is named.
func TestNothingOutsideOfADirectoryIsOpened(t *testing.T) {
	outside := t.TempDir()
	good := func(t *testing.T) (dir string) {
		dir = t.TempDir()
		for _, name := range []string{"config.json", "model.safetensors"} {
			raw, err := os.ReadFile(filepath.Join("..", "..", "model", "testdata", "models", "qwen3_qknorm", name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o666))
		}
		small := `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(small), 0o666))
		return dir
	}
	names := append(slices.Clone(checkpoint.Companions), "config.json", "model.safetensors", checkpoint.IndexFile, model.BaseFile, "manifest.json", checkpoint.RecordFile)
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(outside, name), []byte(`{}`), 0o666))
	}
	require.Empty(t, readAll(t, good(t)))
	count := opened(t, outside)
	raw, err := os.ReadFile(filepath.Join(outside, names[0]))
	require.NoError(t, err)
	require.NotEmpty(t, raw)
	require.Equal(t, 1, count(), "what is opened is seen")
	for _, name := range names {
		for kind, put := range map[string]func(path string) error{
			"a link":      func(path string) error { return os.Symlink(filepath.Join(outside, name), path) },
			"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o666) },
			"a directory": func(path string) error { return os.Mkdir(path, 0o777) },
		} {
			dir := good(t)
			path := filepath.Join(dir, name)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, put(path))
			wrong := readAll(t, dir)
			if assert.NotEmpty(t, wrong, "%s: %s", name, kind) {
				assert.ErrorContains(t, wrong[0], name, kind)
			}
			for _, err := range wrong {
				assert.NotContains(t, err.Error(), "no tokenizer", "%s: %s", name, kind)
			}
			assert.Zero(t, count(), "%s: %s: opened outside", name, kind)
		}
	}
}
