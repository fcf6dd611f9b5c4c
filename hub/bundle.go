// Package hub opens models on disk: a directory as Hugging Face lays them out, or a GGUF file, which stands for one.
//
//	b, err := hub.Open("models/Qwen3-0.6B-Q8_0.gguf")
//	defer b.Close()
//	def, err := b.Definition()
//	weights, err := b.Weights(def)
//
// Files come from strangers: what is no regular file is refused, links lead no further than their own directory, and no
// file is larger than the limit of its name (internal/stranger).
package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gputrain/buffers/array"
	"gputrain/hub/gguf"
	"gputrain/hub/gguf/llamacpp"
	"gputrain/internal/stranger"
	"gputrain/model"
)

// Bundle is an open model: an fs.FS of its small files, such as config.json and those of its tokenizer, with its weights and the
// base that has those it lacks. Nothing is read before it is asked for. It is used from one goroutine; its weights are read from
// several.
type Bundle struct {
	path    string
	alone   string // the name of the one file of a tokenizer that path is; "": path is a whole model
	gguf    func() (*gguf.File, error)
	as      func() (*llamacpp.Directory, error)
	tensors func() ([]array.Tensor, error)
	base    *Bundle   // as On gave it
	below   []*Bundle // opened for it
	closers []func() error
}

// Open opens a directory, or a GGUF file. As os.DirFS it says nothing of a path that is not there: who reads its files does.
func Open(path string) *Bundle {
	b := &Bundle{path: path}
	if gguf.Is(path) {
		b.gguf, b.as = sync.OnceValues(b.openGGUF), sync.OnceValues(b.asDirectory)
	}
	b.tensors = sync.OnceValues(b.openTensors)
	return b
}

// OpenOn is Open, with the base in at and no longer where the path says; "": where it says.
func OpenOn(path, at string) *Bundle {
	b := Open(path)
	if at != "" {
		b.On(Open(at))
	}
	return b
}

// OpenTokenizer opens a tokenizer: as Open, or a file of one, whatever it is called, with what lies beside it. Of a bundle of
// such a file, that is its tokenizer.json, or its tokenizer.model if its name ends so.
func OpenTokenizer(path string) (*Bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: open %q: %w%s", path, err, Download(path))
	}
	if info.IsDir() || gguf.Is(path) {
		return Open(path), nil
	}
	b := &Bundle{path: path, alone: tokenizerJSON}
	if strings.HasSuffix(path, ".model") {
		b.alone = tokenizerModel
	}
	return b, nil
}

const (
	tokenizerJSON  = "tokenizer.json"
	tokenizerModel = "tokenizer.model"
)

// Is tells whether a path is a directory, or a GGUF file that stands for one.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || gguf.Is(path))
}

// Close closes all files, those of the base too, and then calls what AtClose was given. Of nil it does nothing.
func (b *Bundle) Close() error {
	if b == nil {
		return nil
	}
	var errs []error
	for _, base := range b.below {
		errs = append(errs, base.Close())
	}
	for _, closer := range slices.Backward(b.closers) {
		errs = append(errs, closer())
	}
	b.below, b.closers = nil, nil
	return errors.Join(errs...)
}

// AtClose has Close call a function, such as one that lets go of a checkpoint.
func (b *Bundle) AtClose(call func() error) { b.closers = append([]func() error{call}, b.closers...) }

// Path is that of a file, by its name, for messages; "." is what was opened.
func (b *Bundle) Path(name string) string {
	if name == "." || name == b.alone {
		return b.path
	}
	return filepath.Join(b.dir(), filepath.FromSlash(name))
}

func (b *Bundle) dir() string {
	if b.alone != "" {
		return filepath.Dir(b.path)
	}
	return b.path
}

// Directory is the directory of a tokenizer's file; b itself, if it is not one alone.
func (b *Bundle) Directory() *Bundle {
	if b.alone == "" {
		return b
	}
	return &Bundle{path: b.dir()}
}

// IsGGUF tells whether it is a GGUF file.
func (b *Bundle) IsGGUF() bool { return b.as != nil }

// GGUF is the file itself, of whatever architecture.
func (b *Bundle) GGUF() (*gguf.File, error) { return b.gguf() }

func (b *Bundle) openGGUF() (*gguf.File, error) {
	f, err := gguf.Open(b.path)
	if err == nil {
		b.closers = append(b.closers, f.Close)
	}
	return f, err
}

func (b *Bundle) asDirectory() (*llamacpp.Directory, error) {
	f, err := b.gguf()
	if err != nil {
		return nil, err
	}
	return llamacpp.New(f)
}

