package checkpoint

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commitRun commits a checkpoint whose record has that run.
func commitRun(t *testing.T, root string, step int64, run Run) {
	t.Helper()
	record, err := Record{Step: step, Run: run}.Source()
	require.NoError(t, err)
	require.NoError(t, Commit(OS, filepath.Join(root, DirName(step)), step, []Source{record}))
}

func names(t *testing.T, root string) []string {
	t.Helper()
	out, err := OS.ReadDir(root)
	require.NoError(t, err)
	return out
}

func TestRotateTemporary(t *testing.T) {
	root := t.TempDir()
	store := Store{FS: OS, Dir: root}
	for step, temporary := range map[int64]bool{10: false, 12: true, 20: false, 25: true, 27: true} {
		commitRun(t, root, step, Run{Temporary: temporary})
	}
	removed, err := store.Rotate(Keep{Last: 0})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(25), DirName(12)}, removed, "the newest stays until there is a newer one")
	_, err = store.Rotate(Keep{Last: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(10), DirName(20), DirName(27)}, names(t, root), "it does not count among the permanent ones")
	commitRun(t, root, 30, Run{})
	removed, err = store.Rotate(Keep{Last: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(27), DirName(10)}, removed)
}

func TestRotateKeepsTheBest(t *testing.T) {
	root := t.TempDir()
	store := Store{FS: OS, Dir: root}
	for step, loss := range map[int64]float64{1: 3, 2: 1, 3: 2, 4: 1.5, 6: 5} {
		commitRun(t, root, step, Run{EvalStep: step, EvalLoss: loss})
	}
	commitRun(t, root, 5, Run{EvalStep: 4, EvalLoss: 0.5}) // a loss of another step than its own
	removed, err := store.Rotate(Keep{Last: 1, Best: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(5), DirName(3), DirName(1)}, removed)
	removed, err = store.Rotate(Keep{Last: 1, Best: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(4)}, removed)
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(2)}, removed)
}

// What is being read, in this process or another, is left, and removed by the next rotation.
func TestRotateLeavesWhatIsRead(t *testing.T) {
	root := t.TempDir()
	store := mustCommit(t, root, 1, 2, 3)
	release, err := Hold(OS, filepath.Join(root, DirName(1)))
	require.NoError(t, err)
	second, err := Hold(OS, filepath.Join(root, DirName(1)))
	require.NoError(t, err, "readers share")
	removed, err := store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(2)}, removed)
	require.NoError(t, release())
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Empty(t, removed, "one of two readers is left")
	require.NoError(t, Verify(OS, filepath.Join(root, DirName(1))))
	require.NoError(t, second())
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(1)}, removed)

	// In another process.
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("no flock command")
	}
	mustCommit(t, root, 4)
	ready := filepath.Join(t.TempDir(), "ready")
	reader := exec.Command(flock, "--shared", manifestPath(filepath.Join(root, DirName(3))), "sh", "-c", "touch "+ready+"; read line")
	in, err := reader.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, reader.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, time.Minute, time.Millisecond)
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Empty(t, removed)
	require.NoError(t, in.Close())
	_ = reader.Wait()
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(3)}, removed)
}

func TestHold(t *testing.T) {
	root := t.TempDir()
	store := mustCommit(t, root, 1, 2)
	change(t, filepath.Join(root, DirName(2), "config.json"), func(d []byte) []byte { d[7] ^= 1; return d })
	found, release, err := store.Hold()
	require.NoError(t, err)
	assert.EqualValues(t, 1, found.Step)
	require.Len(t, found.Rejected, 1)
	_, err = OS.Lock(manifestPath(found.Path), true)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, release())
	for _, step := range []int64{1, 2} { // neither the found nor the rejected one is held any more
		lock, err := OS.Lock(manifestPath(filepath.Join(root, DirName(step))), true)
		require.NoError(t, err)
		if step == 1 { // as while it is being removed
			_, err = Hold(OS, found.Path)
			require.ErrorIs(t, err, ErrInUse)
			require.ErrorIs(t, err, Err)
		}
		require.NoError(t, lock.Close())
	}

	release, err = Hold(OS, t.TempDir())
	require.NoError(t, err, "a directory without a manifest")
	require.NoError(t, release())
	found, release, err = Store{FS: OS, Dir: filepath.Join(root, "none")}.Hold()
	require.NoError(t, err)
	assert.Empty(t, found.Path)
	require.NoError(t, release())
}

