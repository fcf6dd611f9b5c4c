package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gputrain/internal/atomicfile"
	"gputrain/internal/stranger"
	"gputrain/internal/system"
	"gputrain/state/checkpoint"
)

// markerFile makes a directory a run directory. It begins with a dot, as what is beside it is for people.
const markerFile = ".gputrain"

// lockFileName is a file whose lock holds the directory.
const lockFileName = ".lock"

// markerFormat is the version of markerFile that this program writes and reads.
const markerFormat = 1

// Marker is what a run directory says of itself.
type Marker struct {
	Format int `json:"format"`
	// From is the directory in which the newest process stood: relative paths among the settings begin there. "": it was gone, so there are none.
	From string `json:"from"`
	// Launch is the newest one that has started the run over.
	Launch string `json:"launch,omitempty"`
}

// ReadMarker reads the marker of a run directory; the error of one without matches fs.ErrNotExist.
func ReadMarker(dir string) (Marker, error) {
	raw, err := beginning(filepath.Join(dir, markerFile))
	if err != nil {
		return Marker{}, &DirError{dir, err}
	}
	var m Marker
	if err := json.Unmarshal(raw, &m); err != nil {
		return Marker{}, &DirError{dir, fmt.Errorf("%s: %w: remove it, and a run directory is known by its other files", markerFile, err)}
	}
	if m.Format != markerFormat {
		return Marker{}, &DirError{dir, fmt.Errorf("%s: found format %d, wanted %d: another version of gputrain has written it", markerFile, m.Format, markerFormat)}
	}
	return m, nil
}

// DirError says why a directory cannot be the directory of this run. No file in it has been touched.
type DirError struct {
	Dir string
	Err error
}

// Error names the directory.
func (e *DirError) Error() string { return fmt.Sprintf("train: run directory %q: %v", e.Dir, e.Err) }

// Unwrap gives the cause.
func (e *DirError) Unwrap() error { return e.Err }

// GoneError says that what lies at the path of a run directory is no longer the directory in which the run began.
type GoneError struct {
	Dir string
	Now string // where that is now; "" where it has been removed, or the system does not tell
	// Newest is the newest checkpoint in it, as far as it is known.
	Newest string
}

// Error says where the newest state is.
func (e *GoneError) Error() string {
	switch {
	case e.Now == "":
		return fmt.Sprintf("train: run directory %q: was removed or moved while the run went on; its newest checkpoint went with it", e.Dir)
	case e.Newest == "":
		return fmt.Sprintf("train: run directory %q: was moved to %q while the run went on; no checkpoint is in it", e.Dir, e.Now)
	}
	return fmt.Sprintf("train: run directory %q: was moved to %q while the run went on; the newest state is %q: go on with --run-dir %s", e.Dir, e.Now, e.Newest, e.Now)
}

// Unwrap is checkpoint.Err: nothing more can be saved.
func (e *GoneError) Unwrap() error { return checkpoint.Err }

var errLocked = errors.New("another process is training in it")

// runDir is a run directory that this process has taken. It is held by a descriptor: whatever writes below its path asks check before, so that
// a directory that was moved, removed or replaced is left alone.
type runDir struct {
	path   string
	file   *os.File
	info   fs.FileInfo
	unlock func() error
	made   bool   // by this process
	marked bool   // as one of a run, before this process took it
	yields uint64 // bytes of the checkpoints that a fresh start is yet to remove
}

// takeDir makes a run directory, or takes one that is there. A directory with files of others under names that a
// run writes is refused, and so is one of another process.
func takeDir(path string) (*runDir, error) {
	_, there := os.Lstat(path)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, dirError(path, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, dirError(path, err)
	}
	d := &runDir{path: path, file: file, unlock: func() error { return nil }, made: errors.Is(there, fs.ErrNotExist)}
	if d.info, err = file.Stat(); err == nil {
		err = d.claim()
	}
	if err != nil {
		d.release()
		return nil, dirError(path, err)
	}
	return d, nil
}

// dirError is a *DirError, but where it is the disk that refuses and another directory may not help.
func dirError(path string, err error) error {
	disk, ok := errors.AsType[*fs.PathError](err)
	if ok && disk.Op == "mkdir" && errors.Is(err, fs.ErrExist) {
		return &DirError{path, fmt.Errorf("%s is a link that leads nowhere, wanted a directory", disk.Path)}
	}
	if (ok || is[syscall.Errno](err)) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("train: run directory %q: %w", path, err)
	}
	return &DirError{path, err}
}

