package texts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// A reading that is stopped, or fails, takes along what it has written of a token file: in the cache, and in the folder of temporary files.
func TestStoppedTokenizingLeavesNothing(t *testing.T) {
	stop := errors.New("stop")
	for _, cache := range []string{t.TempDir(), ""} {
		dir := cache
		if cache == "" {
			dir = t.TempDir()
			t.Setenv("TMPDIR", dir)
		}
		for name, write := range map[string]func(r *reading, w *tokenWriter) error{
			"fails":    func(*reading, *tokenWriter) error { return stop },
			"panics":   func(*reading, *tokenWriter) error { panic(stop) },
			"finishes": func(*reading, *tokenWriter) error { return nil },
		} {
			r := &reading{ctx: t.Context(), config: Config{Cache: cache}}
			c := &Corpus{}
			func() {
				defer func() { _ = recover() }()
				_, _, _ = c.tokenFile(r, tokenKey{}, 2, func(w *tokenWriter) error { return write(r, w) })
			}()
			left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
			require.NoError(t, err)
			assert.Empty(t, left, "%q %s", cache, name)
			require.NoError(t, c.Close())
			require.NoError(t, os.RemoveAll(filepath.Join(cache, tokenKey{}.name())))
		}
	}
}

// One that is left behind in a read that hangs takes its file along too, and so does one that is about to begin it.
func TestTokensOfAReadingLeftBehind(t *testing.T) {
	cache, stop := t.TempDir(), errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &reading{ctx: ctx, config: Config{Cache: cache}}
	writing, hangs, done := make(chan struct{}), make(chan struct{}), make(chan opened)
	ended := make(chan error)
	go func() {
		_, _, err := (&Corpus{}).tokenFile(r, tokenKey{}, 2, func(*tokenWriter) error {
			close(writing)
			<-hangs
			return nil
		})
		ended <- err
	}()
	<-writing
	there, err := filepath.Glob(filepath.Join(cache, "*.tmp"))
	require.NoError(t, err)
	require.Len(t, there, 1)
	other, err := createUnfinished(cache, tokenKey{})
	require.NoError(t, err)
	other.Discard()
	assert.FileExists(t, there[0], "its writer lives")
	cancel(stop)
	_, err = r.wait(done)
	require.ErrorIs(t, err, stop)
	assert.NoFileExists(t, there[0])
	close(hangs)
	assert.Error(t, <-ended)
	_, err = r.unfinished.create(cache, tokenKey{})
	assert.ErrorIs(t, err, errLeft)
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	assert.Empty(t, left)
	done <- opened{err: stop}
}

// A full disk is told, with what to do, and nothing of the file stays.
func TestFullCache(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no device that is full")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	_, err = io.WriteString(full, "x")
	cache := &data.CacheError{Err: fmt.Errorf("write: %w", err)}
	assert.True(t, cache.Full())
	assert.ErrorContains(t, cache, "no space left on device: make room there, or name another directory in data.cache, or for all that is kept in GPUTRAIN_CACHE")
	assert.False(t, (&data.CacheError{Err: syscall.ENOTDIR}).Full())

	file, err := os.Create(filepath.Join(t.TempDir(), "tokens"))
	require.NoError(t, err)
	defer file.Close()
	r := &reading{progress: Progress{Bytes: 1, Of: 1 << 30}}
	said := r.cacheError(file, syscall.ENOSPC, 1<<30)
	assert.True(t, said.(*data.CacheError).Full())
	assert.Regexp(t, `found [0-9.]+ MiB free, wanted about 1099511627776\.0 MiB: make room there`, said.Error())
}