// What somebody has put among checkpoints is never removed with them.
func TestOnlyCheckpointsAreRemoved(t *testing.T) {
	root := t.TempDir()
	store := mustCommit(t, root, 1, 2, 3)
	theirs := filepath.Join(root, DirName(1), "notes.txt")
	require.NoError(t, os.WriteFile(theirs, []byte("mine"), 0o666))
	folder := filepath.Join(root, DirName(2), OtherFile) // no checkpoint has one, whatever it is called
	require.NoError(t, os.Mkdir(folder, 0o777))
	removed, err := store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Empty(t, removed)
	require.NoError(t, os.Remove(folder))
	removed, err = store.Rotate(Keep{Last: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(2)}, removed)
	assert.FileExists(t, theirs)

	err = Commit(OS, filepath.Join(root, DirName(1)), 1, nil)
	require.ErrorIs(t, err, fs.ErrExist, "replaced by a checkpoint of its step")
	assert.ErrorContains(t, err, theirs)

	left := []string{"step-mine.tmp", "step-00000009.tmp"}
	for _, name := range left {
		require.NoError(t, os.MkdirAll(filepath.Join(root, name), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, name, "best.pt"), nil, 0o666))
	}
	removed, err = store.Clean()
	require.NoError(t, err)
	assert.Empty(t, removed)

	others, err := store.Others()
	require.NoError(t, err)
	want := []string{theirs, filepath.Join(root, left[1], "best.pt"), filepath.Join(root, left[0])}
	assert.Equal(t, want, others)
	require.ErrorIs(t, store.Remove(), fs.ErrExist)
	assert.FileExists(t, theirs)
	for _, path := range want {
		require.NoError(t, os.RemoveAll(path))
	}
	require.NoError(t, store.Remove())
	assert.Empty(t, names(t, root))
}

// halved is a file system that stops in the midst of its n-th removal.
type halved struct {
	FileSystem
	n int
}

func (h *halved) RemoveAll(path string) error {
	if h.n--; h.n == 0 {
		_ = os.Remove(filepath.Join(path, "config.json"))
		return errStopped
	}
	return h.FileSystem.RemoveAll(path)
}

// Whenever a removal of all checkpoints is cut short, those that are left are whole.
func TestRemovalCutShort(t *testing.T) {
	for n := 1; ; n++ {
		store := mustCommit(t, t.TempDir(), 1, 2)
		cut := store
		cut.FS = &halved{OS, n}
		err := cut.Remove()
		found, failed := store.Newest()
		require.NoError(t, failed)
		assert.Empty(t, found.Rejected)
		assert.Equal(t, []int64{2, 2, 2, 0, 0}[n-1], found.Step, "the newest goes last")
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errStopped)
	}
}

// What is cleaned away has the name of a step, also where a folder is empty.
func TestCleanKnowsItsNames(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"notes.tmp", "step-mine.tmp", "best.replaced", "step-00000009.tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o777))
	}
	removed, err := Store{Dir: root, FS: OS}.Clean()
	require.NoError(t, err)
	assert.Equal(t, []string{"step-00000009.tmp"}, removed)
	assert.Equal(t, []string{"best.replaced", "notes.tmp", "step-mine.tmp"}, names(t, root))
}

// Of two checkpoints of a step the one that arrived comes first; the one that stepped aside for it serves where that is not whole.
func TestTheOneAsideComesLast(t *testing.T) {
	root, before := t.TempDir(), t.TempDir()
	arrived, aside := filepath.Join(root, DirName(4)), filepath.Join(root, DirName(4)+replacedSuffix)
	commitRun(t, root, 4, Run{Tokens: 2})
	commitRun(t, before, 4, Run{Tokens: 1})
	require.NoError(t, os.Rename(filepath.Join(before, DirName(4)), aside))
	store := Store{Dir: root, FS: OS}
	found, err := store.Newest()
	require.NoError(t, err)
	assert.Equal(t, arrived, found.Path)
	require.NoError(t, os.WriteFile(filepath.Join(arrived, "state.json"), []byte("{}"), 0o666))
	found, err = store.Newest()
	require.NoError(t, err)
	assert.Equal(t, aside, found.Path)
}
