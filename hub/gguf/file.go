package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gputrain/internal/placeholder"
	"gputrain/internal/stranger"
)

// File is an open model: one file, or all parts of one that was split. Its methods may be called from several goroutines.
type File struct {
	path   string
	parts  []part
	keys   []Key
	infos  []Info
	values map[string]any
	byName map[string]Info
}

// part is one of the files of a model.
type part struct {
	data io.ReaderAt
	base int64
	file io.Closer
}

// Is says whether path is a regular file that begins as a GGUF does, or is named as one: Open says what else it is.
func Is(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	if strings.EqualFold(filepath.Ext(path), ".gguf") {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [len(magic)]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == magic
}

// Open opens a file and checks its header. Of a split file, NAME-00001-of-0000N.gguf, it opens all parts, whichever of them path names.
func Open(path string) (*File, error) {
	f := &File{path: path, values: map[string]any{}, byName: map[string]Info{}}
	names, err := partsOf(path)
	for i, name := range names {
		if err == nil {
			err = f.add(i, len(names), name)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gguf: open %w", err), f.Close())
	}
	return f, nil
}

func (f *File) add(i, parts int, name string) error {
	file, err := stranger.Open(name)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.parts = append(f.parts, part{data: file, file: file})
	if err := f.parse(i, parts, file, info.Size()); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// parse reads the header of part i.
func (f *File) parse(i, parts int, r io.ReaderAt, size int64) error {
	head := make([]byte, min(size, placeholder.HeadBytes))
	if _, err := r.ReadAt(head, 0); err != nil && len(head) > 0 {
		return err
	}
	if what := placeholder.What(head); what != "" {
		return errors.New(what)
	}
	h, err := readHeader(io.NewSectionReader(r, 0, size), size)
	if err != nil {
		return err
	}
	f.parts[i].base = h.base
	if err := h.checkPart(i, parts); err != nil {
		return err
	}
	if i == 0 {
		f.keys = h.keys
		for _, k := range h.keys {
			f.values[k.Name] = k.Value
		}
	}
	for _, t := range h.tensors {
		if _, twice := f.byName[t.Name]; twice {
			return fmt.Errorf("tensor %.100q: found it in two parts, wanted it in one: they are of different models", t.Name)
		}
		t.part = i
		f.infos, f.byName[t.Name] = append(f.infos, t), t
	}
	if want, ok := integer(f.values[splitTensors]); ok && i == parts-1 && want != int64(len(f.infos)) {
		return fmt.Errorf("key %s: found %d tensors in %d parts, wanted %d: they are of different models", splitTensors, len(f.infos), parts, want)
	}
	return nil
}

// Close closes all parts.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		if p.file != nil {
			errs = append(errs, p.file.Close())
		}
	}
	return errors.Join(errs...)
}

// Path is what was opened.
func (f *File) Path() string { return f.path }

// Keys are the facts that the file, or its first part, states, in its order.
func (f *File) Keys() []Key { return slices.Clone(f.keys) }

// Value is the value of a key.
func (f *File) Value(name string) (value any, ok bool) {
	value, ok = f.values[name]
	return value, ok
}

// Integer is the value of a key that is a whole number of any kind.
func (f *File) Integer(name string) (int64, bool) { return integer(f.values[name]) }

// Tensors are all tensors, in the order of the file.
func (f *File) Tensors() []Info { return slices.Clone(f.infos) }

// Info says what a tensor is.
func (f *File) Info(name string) (Info, bool) {
	t, ok := f.byName[name]
	return t, ok
}

// integer is a number of any of the format's kinds.
func integer(v any) (int64, bool) {
	switch of := reflect.ValueOf(v); {
	case of.CanInt():
		return of.Int(), true
	case of.CanUint():
		return int64(of.Uint()), of.Uint() < 1<<63
	}
	return 0, false
}
