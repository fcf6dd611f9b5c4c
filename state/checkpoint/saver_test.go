package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/caught"
)

// hostCopy is a copy of the state of a step, made by hand.
func hostCopy(step int64) HostCopy { return HostCopy{Step: step, Sources: sources(step)} }

// outcome is what has become of the save under way.
func outcome(s *Saver) error {
	out, _ := s.Wait()
	return out.Err
}

// brokenAtAnyCall: every single call of an asynchronous save, of a step or in place of one of its step, and of the rotation behind it is broken in turn, by a stop of the
// process or the machine, in the middle of a write too, or by a full disk: the error comes out, discovery finds a whole checkpoint, nothing is left under a
// checkpoint's name that is not whole, and the next save succeeds.
func brokenAtAnyCall(t *testing.T, kinds []string, steps ...int64) {
	for _, kind := range kinds {
		for _, step := range steps {
			calls := 0
			for n := 1; calls == 0; n++ {
				root := t.TempDir()
				mustCommit(t, root, 10, 20)
				f := newFaultFS(n, kind == "full")
				saver := NewSaver(Store{FS: f, Dir: root})
				require.NoError(t, saver.Start(hostCopy(step), Keep{Last: 1}, nil))
				failed := outcome(saver)
				name := fmt.Sprintf("step %d, %s at call %d of %v", step, kind, n, f.calls)
				if kind == "power" {
					require.NoError(t, f.powerLoss(), name)
				}
				store := Store{FS: OS, Dir: root}
				switch {
				case failed == nil && len(f.calls) < n:
					calls = len(f.calls)
				case kind != "full": // a full disk does not refuse a rename or a removal
					require.ErrorIs(t, failed, errStopped, name)
					require.ErrorIs(t, failed, Err, name)
				case failed != nil:
					require.ErrorIs(t, failed, syscall.ENOSPC, name)
					require.Equal(t, []string{DirName(10), DirName(20)}, names(t, root), "nothing is left of the failed one")
				}
				for range 2 { // as it is, and cleaned
					found, err := store.Newest()
					require.NoError(t, err, name)
					require.Contains(t, []int64{20, step}, found.Step, name)
					if failed == nil {
						require.EqualValues(t, step, found.Step, "what was said to be saved is there: %s", name)
					}
					require.Empty(t, found.Rejected, name)
					requireContent(t, found)
					_, err = store.Clean()
					require.NoError(t, err, name)
				}
				for _, left := range names(t, root) {
					require.Regexp(t, `^step-\d{8}$`, left, name)
					if kind != "power" { // which may undo the rename before a removal
						require.NoError(t, Verify(OS, filepath.Join(root, left)), name)
					}
				}
				mustCommit(t, root, step)
				found, err := store.Newest()
				require.NoError(t, err, name)
				require.EqualValues(t, step, found.Step, name)
			}
			require.Greater(t, calls, 15, "the test must have broken many calls")
		}
	}
}

func TestSaverStoppedAtAnyCall(t *testing.T) { brokenAtAnyCall(t, []string{"stop", "power"}, 30) }

// In place of a checkpoint of its step.
func TestStopAtAnyCall(t *testing.T) { brokenAtAnyCall(t, []string{"stop", "power"}, 20) }

func TestFullDiskAtAnyCall(t *testing.T) { brokenAtAnyCall(t, []string{"full"}, 30, 20) }

// blockedFS keeps the first save waiting.
type blockedFS struct {
	FileSystem
	once  *sync.Once
	begun chan struct{}
	free  chan struct{}
}

func (b blockedFS) Create(path string) (File, error) {
	b.once.Do(func() {
		close(b.begun)
		<-b.free
	})
	return b.FileSystem.Create(path)
}

func TestSaverWritesOneAtATime(t *testing.T) {
	root := t.TempDir()
	fsys := blockedFS{OS, &sync.Once{}, make(chan struct{}), make(chan struct{})}
	saver := NewSaver(Store{FS: fsys, Dir: root})
	_, ok := saver.Done()
	assert.False(t, ok, "nothing begun")
	_, ok = saver.Wait()
	assert.False(t, ok)

	synced := false
	require.NoError(t, saver.Start(hostCopy(1), Keep{}, func() error { synced = true; return nil }))
	<-fsys.begun
	_, ok = saver.Done()
	assert.False(t, ok, "under way")
	require.ErrorContains(t, saver.Start(hostCopy(2), Keep{}, nil), "step 2: the save before is under way")
	close(fsys.free)
	out, ok := saver.Wait()
	require.True(t, ok)
	assert.Positive(t, out.Took)
	assert.Equal(t, saving{Path: filepath.Join(root, DirName(1)), Step: 1, Took: out.Took}, out)
	assert.True(t, synced)
	_, ok = saver.Wait()
	assert.False(t, ok, "given out once")

	require.NoError(t, saver.Start(hostCopy(2), Keep{Last: 1}, nil))
	out, _ = saver.Wait()
	assert.Equal(t, []string{DirName(1)}, out.Removed)

	require.NoError(t, saver.Start(hostCopy(3), Keep{}, func() error { return os.ErrPermission }))
	require.ErrorIs(t, outcome(saver), os.ErrPermission)
	names, err := OS.ReadDir(root)
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(2)}, names, "what comes before a save comes before all of it")
	require.NoError(t, outcome(saver))
}

func TestSaverReturnsAPanic(t *testing.T) {
	saver := NewSaver(Store{FS: OS, Dir: t.TempDir()})
	require.NoError(t, saver.Start(hostCopy(30), Keep{}, func() error { panic("full") }))
	var bug *caught.Panic
	require.ErrorAs(t, outcome(saver), &bug)
	assert.Equal(t, "full", bug.Value)
}
