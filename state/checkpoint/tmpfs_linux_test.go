package checkpoint

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A real, small file system where the machine lets us make one.
func TestFullRealDisk(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=5m"); err != nil {
		t.Skipf("skip: no small tmpfs: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(root, 0)) })
	c := mustCommit(t, root, 10)
	err := Commit(OS, filepath.Join(root, DirName(20)), 20, sources(20))
	var space *SpaceError
	require.ErrorAs(t, err, &space)

	// Sizes underestimated: the disk says it itself, half way.
	lying := sources(20)
	for i := range lying {
		lying[i].Bytes = 0
	}
	err = Commit(OS, filepath.Join(root, DirName(20)), 20, lying)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorAs(t, err, &space, "and what was found and wanted is said with it")
	require.Less(t, space.Free, uint64(5<<20))
	found, err := c.Newest()
	require.NoError(t, err)
	requireContent(t, found)
}
