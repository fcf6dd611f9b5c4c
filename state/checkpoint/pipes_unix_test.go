//go:build unix

package checkpoint

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe or a device in the place of a checkpoint's file is not waited for: the checkpoint is passed over.
func TestPipesAreNotWaitedFor(t *testing.T) {
	for _, name := range []string{manifestName, RecordFile} {
		root := t.TempDir()
		commitRun(t, root, 1, Run{})
		commitRun(t, root, 2, Run{})
		path := filepath.Join(root, DirName(2), name)
		for _, place := range []func() error{
			func() error { return syscall.Mkfifo(path, 0o666) },
			func() error { return os.Symlink("/dev/zero", path) },
		} {
			require.NoError(t, os.Remove(path))
			require.NoError(t, place())
			found, err := Store{FS: OS, Dir: root}.Newest()
			require.NoError(t, err)
			assert.EqualValues(t, 1, found.Step)
			assert.Len(t, found.Rejected, 1)
			_, err = Store{FS: OS, Dir: root}.Others()
			require.NoError(t, err)
		}
	}
}
