package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers/array"
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
	closer *array.Closer
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
	f.closer = array.NewCloser(f.closeParts)
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

// Close closes all parts, once none of its tensors is held (array.Host).
func (f *File) Close() error { return f.closer.Close() }

// Hold keeps the parts open until release.
func (f *File) Hold() (release func() error) { return f.closer.Hold() }

func (f *File) closeParts() error {
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

// Keys of the parts of a model that llama-gguf-split has cut.
const (
	splitCount   = "split.count"
	splitNumber  = "split.no"
	splitTensors = "split.tensors.count"
)

// splitName is NAME-00001-of-00003.gguf.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// mostParts is more than any model has.
const mostParts = 10000

// partsOf are the files of a model, of which path is one. All must be there.
func partsOf(path string) ([]string, error) {
	found := splitName.FindStringSubmatch(path)
	if found == nil {
		return []string{path}, nil
	}
	parts, err := strconv.Atoi(found[3])
	if err != nil || parts < 1 || parts > mostParts {
		return nil, fmt.Errorf("%q: found %s parts in its name, wanted 1 to %d", path, found[3], mostParts)
	}
	names := make([]string, parts)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", found[1], i+1, parts)
		if _, err := os.Stat(names[i]); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%q: found no part %d of %d, wanted all: %w", names[i], i+1, parts, fs.ErrNotExist)
		}
	}
	return names, nil
}

// checkPart compares what a part says of itself with its place among the parts.
func (h *header) checkPart(i, parts int) error {
	said := map[string]int64{splitCount: int64(parts), splitNumber: int64(i)}
	number, count := i, parts
	for _, k := range h.keys {
		if n, ok := integer(k.Value); ok && k.Name == splitNumber {
			number = int(n)
		} else if ok && k.Name == splitCount {
			count = int(n)
		}
	}
	for _, k := range h.keys {
		want, asked := said[k.Name]
		if found, ok := integer(k.Value); asked && (!ok || found != want) && (parts > 1 || k.Name == splitCount && found > 1) {
			return fmt.Errorf("key %s: found %v, wanted %d: a part of a split model is named NAME-%05d-of-%05d.gguf and lies beside the others", k.Name, k.Value, want, number+1, count)
		}
	}
	return nil
}