// CheckFree refuses a run directory in which another process trains: it is a *DirError.
func CheckFree(path string) error {
	if _, err := os.Lstat(filepath.Join(path, lockFileName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return dirError(path, err)
	}
	defer file.Close()
	unlock, err := lockDir(path, file)
	if err != nil {
		return dirError(path, err)
	}
	return unlock()
}

func (d *runDir) release() {
	_ = errors.Join(d.unlock(), d.file.Close()) // nothing was written
}

// undo removes what claim put into a directory that was no run's and has become none, and the directory where this process made it.
func (d *runDir) undo() {
	if d == nil || d.marked || d.check() != nil {
		return
	}
	for _, name := range []string{runFile, metricsFile} {
		if _, err := os.Lstat(d.join(name)); err == nil {
			return
		}
	}
	for _, name := range []string{markerFile, lockFileName} {
		_ = os.Remove(d.join(name)) // a directory that stays is no harm
	}
	if d.made {
		_ = os.Remove(d.path)
	}
}

// claim makes sure that the directory is a run's or has nothing of one, locks it and marks it.
func (d *runDir) claim() error {
	marker, err := ReadMarker(d.path)
	d.marked = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Unwrap(err)
	}
	found, err := inspectDir(d.path)
	if err != nil {
		return err
	}
	if !d.marked && found.record {
		return fmt.Errorf("found the %s of a run and no %s, wanted both: copy that as well, or choose another directory; a run of an older program, which had none, ends with that program", runFile, markerFile)
	}
	theirs := found.others
	if !d.marked {
		theirs = found.names()
	}
	if len(theirs) > 0 {
		return foreignError(d.path, theirs)
	}
	unlock, err := lockDir(d.path, d.file)
	if err != nil {
		return err
	}
	d.unlock = unlock
	return d.mark(marker.Launch)
}

// mark writes the marker.
func (d *runDir) mark(launch string) error {
	from, err := os.Getwd()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // where it is gone all paths are absolute
		return err
	}
	raw, err := json.Marshal(Marker{Format: markerFormat, From: from, Launch: launch})
	if err != nil {
		return err
	}
	return d.replace(markerFile, append(raw, '\n'))
}

// foreignError lists files that are not of a run and stand in its way.
func foreignError(dir string, theirs []string) error {
	const most = 5
	list := strings.Join(theirs[:min(most, len(theirs))], ", ")
	if n := len(theirs) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	if len(theirs) == 1 && theirs[0] == runFile {
		return fmt.Errorf("found a %s that gputrain has not written, wanted none: a run has the record of its settings there; give yours another name, such as mine.yaml", runFile)
	}
	way := ""
	if slices.Contains(theirs, checkpointsDir) { // as all of it is where the record is not there
		way = "; " + stateSettings(dir)
	}
	return fmt.Errorf("found what gputrain has not written under names that a run writes: %s; wanted a new directory, or one of a run with its %s: move it away, or choose another directory%s",
		list, runFile, way)
}

// stateSettings says how to write the record of settings that is lost.
func stateSettings(dir string) string {
	return fmt.Sprintf("where %s was lost put it back, or state the settings anew: gputrain config record RUN.yaml > %s", runFile, filepath.Join(dir, runFile))
}

// join is a path in the directory.
func (d *runDir) join(name ...string) string {
	return filepath.Join(append([]string{d.path}, name...)...)
}

// check says whether what lies at the path is still the directory that was taken: a *GoneError where it is not.
func (d *runDir) check() error {
	if d == nil { // files of no run, in tests
		return nil
	}
	if now, err := os.Stat(d.path); err == nil && os.SameFile(now, d.info) {
		return nil
	}
	gone := &GoneError{Dir: d.path, Now: nameOf(d.file)}
	if gone.Now == "" {
		return gone
	}
	there := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(gone.Now, checkpointsDir)}
	if steps, err := there.Steps(); err == nil && len(steps) > 0 {
		gone.Newest = filepath.Join(there.Dir, checkpoint.DirName(steps[0]))
	}
	return gone
}

// nameOf is the path that an open directory has now, where the system tells it, and "" where it has none any more.
func nameOf(f *os.File) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return ""
	}
	if there, err := os.Stat(name); err != nil {
		return ""
	} else if held, err := f.Stat(); err != nil || !os.SameFile(there, held) {
		return ""
	}
	return name
}

// replace puts a file in place in one go.
func (d *runDir) replace(name string, data []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	err := replaceFile(d.join(name), data)
	if gone := d.check(); err != nil && gone != nil { // in between
		return gone
	}
	return err
}

func replaceFile(path string, text []byte) error {
	if err := atomicfile.Replace(path, text); err != nil {
		return fmt.Errorf("train: write: %w", err)
	}
	return nil
}

// held is a file system that refuses to begin a checkpoint once the directory is gone: it would make another at its path.
func (d *runDir) held(fsys checkpoint.FileSystem) checkpoint.FileSystem { return heldFS{fsys, d} }

type heldFS struct {
	checkpoint.FileSystem
	dir *runDir
}

// Free counts what a fresh start yields, which it removes only where nothing refuses it.
func (h heldFS) Free(dir string) (uint64, error) {
	free, err := h.FileSystem.Free(dir)
	return free + h.dir.yields, err
}

func (h heldFS) MkdirAll(dir string) error {
	if err := h.dir.check(); err != nil {
		return err
	}
	return h.FileSystem.MkdirAll(dir)
}

// lockDir takes a run directory, which is open, for this process. The lock ends with the process, however it ends. Both the directory and a file in
// it are locked: some file systems lock files alone, and a file may be removed by somebody who thinks that it is in the way.
func lockDir(path string, dir *os.File) (unlock func() error, err error) {
	if errors.Is(system.Lock(dir, true), system.ErrLocked) { // any other error is of a file system that does not lock directories
		return nil, errLocked
	}
	f, err := stranger.OpenFile(filepath.Join(path, lockFileName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	switch err = system.Lock(f, true); {
	case errors.Is(err, system.ErrLocked):
		return nil, errors.Join(errLocked, f.Close())
	case err != nil && !errors.Is(err, system.ErrNoLocks): // where there are no locks, none is held
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
