package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gputrain/internal/system"
)

// Dir is a directory that is being written.
type Dir struct {
	target string
	mode   fs.FileMode // of an empty directory that is there; 0: there is none
	made   []string    // parents of the target that were not there, the innermost first
	lock   *os.File    // beside the target
}

// MakeDir begins a directory, which has to be new or empty; a link is followed. What dead writers have left beside its place is removed, and told.
func MakeDir(target string, tell func(path string, err error)) (*Dir, error) {
	d := &Dir{target: filepath.Clean(target)}
	if err := d.free(); err != nil {
		return nil, err
	}
	parent := filepath.Dir(d.target)
	for dir := parent; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		d.made = append(d.made, dir)
	}
	err := os.MkdirAll(parent, 0o777)
	if err == nil && d.mode != 0 {
		err = d.replaceable(parent)
	}
	if err == nil {
		clean(parent, tell)
		d.lock, err = hold(d.target, func(name string) (*os.File, error) {
			if err := os.Mkdir(name, 0o777); err != nil {
				return nil, err
			}
			f, err := os.Open(name)
			if errors.Is(err, fs.ErrNotExist) { // another writer has taken it for one that is left
				return nil, nil
			}
			return f, err
		})
	}
	if err != nil {
		d.Discard()
		return nil, err
	}
	return d, nil
}

// Join is the path of a file in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.lock.Name(), name) }

// free resolves a link, and wants the target new or empty.
func (d *Dir) free() error {
	to, err := filepath.EvalSymlinks(d.target)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(d.target); err == nil {
			return fmt.Errorf("found a link that leads nowhere, wanted a new or empty directory: make the directory that it leads to, or remove the link: %w", fs.ErrExist)
		}
		return nil
	}
	if err != nil {
		return err
	}
	d.target = to
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("found a file there, wanted a new or empty directory: %w", fs.ErrExist)
	}
	d.mode = info.Mode()
	found, err := os.ReadDir(to)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("found %d files there, wanted a new or empty directory: %w", len(found), fs.ErrExist)
	}
	return err
}

// replaceable refuses the root of a file system, before all is written: no rename leads there.
func (d *Dir) replaceable(parent string) error {
	together, err := system.Together(d.target, parent)
	if err == nil && !together {
		err = fmt.Errorf("found the root of a file system there, wanted a directory that can be replaced: name a new one in it, such as %s", filepath.Join(d.target, "model"))
	}
	return err
}

// Place puts the directory, whose files are synced, in its place. After an error it is removed.
func (d *Dir) Place() error {
	if err := d.place(); err != nil {
		d.Discard()
		return err
	}
	_ = d.lock.Close()
	return system.SyncDir(filepath.Dir(d.target))
}

func (d *Dir) place() error {
	if d.mode != 0 {
		if err := os.Chmod(d.lock.Name(), d.mode); err != nil {
			return err
		}
	}
	if err := system.SyncDir(d.lock.Name()); err != nil {
		return err
	}
	if !system.RenamesOpen {
		_ = d.lock.Close()
	}
	_ = os.Remove(d.target) // where it is there and empty
	err := system.Rename(d.lock.Name(), d.target)
	if err != nil {
		if d.mode != 0 {
			_ = os.Mkdir(d.target, d.mode.Perm()) // as it was, unless another writer has it now
		}
		if taken := (&Dir{target: d.target}).free(); taken != nil { // by another one, meanwhile
			return taken
		}
	}
	return err
}

// Discard removes what was written, and the parents that were made. One stays if somebody else has put something there.
func (d *Dir) Discard() {
	if d.lock != nil {
		_ = errors.Join(d.lock.Close(), system.RemoveAll(d.lock.Name())) // why it is discarded says more
	}
	for _, dir := range d.made {
		_ = os.Remove(dir)
	}
}
