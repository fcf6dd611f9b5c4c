//go:build unix

package tensorboard

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe in the place of an event file would be waited for until somebody writes to it.
func TestPipesAreRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.out.tfevents.1")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	done := make(chan error, 1)
	go func() {
		_, err := ReadLog(name)
		done <- err
	}()
	select {
	case err := <-done:
		require.ErrorContains(t, err, "wanted a regular file")
	case <-time.After(time.Minute):
		t.Fatal("it waits for a writer")
	}
}
