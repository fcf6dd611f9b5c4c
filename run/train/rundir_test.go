package train

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/run/record"
	"gputrain/state/checkpoint"
)

// put writes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
}

// textsIn are the contents of all files below a directory.
func textsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

// take takes a directory, and gives it back.
func take(path string) error {
	d, err := takeDir(path)
	if err == nil {
		d.release()
	}
	return err
}

// Files of others under the names that a run writes are neither replaced nor cut nor removed: the run is refused, and says which they are.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	for name, text := range map[string]string{
		runFile:                            "# my own\ntrain: {steps: 3}\n",
		metricsFile:                        `{"step":1,"loss":2.5}` + "\n",
		"metrics.columns":                  "a,b\n",
		samplesFile:                        "a text",
		reportFile:                         "# My thesis\n",
		lossPicture:                        "<?xml version=\"1.0\"?>\n<svg/>\n",
		profileFile:                        "{}",
		"run.given-00000000.yaml":          "train: {}\n",
		TensorBoardDir + "/other.tfevents": "x",
		TensorBoardDir + "/events.out.tfevents.1700000000.host.1": strings.Repeat("x", 100),
		checkpointsDir + "/resnet/best.pt":                        "weights",
		checkpointsDir + "/step-00000010/best.pt":                 "weights",
	} {
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, map[string]string{name: text, "notes.txt": "mine"})
			before := textsIn(t, dir)
			c := tinyRun(t, dir)
			for _, c.Fresh = range []bool{false, true} {
				_, err := Run(t.Context(), nil, c)
				var refused *DirError
				require.ErrorAs(t, err, &refused)
				assert.ErrorContains(t, err, strings.TrimSuffix(name, "/best.pt"))
				assert.Equal(t, before, textsIn(t, dir))
			}
			// In a directory of a run all names are the run's, but for these.
			put(t, dir, map[string]string{markerFile: `{"format":1,"from":"/"}`})
			d := &runDir{path: dir}
			d.info, _ = os.Stat(dir)
			err := d.remove()
			switch filepath.Dir(name) {
			case TensorBoardDir:
				require.NoError(t, err)
			case ".":
				if name != runFile {
					require.NoError(t, err)
					assert.NotContains(t, textsIn(t, dir), name)
					return
				}
				fallthrough
			default:
				require.ErrorContains(t, err, strings.TrimSuffix(name, "/best.pt"))
			}
			assert.Equal(t, text, textsIn(t, dir)[filepath.ToSlash(name)])
		})
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"text.txt": "mine", "models/best.pt": "mine"})
	err := take(dir)
	require.NoError(t, err, "other names are nobody's business")
}

// A link that leads nowhere is the mistake of whoever named it, and no trouble of the disk.
func TestRunDirectoryBehindALink(t *testing.T) {
	root := t.TempDir()
	loop, dangling := filepath.Join(root, "loop"), filepath.Join(root, "dangling")
	require.NoError(t, os.Symlink(loop, loop))
	require.NoError(t, os.Symlink(filepath.Join(root, "absent"), dangling))
	for _, path := range []string{loop, filepath.Join(loop, "below"), dangling} {
		err := take(path)
		var refused *DirError
		require.ErrorAs(t, err, &refused, path)
		assert.ErrorContains(t, err, "is a link that leads nowhere, wanted a directory")
	}
}

// A profile is written into a directory that the run has taken, and into no other.
func TestProfileOfARun(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	c.Steps, c.Profile = 3, func(w io.Writer) error {
		_, err := io.WriteString(w, `{"traceEvents":[]}`)
		return err
	}
	path := filepath.Join(c.Dir, profileFile)
	put(t, c.Dir, map[string]string{profileFile: "mine"})
	_, err := Run(t.Context(), dev, c)
	require.ErrorContains(t, err, profileFile)
	require.Equal(t, "mine", textAt(t, path))

	require.NoError(t, os.Remove(path))
	ran(t, dev, c)
	require.Equal(t, `{"traceEvents":[]}`, textAt(t, path))

	again := c
	again.Steps, again.Fresh = 6, true
	again.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == Started {
			require.NoError(t, os.Rename(c.Dir, c.Dir+" moved"))
			put(t, c.Dir, map[string]string{profileFile: "mine"})
		}
		return nil
	})}
	_, err = Run(t.Context(), dev, again)
	var gone *GoneError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, "mine", textAt(t, path))
}

