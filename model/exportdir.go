package model

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/internal/stranger"
	"gputrain/internal/system"
)

// An export is written into a directory of its own, which nobody has had before:
//
//	.gputrain-export-RANDOM/owner.json   who writes it, and which files; locked while that process lives
//	.gputrain-export-RANDOM/model/       what becomes the target
const (
	exportPrefix = ".gputrain-export-"
	exportOwner  = "owner.json"
	exportModel  = "model"
)

// lockTries is how often a lock is tried, a hundredth of a second apart.
const lockTries = 100

// owner is owner.json.
type owner struct {
	Host    string   `json:"host"`
	Process int      `json:"process"`
	Files   []string `json:"files"` // of the model
}

// exportDir is a directory that is being exported.
type exportDir struct {
	target string
	there  bool        // the target, and is empty
	mode   fs.FileMode // of it
	made   []string    // parents of the target that were not there, the outermost first
	dir    string      // beside the target; "": not yet
	lock   *os.File
	owner  owner
}

// newExportDir makes a directory beside the target, which has to be new or empty, for files of these names. It removes what dead exports have left
// there, and tells what became of it.
func newExportDir(target string, files []string, tell func(string)) (*exportDir, error) {
	d := &exportDir{target: filepath.Clean(target)}
	if err := d.free(); err != nil {
		return nil, err
	}
	parent := filepath.Dir(d.target)
	if err := d.makeParents(parent); err != nil {
		return nil, d.abandon(err)
	}
	if d.there {
		switch together, err := system.Together(d.target, parent); {
		case err != nil:
			return nil, err
		case !together:
			return nil, fmt.Errorf("found the root of a file system there, wanted a directory that can be replaced: name a new one in it, such as %s", filepath.Join(d.target, exportModel))
		}
	}
	if tell == nil {
		tell = func(string) {}
	}
	removeDead(parent, tell)
	d.owner = owner{Process: os.Getpid(), Files: files}
	var err error
	if d.owner.Host, err = os.Hostname(); err != nil {
		return nil, d.abandon(err)
	}
	dir := filepath.Join(parent, exportPrefix+rand.Text())
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, d.abandon(err)
	}
	d.dir = dir
	if err = d.claim(); err == nil {
		err = os.Mkdir(d.path(), 0o777)
	}
	if err != nil {
		return nil, d.abandon(err)
	}
	return d, nil
}

// free resolves a link, and makes sure that the target is new or empty.
func (d *exportDir) free() error {
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
	found, err := os.ReadDir(to)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("found %d files there, wanted a new or empty directory: %w", len(found), fs.ErrExist)
	}
	d.there, d.mode = true, info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)
	return err
}

// makeParents makes the directories that the target lies in, and takes note of those that were not there.
func (d *exportDir) makeParents(parent string) error {
	for dir := parent; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		d.made = append([]string{dir}, d.made...)
	}
	return os.MkdirAll(parent, 0o777)
}

// path is where files go, by their names.
func (d *exportDir) path(name ...string) string {
	return filepath.Join(append([]string{d.dir, exportModel}, name...)...)
}

// claim says who writes here, under a lock that ends with the process.
func (d *exportDir) claim() (err error) {
	if d.lock, err = os.OpenFile(filepath.Join(d.dir, exportOwner), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return err
	}
	for range lockTries { // another export may be looking at it
		if err = system.Lock(d.lock, true); !errors.Is(err, system.ErrLocked) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, system.ErrNoLocks) {
		return err
	}
	return json.NewEncoder(d.lock).Encode(d.owner)
}

// finish puts the directory in its place.
func (d *exportDir) finish() error {
	if d.there {
		if err := os.Chmod(d.path(), d.mode); err != nil {
			return err
		}
	}
	if err := system.SyncDir(d.path()); err != nil {
		return err
	}
	_ = os.Remove(d.target) // where it is there and empty
	if err := system.Rename(d.path(), d.target); err != nil {
		if d.there {
			_ = os.Mkdir(d.target, d.mode) // as it was, unless another export has it now
		}
		again := exportDir{target: d.target}
		if taken := again.free(); taken != nil { // by another export, meanwhile
			return taken
		}
		return err
	}
	return system.SyncDir(filepath.Dir(d.target))
}

// abandon removes all that was made, after an error. A parent stays if somebody else has put something there.
func (d *exportDir) abandon(err error) error {
	if left := d.remove(); left != nil {
		err = fmt.Errorf("%w; what was written so far stays in %s: %w", err, d.dir, left)
	}
	for _, dir := range slices.Backward(d.made) {
		_ = os.Remove(dir)
	}
	return err
}

// remove removes the directory beside the target.
func (d *exportDir) remove() error {
	if d.dir == "" {
		return nil
	}
	root, err := os.OpenRoot(d.dir)
	if err == nil {
		err = errors.Join(removeFiles(root, d.owner.Files), root.Close())
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	if err != nil {
		return err
	}
	return removeOwner(d.dir)
}

// removeFiles removes files of an export by their names, and nothing else.
func removeFiles(root *os.Root, names []string) error {
	for _, name := range append(slices.Clone(names), "") {
		if err := root.Remove(path.Join(exportModel, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeOwner removes the directory of an export in which nothing but its owner is left.
func removeOwner(dir string) error {
	for _, name := range []string{filepath.Join(dir, exportOwner), dir} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeDead removes what exports whose processes are dead have left in a folder, and tells of what it leaves alone.
func removeDead(parent string, tell func(string)) {
	entries, _ := os.ReadDir(parent) // writing there says what is wrong with it
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), exportPrefix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		switch removed, err := removeIfDead(dir); {
		case err != nil:
			tell(fmt.Sprintf("%s looks like what an interrupted export has left, and stays: %v", dir, err))
		case removed:
			tell(fmt.Sprintf("removed %s, left by an interrupted export", dir))
		}
	}
}

// removeIfDead removes what an export has left if its process, on this machine, is dead. If it lives nothing happens.
func removeIfDead(dir string) (removed bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	lock, err := stranger.OpenFile(filepath.Join(dir, exportOwner), os.O_RDWR)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	if err := system.Lock(lock, true); errors.Is(err, system.ErrLocked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var o owner
	if err := json.NewDecoder(io.LimitReader(lock, 1<<20)).Decode(&o); err != nil {
		return false, fmt.Errorf("%s: %w", exportOwner, err)
	}
	switch host, err := os.Hostname(); {
	case err != nil:
		return false, err
	case host != o.Host:
		return false, fmt.Errorf("it is of process %d on %s: remove it if that has ended", o.Process, o.Host)
	}
	for _, name := range o.Files {
		if name != filepath.Base(name) || !filepath.IsLocal(name) {
			return false, fmt.Errorf("%s: found the file %q, wanted a name", exportOwner, name)
		}
	}
	if err := removeFiles(root, o.Files); err != nil {
		return false, err
	}
	return true, removeOwner(dir)
}
