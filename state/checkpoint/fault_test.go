package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

var errStopped = errors.New("the machine has stopped")

// faultFS is a file system on a real directory that fails at its n-th changing call.
//
// When it stops (crash), that call takes effect by half if it is a write, and no later call has any effect. powerLoss then takes
// away what was not synced. When it does not stop (full), that call and every later write fail with ENOSPC until something is removed.
type faultFS struct {
	FileSystem
	failAt int // 1-based number of the changing call that fails; 0 never
	full   bool
	calls  []string
	failed bool
	free   uint64 // what Free reports; 0 asks the machine

	entries map[string]bool             // files whose directory entry is not durable
	synced  map[string]int64            // file -> bytes that are durable
	renames []struct{ from, to string } // not yet durable
}

func newFaultFS(failAt int, full bool) *faultFS {
	return &faultFS{FileSystem: OS, failAt: failAt, full: full, synced: map[string]int64{}, entries: map[string]bool{}}
}

// step counts a changing call and says whether it may go on.
func (f *faultFS) step(call string, writes bool) error {
	if f.failed && !f.full {
		return errStopped
	}
	f.calls = append(f.calls, call)
	if f.failAt != 0 && len(f.calls) == f.failAt {
		f.failed = true
		if !f.full {
			return errStopped
		}
	}
	if f.failed && writes {
		return &fs.PathError{Op: "write", Path: call, Err: syscall.ENOSPC}
	}
	return nil
}

func (f *faultFS) MkdirAll(dir string) error {
	if err := f.step("mkdir "+filepath.Base(dir), true); err != nil {
		return err
	}
	return f.FileSystem.MkdirAll(dir)
}

func (f *faultFS) Create(path string) (File, error) {
	if err := f.step("create "+filepath.Base(path), true); err != nil {
		return nil, err
	}
	file, err := f.FileSystem.Create(path)
	f.synced[path] = 0
	f.entries[path] = true
	return &faultFile{File: file, fs: f, path: path}, err
}

func (f *faultFS) Rename(from, to string) error {
	if err := f.step("rename "+filepath.Base(from), false); err != nil {
		return err
	}
	err := f.FileSystem.Rename(from, to)
	if err == nil {
		f.renames = append(f.renames, struct{ from, to string }{from, to})
		for path, n := range maps.Clone(f.synced) {
			if rest, ok := strings.CutPrefix(path, from+string(filepath.Separator)); ok {
				delete(f.synced, path)
				f.synced[filepath.Join(to, rest)] = n
				if f.entries[path] {
					delete(f.entries, path)
					f.entries[filepath.Join(to, rest)] = true
				}
			}
		}
	}
	return err
}

func (f *faultFS) RemoveAll(path string) error {
	before := f.failed
	if err := f.step("remove "+filepath.Base(path), false); err != nil {
		if !before { // in the midst of it
			_ = os.Remove(filepath.Join(path, "config.json"))
		}
		return err
	}
	f.failed = f.failed && !f.full // room again
	return f.FileSystem.RemoveAll(path)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.step("syncdir "+filepath.Base(dir), false); err != nil {
		return err
	}
	kept := f.renames[:0]
	for _, r := range f.renames {
		if filepath.Dir(r.to) != dir {
			kept = append(kept, r)
		}
	}
	f.renames = kept
	for path := range f.entries {
		if filepath.Dir(path) == dir {
			delete(f.entries, path)
		}
	}
	return nil
}

func (f *faultFS) Free(dir string) (uint64, error) {
	if f.free != 0 {
		return f.free, nil
	}
	return f.FileSystem.Free(dir)
}

// powerLoss undoes what no sync had made durable: renames, last first, and the contents of files.
func (f *faultFS) powerLoss() error {
	for i := len(f.renames) - 1; i >= 0; i-- {
		if err := os.Rename(f.renames[i].to, f.renames[i].from); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	back := map[string]string{}
	for _, r := range f.renames {
		back[r.to] = r.from
	}
	for path, n := range f.synced {
		lost := f.entries[path]
		for to, from := range back {
			if rest, ok := strings.CutPrefix(path, to+string(filepath.Separator)); ok {
				path = filepath.Join(from, rest)
			}
		}
		if lost {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		} else if err := os.Truncate(path, n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

type faultFile struct {
	File
	fs      *faultFS
	path    string
	written int64
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.step("write "+filepath.Base(f.path), true); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	n, err := f.File.Write(p)
	f.written += int64(n)
	return n, err
}

func (f *faultFile) Sync() error {
	if err := f.fs.step("sync "+filepath.Base(f.path), true); err != nil {
		return err
	}
	f.fs.synced[f.path] = f.written
	return nil // this machine does not stop: nothing needs to reach its disk
}

var _ io.Writer = (*faultFile)(nil)
