package checkpoint

import (
	"io"
	"os"

	"gputrain/internal/stranger"
	"gputrain/internal/system"
)

// FileSystem is every call that writing, finding and removing checkpoints makes, so that a test can stop or fail it between
// any two calls. Paths are the operating system's.
type FileSystem interface {
	MkdirAll(dir string) error
	// Create makes or truncates a file for writing.
	Create(path string) (File, error)
	Open(path string) (io.ReadCloser, error)
	// ReadDir lists the names in a directory, sorted.
	ReadDir(dir string) ([]string, error)
	// Size is the length of a regular file in bytes, or an error matching fs.ErrNotExist.
	Size(path string) (int64, error)
	Rename(from, to string) error
	RemoveAll(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
	// Free is the number of bytes that this process may still write below dir.
	Free(dir string) (uint64, error)
	// Lock takes a lock of a file that is there, shared with other readers or exclusive, until it is closed or the process ends. It does
	// not wait: where another has the file, ErrInUse. A file system without locks gives locks that exclude nobody.
	Lock(path string, exclusive bool) (io.Closer, error)
}

// File is a file open for writing.
type File interface {
	io.WriteCloser
	// Sync makes what was written durable.
	Sync() error
}

// OS is the file system of the machine.
var OS FileSystem = osFileSystem{}

type osFileSystem struct{}

func (osFileSystem) Free(dir string) (uint64, error) { return system.Free(dir) }

func (osFileSystem) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o777) }

func (osFileSystem) Create(path string) (File, error) { return os.Create(path) }

func (osFileSystem) Open(path string) (io.ReadCloser, error) { return stranger.Open(path) }

func (osFileSystem) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFileSystem) Size(path string) (int64, error) {
	f, err := stranger.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (osFileSystem) Rename(from, to string) error { return system.Rename(from, to) }

func (osFileSystem) RemoveAll(path string) error { return system.RemoveAll(path) }

func (osFileSystem) SyncDir(dir string) error { return system.SyncDir(dir) }