// A run that is refused writes none of its files and removes nothing, also when it was to start over.
func TestARefusedRunLeavesTheDirectory(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, filepath.Join(t.TempDir(), "run"))
	mine := filepath.Join(c.Dir, "mine.yaml")
	run := func(target Target, fresh bool, text string) error {
		c.Steps, c.SaveEvery, c.Fresh = 3, Every(3), fresh
		c.Files = []File{{Name: "mine.yaml", Text: []byte(text), Ours: func(text []byte) bool { return strings.HasPrefix(string(text), "# ours") }}}
		_, err := RunOn(t.Context(), target, c)
		return err
	}
	on := oneDevice{device: dev}
	refusing := refusingTarget{stagedTarget{on}}
	require.ErrorIs(t, run(refusing, false, "# ours 1"), gpu.ErrOutOfMemory)
	require.NoDirExists(t, c.Dir)
	put(t, c.Dir, map[string]string{"notes.txt": "theirs"})
	require.ErrorIs(t, run(refusing, false, "# ours 1"), gpu.ErrOutOfMemory)
	require.Equal(t, map[string]string{"notes.txt": "theirs"}, textsIn(t, c.Dir))

	other, err := takeDir(c.Dir)
	require.NoError(t, err)
	require.ErrorContains(t, run(on, false, "# ours 1"), "another process is training in it")
	require.NoFileExists(t, mine)
	other.release()

	put(t, c.Dir, map[string]string{"mine.yaml": "theirs"})
	for _, fresh := range []bool{false, true} {
		require.ErrorContains(t, run(on, fresh, "# ours 1"), "mine.yaml: found a file of others, wanted none")
	}
	require.Equal(t, "theirs", textAt(t, mine))

	require.NoError(t, os.Remove(mine))
	require.NoError(t, run(on, false, "# ours 1"))
	require.Equal(t, "# ours 1", textAt(t, mine))
	before := textsIn(t, c.Dir)
	require.ErrorContains(t, run(on, false, "# ours 2"), "mine.yaml: found one that another process has written meanwhile")
	require.ErrorIs(t, run(oneDevice{device: gputest.Device(t, gputest.WithMemoryLimit(300<<10))}, true, "# ours 2"), gpu.ErrOutOfMemory)
	require.ErrorIs(t, run(refusing, true, "# ours 2"), gpu.ErrOutOfMemory)
	c.State.FS = noRoom{checkpoint.OS}
	require.ErrorContains(t, run(on, true, "# ours 2"), "bytes free on the disk")
	assert.Equal(t, before, textsIn(t, c.Dir))
	c.State.FS = nil
	require.NoError(t, run(on, true, "# ours 2"))
	require.Equal(t, "# ours 2", textAt(t, mine))
}

func TestMarker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	err := take(dir)
	require.NoError(t, err)
	m, err := ReadMarker(dir)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, Marker{Format: 1, From: here}, m)

	d, err := takeDir(dir)
	require.NoError(t, err)
	require.NoError(t, d.mark("launch"))
	d.release()
	require.NoError(t, take(dir))
	m, err = ReadMarker(dir)
	require.NoError(t, err)
	assert.Equal(t, "launch", m.Launch, "a restart leaves it")

	put(t, dir, map[string]string{markerFile: `{"format":2}`})
	err = take(dir)
	assert.EqualError(t, err, fmt.Sprintf("train: run directory %q: .gputrain: found format 2, wanted 1: another version of gputrain has written it", dir))

	file := filepath.Join(t.TempDir(), "file")
	put(t, filepath.Dir(file), map[string]string{"file": ""})
	err = take(file)
	assert.ErrorContains(t, err, "not a directory")
}

