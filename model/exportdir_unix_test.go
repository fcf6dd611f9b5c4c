//go:build unix

package model

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Files in the folder of an export are looked at before they are opened: nobody writes to this pipe, which stays.
func TestExportBesideAPipe(t *testing.T) {
	root := t.TempDir()
	pipe := filepath.Join(root, exportPrefix+"x", exportOwner)
	put(t, "", filepath.Dir(pipe), "notes.txt")
	require.NoError(t, syscall.Mkfifo(pipe, 0o666))
	var told []string
	removeDead(root, func(what string) { told = append(told, what) })
	assert.Contains(t, strings.Join(told, "\n"), "stays: \""+pipe+"\": found a pipe, wanted a regular file")
	assert.Equal(t, []string{"notes.txt", exportOwner}, namesIn(t, filepath.Dir(pipe)))
}
