//go:build unix

package stranger

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place is a directory of a model, beside a file that is not the model's.
func place(t testing.TB) (dir string) {
	root := t.TempDir()
	dir = filepath.Join(root, "model")
	require.NoError(t, os.Mkdir(dir, 0o777))
	write(t, filepath.Join(root, "secret"), "secret")
	return dir
}

func write(t testing.TB, path, text string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

func TestRead(t *testing.T) {
	dir := place(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "text")
	write(t, at("below/other"), "below")
	write(t, at("base.json"), string(make([]byte, 1<<16+1)))
	write(t, at("generation_config.json"), string(make([]byte, 1<<20)))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o666))
	socket, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	defer socket.Close()
	for name, to := range map[string]string{
		"inside": "file", "deeper": "below/other", "around": "below/../file", "twice": "inside",
		"outside": "../secret", "absolute": filepath.Join(filepath.Dir(dir), "secret"), "hidden": "below/../../secret", "through": "outside",
		"endless": "/dev/zero", "nothing": "absent", "itself": "itself", "to pipe": "pipe",
	} {
		require.NoError(t, os.Symlink(to, at(name)))
	}
	for name, want := range map[string]string{"file": "text", "inside": "text", "deeper": "below", "around": "text", "twice": "text", "generation_config.json": string(make([]byte, 1<<20))} {
		raw, err := Read(at(name))
		require.NoError(t, err)
		assert.Equal(t, want, string(raw))
	}
	for name, says := range map[string]string{
		"pipe": "found a pipe, wanted a regular file", "socket": "found a socket", "below": "found a directory", "/dev/null": "found a device", "to pipe": "found a pipe",
		"outside": `is a link to "../secret", which is absolute or leads out of its directory: wanted the file itself there`, "absolute": "leads out of its directory",
		"hidden": "leads out of its directory", "through": "leads out of its directory", "endless": `is a link to "/dev/zero": found a device`,
		"nothing": `is a link to "absent", where nothing is`, "itself": "too many levels",
		"base.json": "found 65537 bytes, wanted at most 65536",
	} {
		path := name
		if !filepath.IsAbs(path) {
			path = at(name)
		}
		_, err := Read(path)
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, `"`+path+`"`)
		assert.NotErrorIs(t, err, fs.ErrNotExist, name)
	}
	_, err = Read(at("absent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Regexp(t, `^"[^"]*/absent": no such file or directory$`, err.Error())

	raw, err := ReadNamed(at("outside"))
	require.NoError(t, err, "the user has named it")
	assert.Equal(t, "secret", string(raw))
	_, err = ReadNamed(at("endless"))
	require.ErrorContains(t, err, "found a device")
}

// Files of the kernel's say that they are empty.
func TestReadFromIsBounded(t *testing.T) {
	zero, err := os.Open("/dev/zero")
	require.NoError(t, err)
	defer zero.Close()
	_, err = ReadFrom(zero, "base.json")
	require.ErrorContains(t, err, "found more than 65536 bytes")
}

// In Hugging Face's cache a model's files are links to blobs of its repository, and of no other.
func TestReadFromHubCache(t *testing.T) {
	hub := t.TempDir()
	repository := filepath.Join(hub, "models--owner--name")
	snapshot := filepath.Join(repository, "snapshots", "0a1b")
	write(t, filepath.Join(repository, "blobs", "c0ffee"), "weights")
	write(t, filepath.Join(hub, "models--other--name", "blobs", "c0ffee"), "others")
	require.NoError(t, os.MkdirAll(filepath.Join(snapshot, "part"), 0o777))
	for name, to := range map[string]string{"a": "../../blobs/c0ffee", "part/b": "../../../blobs/c0ffee", "c": "../../../models--other--name/blobs/c0ffee"} {
		require.NoError(t, os.Symlink(to, filepath.Join(snapshot, name)))
	}
	linked := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.Symlink(snapshot, linked))
	for _, path := range []string{filepath.Join(snapshot, "a"), filepath.Join(snapshot, "part", "b"), filepath.Join(linked, "a")} {
		raw, err := Read(path)
		require.NoError(t, err)
		assert.Equal(t, "weights", string(raw))
	}
	_, err := Read(filepath.Join(snapshot, "c"))
	require.ErrorContains(t, err, "leads out of its directory")
	require.NoError(t, os.Rename(repository, filepath.Join(hub, "name")))
	_, err = Read(filepath.Join(hub, "name", "snapshots", "0a1b", "a"))
	require.ErrorContains(t, err, "leads out of its directory", "blobs of what is no cache")
}

// FuzzRead: whatever lies under the name of a file, nothing outside of the directory is read, and nothing is waited for.
func FuzzRead(f *testing.F) {
	for kind := range byte(6) {
		for _, to := range []string{"../secret", "inside", "../model/inside", "link", "/dev/zero", "inside/../../secret", "a\x00b", "below/../inside", ".", ""} {
			f.Add(kind, to)
		}
	}
	dir := place(f)
	write(f, filepath.Join(dir, "inside"), "inside")
	require.NoError(f, os.Mkdir(filepath.Join(dir, "below"), 0o777))
	path := filepath.Join(dir, "link")
	f.Fuzz(func(t *testing.T, kind byte, to string) {
		require.NoError(t, os.RemoveAll(path))
		var err error
		switch kind % 6 {
		case 0:
			err = os.Symlink(to, path)
		case 1:
			err = os.Symlink(filepath.Join("below", to), path)
		case 2:
			err = os.Symlink(filepath.Join(dir, "..", to), path)
		case 3:
			err = syscall.Mkfifo(path, 0o666)
		case 4:
			err = os.Mkdir(path, 0o777)
		case 5:
			err = os.WriteFile(path, []byte(to), 0o666)
		}
		if err != nil {
			return // the system has no such link
		}
		raw, err := Read(path)
		switch {
		case kind%6 == 5:
			require.NoError(t, err)
			require.Equal(t, to, string(raw))
		case err == nil:
			require.Equal(t, "inside", string(raw))
		default:
			require.ErrorContains(t, err, "link")
		}
	})
}