// Two processes never train in one directory, also where somebody has removed the file of the lock.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := takeDir(dir)
	require.NoError(t, err)
	for range 2 {
		err = take(dir)
		require.ErrorIs(t, err, errLocked)
		_ = os.Remove(filepath.Join(dir, ".lock"))
	}
	first.release()
	err = take(dir)
	require.NoError(t, err)
}

// Of a run directory the marker is part, and so is the record; started over, it has none of a run's files left, and what is not a run's is still there.
// Copies of run files are kept as they were.
func TestRunDirectoryWithoutMarker(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	given := Given{Name: "mine.yaml", Text: []byte("# my own words\ntrain: {steps: 6}\n")}
	c.Steps, c.HistogramEvery, c.Given = 6, 3, []Given{given}
	ran(t, dev, c)
	kept := givenName(given.Text)
	assert.Equal(t, string(given.Text), textsIn(t, c.Dir)[kept])
	assert.Contains(t, textsIn(t, c.Dir)[runFile], "# mine.yaml as it was given: "+kept+"\n")

	put(t, c.Dir, map[string]string{"notes.txt": "mine"})
	marker := textsIn(t, c.Dir)[markerFile]
	require.NoError(t, os.Remove(filepath.Join(c.Dir, markerFile)))
	var refused *DirError
	_, err := Run(t.Context(), dev, c)
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "found the run.yaml of a run and no .gputrain, wanted both")
	put(t, c.Dir, map[string]string{markerFile: marker})

	// Without the record of its settings, checkpoints may be of any run.
	lost := textsIn(t, c.Dir)[runFile]
	require.NoError(t, os.Remove(filepath.Join(c.Dir, runFile)))
	_, err = Run(t.Context(), dev, c)
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "gputrain config record RUN.yaml > "+filepath.Join(c.Dir, runFile))
	var anew strings.Builder
	require.NoError(t, record.Write(&anew, c.withDefaults().Settings))
	assert.Contains(t, lost, anew.String())
	put(t, c.Dir, map[string]string{runFile: anew.String()})
	result := ran(t, dev, c)
	assert.EqualValues(t, 6, result.Resumed)

	d, err := takeDir(c.Dir)
	require.NoError(t, err)
	require.NoError(t, d.remove())
	d.release()
	left := textsIn(t, c.Dir)
	delete(left, markerFile)
	delete(left, ".lock")
	assert.Equal(t, map[string]string{"notes.txt": "mine"}, left)
}

// A run whose directory is moved, replaced or removed while it trains ends at once, writes nothing at the path where it was, and says where its
// newest state is.
func TestRunDirectoryThatIsMoved(t *testing.T) {
	dev := gputest.Device(t)
	for name, after := range map[string]func(t *testing.T, dir string){
		"moved":    func(*testing.T, string) {},
		"replaced": func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(dir, 0o777)) },
		"removed":  func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir+"-moved")) },
	} {
		t.Run(name, func(t *testing.T) {
			home, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			dir := filepath.Join(home, "run")
			c := tinyRun(t, dir)
			c.SaveAsync = false
			c.Hooks = []Hook{on(StepEnd, 5, func(context.Context, Event) error {
				require.NoError(t, os.Rename(dir, dir+"-moved"))
				after(t, dir)
				return nil
			})}
			result, err := Run(t.Context(), dev, c)
			var gone *GoneError
			require.ErrorAs(t, err, &gone)
			assert.Equal(t, 6, result.Reason.ExitCode())
			assert.LessOrEqual(t, result.Step, int64(8), "it ends at once")
			if name == "replaced" {
				assert.Empty(t, textsIn(t, dir))
			} else {
				assert.NoDirExists(t, dir)
			}
			newest := filepath.Join(dir+"-moved", checkpointsDir, checkpoint.DirName(3))
			if name != "removed" && gone.Now != "" { // where the system tells
				assert.Equal(t, newest, gone.Newest)
				assert.ErrorContains(t, err, fmt.Sprintf("the newest state is %q: go on with --run-dir %s-moved", newest, dir))
			}
			if name == "moved" {
				c.Hooks, c.Dir = nil, dir+"-moved"
				result = ran(t, dev, c)
				assert.EqualValues(t, 3, result.Resumed)
			}
		})
	}
}