// ReadFile reads a small file. Where there is none of the name, the error is fs.ErrNotExist.
func (b *Bundle) ReadFile(name string) ([]byte, error) {
	if b.as == nil && name == b.alone {
		return stranger.ReadNamed(b.path)
	}
	if err := b.known("read", name); err != nil {
		return nil, err
	}
	if b.as == nil {
		return stranger.Read(b.Path(name))
	}
	d, err := b.as()
	if err != nil {
		return nil, err
	}
	return d.Read(name)
}

// known refuses what leads out of the directory, and hides a second tokenizer beside the one that was opened.
func (b *Bundle) known(op, name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if b.alone != "" && (name == tokenizerJSON || name == tokenizerModel) && name != b.alone {
		return &fs.PathError{Op: op, Path: b.Path(name), Err: fs.ErrNotExist}
	}
	return nil
}

// Open is ReadFile as an fs.FS has it.
func (b *Bundle) Open(name string) (fs.File, error) {
	raw, err := b.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &file{bytes.NewReader(raw), entry{name, int64(len(raw))}}, nil
}

// Stat tells whether there is something of a name, whatever it is: who reads it says what is wrong with it. Links are not
// followed, and in a GGUF file, where reading makes a file, its size is 0.
func (b *Bundle) Stat(name string) (fs.FileInfo, error) {
	if err := b.known("stat", name); err != nil {
		return nil, err
	}
	if b.as == nil {
		return os.Lstat(b.Path(name))
	}
	if d, err := b.as(); err == nil && !d.Has(name) {
		return nil, &fs.PathError{Op: "stat", Path: b.Path(name), Err: fs.ErrNotExist}
	}
	return entry{name: name}, nil
}

// Has tells whether there is something of a name, as Stat does.
func (b *Bundle) Has(name string) bool {
	_, err := b.Stat(name)
	return err == nil
}

// ReadDir lists a folder of the directory.
func (b *Bundle) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := b.known("readdir", name); err != nil {
		return nil, err
	}
	return os.ReadDir(b.Path(name))
}

// file is a small file that was read.
type file struct {
	*bytes.Reader
	entry
}

func (f *file) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *file) Close() error               { return nil }
func (f *file) Size() int64                { return f.entry.Size() }

// entry says what a file is.
type entry struct {
	name string
	size int64
}

func (e entry) Name() string     { return filepath.Base(e.name) }
func (e entry) Size() int64      { return e.size }
func (entry) Mode() fs.FileMode  { return 0o444 }
func (entry) ModTime() time.Time { return time.Time{} }
func (entry) IsDir() bool        { return false }
func (entry) Sys() any           { return nil }

// Definition is the model's: of a directory with adapters, with these, upon its own config.json or, where it has none, that of
// the base.
func (b *Bundle) Definition() (model.Definition, error) {
	if is, err := b.HasAdapters(); err != nil || is {
		if err != nil {
			return nil, fmt.Errorf("model: read config %w", err)
		}
		return b.adapted()
	}
	return b.config()
}

// config is what config.json says.
func (b *Bundle) config() (model.Definition, error) {
	raw, err := b.ReadFile("config.json")
	if err != nil {
		return nil, fmt.Errorf("model: read config %w", err)
	}
	def, err := model.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("model: read config %q: %w", b.Path("config.json"), whole(raw, err))
	}
	return def, nil
}

// ReadConfig is the definition of what lies at a path.
func ReadConfig(path string) (model.Definition, error) {
	b := Open(path)
	def, err := b.Definition()
	return def, errors.Join(err, b.Close())
}

// ReadHF reads all of what lies at a path.
func ReadHF(path string) (model.Definition, []array.Host, error) {
	def, err := ReadConfig(path)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := ReadWeights(path, def)
	return def, hosts, err
}

// ReadWeights reads the weights of def at a path, as Bundle.Weights has them.
func ReadWeights(path string, def model.Definition) ([]array.Host, error) {
	b := Open(path)
	var hosts []array.Host
	s, err := b.Weights(def)
	if err == nil {
		hosts, err = s.All()
	}
	return hosts, errors.Join(err, b.Close())
}

// Exports tells whether llama.cpp loads a network, of a family that it has: model.Sized asks.
func Exports(def model.Definition) bool {
	if !slices.Contains(llamacpp.Families(), def.Kind()) {
		return true
	}
	config, err := model.ConfigJSON(def, "F32")
	return err == nil && llamacpp.Check(config) == nil
}

// Has is Bundle.Has of what lies at a path.
func Has(path, name string) bool {
	b := Open(path)
	defer b.Close()
	return b.Has(name)
}
