package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// textsIn are the files below a directory, by their paths in it.
func textsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return all
}

// says writes a text.
func says(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// inDir is the directory in which this program, started again, is to be killed.
const inDir = "GPUTRAIN_TEST_KILLED_IN"

// TestMain is a writer that waits to be killed, where it is told to be one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(inDir); dir != "" {
		f, err := Create(filepath.Join(dir, "file"), 0o666)
		if err == nil {
			_, err = f.WriteString("half")
		}
		var d *Dir
		if err == nil {
			d, err = MakeDir(filepath.Join(dir, "made", "dir"), nil)
		}
		if err == nil {
			err = os.WriteFile(d.Join("a"), []byte("half"), 0o666)
		}
		fmt.Println(err)
		select {}
	}
	os.Exit(m.Run())
}

// A writer that is killed leaves what was there before. What it has begun stays while it lives, and goes with the next write.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Replace(filepath.Join(dir, "file"), []byte("before")))
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), inDir+"="+dir)
	out, err := killed.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, killed.Start())
	defer func() { _ = killed.Process.Kill() }()
	said := make([]byte, 5)
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	require.Equal(t, "<nil>", string(said))

	write := func(text string) {
		require.NoError(t, Replace(filepath.Join(dir, "other"), []byte(text)))
		d, err := MakeDir(filepath.Join(dir, "made", text), nil)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(d.Join("a"), []byte(text), 0o666))
		require.NoError(t, d.Place())
	}
	write("living")
	left := textsIn(t, dir)
	require.Len(t, left, 5, "%v", left)
	assert.Equal(t, "before", left["file"])
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	write("killed")
	assert.Equal(t, map[string]string{"file": "before", "other": "killed", "made/living/a": "living", "made/killed/a": "killed"}, textsIn(t, dir))
}

// What may be another machine's, or is an older program's, goes a day after its last change, unless somebody holds it; names of others stay.
func TestWhatIsLeft(t *testing.T) {
	token := strings.Repeat("0a", 16) + ".tokens"
	for name, goes := range map[string]bool{
		".gputrain-00000000-1.tmp": true, token + ".00000000.1.tmp": true, "texels-0123456789ab.json-12.tmp": true, ".gputrain.tmp": true,
		".tokenizer.json.tmp": true, ".gputrain-export-" + strings.Repeat("A2", 13) + "/model/a": true,
		"gputrain-00000000-1.tmp": false, ".gputrain-00000000-x.tmp": false, "x" + token + ".00000000.1.tmp": false, token: false, ".file.tmp": false,
		".gputrain-export-AAAA": false, ".gputrain": false,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		top := filepath.Join(dir, strings.Split(name, "/")[0])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, nil, 0o666))
		for _, hours := range []int{23, 25} {
			at := time.Now().Add(-time.Duration(hours) * time.Hour)
			require.NoError(t, os.Chtimes(top, at, at))
			var told []string
			clean(dir, func(path string, err error) { told = append(told, fmt.Sprint(path, err)) })
			if goes && hours > 24 {
				assert.Equal(t, []string{top + "<nil>"}, told)
				assert.NoFileExists(t, path)
			} else {
				assert.Empty(t, told, "%s: %d", name, hours)
				assert.FileExists(t, path)
			}
		}
	}
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "file"), 0o666)
	require.NoError(t, err)
	long := time.Now().Add(-2 * stale)
	require.NoError(t, os.Chtimes(f.Name(), long, long))
	require.NoError(t, os.Symlink(filepath.Base(f.Name()), filepath.Join(dir, ".gputrain-00000000-1.tmp")))
	clean(dir, nil)
	assert.Len(t, textsIn(t, dir), 2, "it is held, and the other is a link")
	f.Discard()
}

// A file that cannot be written leaves what was there, and nothing of its own.
func TestReplaceThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.Mkdir(path, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), nil, 0o666))
	require.Error(t, Replace(path, []byte("x")))
	require.Error(t, Replace(filepath.Join(path, "a", "b"), []byte("x")))
	assert.Equal(t, map[string]string{"file/a": ""}, textsIn(t, dir))
}

// Files are made together or not at all, and what somebody else has there, or has put there meanwhile, stays as it is.
func TestMakeIsAllOrNothing(t *testing.T) {
	failed := errors.New("full")
	for name, c := range map[string]struct {
		before string                             // that is there
		second func(to string, w io.Writer) error // writes the second file
		err    error
		left   map[string]string
	}{
		"both":         {"", func(_ string, w io.Writer) error { return says("b")(w) }, nil, map[string]string{"a": "a", "b": "b"}},
		"first there":  {"a", func(_ string, w io.Writer) error { return says("b")(w) }, fs.ErrExist, map[string]string{"a": "mine"}},
		"second there": {"b", func(_ string, w io.Writer) error { return says("b")(w) }, fs.ErrExist, map[string]string{"b": "mine"}},
		"second fails": {"", func(string, io.Writer) error { return failed }, failed, map[string]string{}},
		"second is made": {"", func(to string, _ io.Writer) error {
			return os.WriteFile(to, []byte("theirs"), 0o666)
		}, fs.ErrExist, map[string]string{"b": "theirs"}},
	} {
		dir := t.TempDir()
		if c.before != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.before), []byte("mine"), 0o666))
		}
		to := filepath.Join(dir, "b")
		first, second := &New{Path: filepath.Join(dir, "a"), Write: says("a")}, &New{Path: to, Write: func(w io.Writer) error { return c.second(to, w) }}
		err := Make(first, second)
		require.ErrorIs(t, err, c.err, name)
		assert.Equal(t, c.left, textsIn(t, dir), name)
		if err == nil {
			assert.Equal(t, int64(1), second.Bytes)
		}
	}
}

// A file gets a name that is free, also on a file system without hard links, and no other.
func TestPlaceNew(t *testing.T) {
	for name, link := range map[string]func(from, to string) error{
		"links": os.Link,
		"none": func(from, to string) error {
			return &os.LinkError{Op: "link", Old: from, New: to, Err: errors.ErrUnsupported}
		},
	} {
		dir := t.TempDir()
		temporary, path := filepath.Join(dir, "temporary"), filepath.Join(dir, "path")
		require.NoError(t, os.WriteFile(temporary, []byte("first"), 0o666))
		require.NoError(t, placeNew(temporary, path, link), name)
		_ = os.Remove(temporary)
		require.NoError(t, os.WriteFile(temporary, []byte("second"), 0o666))
		require.ErrorIs(t, placeNew(temporary, path, link), fs.ErrExist, name)
		assert.Equal(t, "first", textsIn(t, dir)["path"], name)
	}
}
