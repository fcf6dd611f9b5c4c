package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Files are made together or not at all, and what somebody else has there, or has put there meanwhile, stays as it is.
func TestNewFilesAreAllOrNothing(t *testing.T) {
	failed := errors.New("full")
	says := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	for name, c := range map[string]struct {
		before string                             // that is there
		second func(to string, w io.Writer) error // writes the second file
		err    error
		left   map[string]string
	}{
		"both":         {"", func(_ string, w io.Writer) error { return says("b")(w) }, nil, map[string]string{"a": "a", "b": "b"}},
		"first there":  {"a", nil, fs.ErrExist, map[string]string{"a": "mine"}},
		"second there": {"b", nil, fs.ErrExist, map[string]string{"b": "mine"}},
		"second fails": {"", func(string, io.Writer) error { return failed }, failed, map[string]string{}},
		"second is made": {"", func(to string, _ io.Writer) error {
			return os.WriteFile(to, []byte("theirs"), 0o666)
		}, fs.ErrExist, map[string]string{"b": "theirs"}},
	} {
		dir := t.TempDir()
		if c.before != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.before), []byte("mine"), 0o666))
		}
		second := filepath.Join(dir, "b")
		last := &newFile{to: second, write: func(w io.Writer) error { return c.second(second, w) }}
		err := makeNew(&newFile{to: filepath.Join(dir, "a"), write: says("a")}, last)
		require.ErrorIs(t, err, c.err, name)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		left := map[string]string{}
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			left[e.Name()] = string(raw)
		}
		assert.Equal(t, c.left, left, name)
	}
}
