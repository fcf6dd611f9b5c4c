package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// source is one file of a checkpoint that is being written.
type source struct {
	name  string
	bytes uint64 // about how long it will be, for the check of free space
	write func(io.Writer) error
}

const (
	temporarySuffix = ".tmp" // a checkpoint being written
	replacedSuffix  = ".old" // a checkpoint that one of the same step is about to replace
)

// spaceMargin is added to a checkpoint's size when free space is checked: directory blocks and the run's own logs.
const spaceMargin = 64 << 10

// commit writes a checkpoint so that a reader finds at path either nothing, what was there before, or all of it:
//
//  1. the free space is compared with the bytes wanted;
//  2. the files, then the manifest, are written to path.tmp and synced, and the directory is synced;
//  3. a checkpoint of the same name steps aside to path.old;
//  4. path.tmp is renamed to path and the parent is synced; path.old is removed.
//
// When it fails the temporary directory is removed again, if that is still possible.
func commit(fsys FileSystem, path string, step int64, sources []source) (err error) {
	parent, temporary := filepath.Dir(path), path+temporarySuffix
	if err := fsys.MkdirAll(parent); err != nil {
		return fmt.Errorf("state: save %q: %w", path, err)
	}
	if err := fsys.RemoveAll(temporary); err != nil {
		return fmt.Errorf("state: save %q: %w", path, err)
	}
	wanted := uint64(spaceMargin)
	for _, s := range sources {
		wanted += s.bytes
	}
	free, err := fsys.Free(parent)
	if err != nil {
		return fmt.Errorf("state: save %q: %w", path, err)
	}
	if free < wanted {
		return &SpaceError{Path: path, Wanted: wanted, Free: free}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("state: save %q: %w", path, err)
			if e := fsys.RemoveAll(temporary); e != nil {
				err = errors.Join(err, e)
			}
		}
	}()
	if err := fsys.MkdirAll(temporary); err != nil {
		return err
	}
	m := manifest{Format: manifestFormat, Step: step, Files: map[string]manifestFile{}}
	for _, s := range sources {
		if m.Files[s.name], err = writeFile(fsys, filepath.Join(temporary, s.name), s.write); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if _, err := writeFile(fsys, filepath.Join(temporary, manifestName), writeJSON(m)); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	if err := fsys.SyncDir(temporary); err != nil {
		return err
	}
	return replace(fsys, temporary, path)
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

// writeJSON writes v indented, with a line feed at its end.
func writeJSON(v any) func(io.Writer) error {
	return func(w io.Writer) error {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(data, '\n'))
		return err
	}
}
