package checkpoint

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"gputrain/internal/system"
)

// Source is one file of a checkpoint that is being written.
type Source struct {
	Name  string // without a directory
	Bytes uint64 // about how long it will be, for the check of free space
	Write func(io.Writer) error
}

// TextFile is a file of which all is known.
func TextFile(name string, text []byte) Source {
	return Source{name, uint64(len(text)), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}}
}

const (
	temporarySuffix = ".tmp" // a checkpoint being written
	// A checkpoint that one of the same step is about to replace; nobody names a copy of his own so.
	replacedSuffix = ".replaced"
)

// spaceMargin is added to a checkpoint's size when free space is checked: directory blocks and the run's own logs.
const spaceMargin = 64 << 10

// Commit writes the checkpoint of a step. There is no other way to, and with this one a reader finds at path either nothing, what was there
// before, or all of it:
//
//  1. the free space is compared with the bytes wanted;
//  2. the files, then the manifest, are written to path.tmp and synced, and the directory is synced;
//  3. a checkpoint of the same name steps aside to path.replaced;
//  4. path.tmp is renamed to path and the parent is synced; path.replaced is removed.
//
// Where one of these names is taken by what is no checkpoint, nothing is touched. When it fails, always with a *SaveError, the temporary
// directory is removed again, if that is still possible.
func Commit(fsys FileSystem, path string, step int64, sources []Source) error {
	if path == "" {
		return &SaveError{path, errors.New("found no name for the directory, wanted one")}
	}
	path = filepath.Clean(path)
	if err := distinct(sources); err != nil {
		return &SaveError{path, err}
	}
	if err := makeRoom(fsys, path, sources); err != nil {
		return &SaveError{path, err}
	}
	temporary := path + temporarySuffix
	err := writeAll(fsys, temporary, step, sources)
	if err == nil {
		err = replace(fsys, temporary, path)
	}
	if err == nil {
		return nil
	}
	removed := fsys.RemoveAll(temporary)
	if system.Full(err) { // others write there too
		if free, unknown := fsys.Free(filepath.Dir(path)); unknown == nil {
			err = fmt.Errorf("%w: %w", err, &SpaceError{Wanted: bytesOf(sources), Free: free})
		}
	}
	return &SaveError{path, errors.Join(err, removed)}
}

// distinct wants a file inside the checkpoint for each source, and another one than the manifest.
func distinct(sources []Source) error {
	taken := map[string]bool{manifestName: true}
	for _, s := range sources {
		if taken[s.Name] || s.Name != filepath.Base(s.Name) || !filepath.IsLocal(s.Name) {
			return fmt.Errorf("found a file %q, wanted a name inside the checkpoint that no other has", s.Name)
		}
		taken[s.Name] = true
	}
	return nil
}

// makeRoom removes an earlier attempt and compares the bytes wanted with the bytes free.
func makeRoom(fsys FileSystem, path string, sources []Source) error {
	parent := filepath.Dir(path)
	if err := fsys.MkdirAll(parent); err != nil {
		return err
	}
	for _, name := range []string{path, path + temporarySuffix, path + replacedSuffix} {
		if err := replaceable(fsys, name); err != nil {
			return err
		}
	}
	if err := fsys.RemoveAll(path + temporarySuffix); err != nil {
		return err
	}
	_, err := enough(fsys, parent, bytesOf(sources))
	return err
}

// replaceable says why what is at path must not be removed: it is neither a checkpoint nor what is left of one, or has more in it.
func replaceable(fsys FileSystem, path string) error {
	others, err := othersIn(fsys, path)
	if err != nil {
		return fmt.Errorf("found what is no checkpoint: %w: %w", err, fs.ErrExist)
	}
	if len(others) > 0 {
		return fmt.Errorf("found %q there, wanted a checkpoint, an empty directory or nothing: what is there would be removed: %w", others[0], fs.ErrExist)
	}
	return nil
}

// othersIn lists what no checkpoint has of what is in a directory, and its manifest does not name. One that is not there has nothing.
func othersIn(fsys FileSystem, dir string) (others []string, err error) {
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m, unread := decodeManifest(fsys, dir) // one that is damaged names nothing
	for _, name := range names {
		path := filepath.Join(dir, name)
		_, named := m.Files[name]
		if _, file := fsys.ReadDir(path); file == nil || !named && !isCheckpointFile(name) && !(unread != nil && isBeside(name)) {
			others = append(others, path) // no checkpoint has directories, whatever they are called
		}
	}
	return others, err
}

// isCheckpointFile tells the files that a checkpoint consists of.
func isCheckpointFile(name string) bool {
	switch name {
	case ConfigFile, IndexFile, OptimizerFile, OtherFile, RecordFile, manifestName:
		return true
	}
	return isSafetensors(name) && (strings.HasPrefix(name, "model") || name == adapterWeightsFile)
}

// CheckSpace tells whether so many checkpoints of these sources would fit the disk of the directory, which is there: a *SaveError with a *SpaceError where
// they would not. It returns the bytes of one, and those that are free.
func (s Store) CheckSpace(sources []Source, count int) (each, free uint64, err error) {
	each = bytesOf(sources)
	if free, err = enough(s.FS, s.Dir, uint64(count)*each); err != nil {
		err = &SaveError{s.Dir, err}
	}
	return each, free, err
}

// bytesOf is about what a checkpoint of these sources takes.
func bytesOf(sources []Source) uint64 {
	bytes := uint64(spaceMargin)
	for _, s := range sources {
		bytes += s.Bytes
	}
	return bytes
}

// enough compares the bytes wanted with the bytes free below dir.
func enough(fsys FileSystem, dir string, wanted uint64) (free uint64, err error) {
	if free, err = fsys.Free(dir); err == nil && free < wanted {
		err = &SpaceError{Wanted: wanted, Free: free}
	}
	return free, err
}

// writeAll writes the files and the manifest into a new directory, all synced.
func writeAll(fsys FileSystem, dir string, step int64, sources []Source) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	m := manifest{Format: manifestFormat, Step: step, Files: map[string]manifestFile{}}
	for _, s := range sources {
		f, err := writeFile(fsys, filepath.Join(dir, s.Name), s.Write)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		m.Files[s.Name] = f
	}
	text, err := indented(m)
	if err == nil {
		_, err = writeFile(fsys, filepath.Join(dir, manifestName), TextFile(manifestName, text).Write)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	return fsys.SyncDir(dir)
}

// replace puts the directory from in the place of to.
func replace(fsys FileSystem, from, to string) error {
	aside := to + replacedSuffix
	if err := fsys.RemoveAll(aside); err != nil {
		return err
	}
	if err := fsys.Rename(to, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.Rename(from, to); err != nil {
		// Discovery would find the one aside too; this only keeps the name.
		_ = fsys.Rename(aside, to)
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return fsys.RemoveAll(aside)
}

// writeFile writes and syncs one file and returns its sums, those of the bytes handed to the file system.
func writeFile(fsys FileSystem, path string, write func(io.Writer) error) (manifestFile, error) {
	f, err := fsys.Create(path)
	if err != nil {
		return manifestFile{}, err
	}
	sums := newFileSums(isSafetensors(path))
	w := bufio.NewWriterSize(io.MultiWriter(f, sums), 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return manifestFile{}, err
	}
	return sums.file()
}

// indented is v in JSON, indented, with a line feed at its end.
func indented(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}
