// Package hub opens models on disk: a directory as Hugging Face lays them out, or a GGUF file, which stands for one.
//
//	b := hub.Open("models/Qwen3-0.6B-Q8_0.gguf")
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

	"gputrain/buffers/array"
	"gputrain/hub/gguf"
	"gputrain/hub/gguf/llamacpp"
	"gputrain/internal/stranger"
	"gputrain/model"
)

// Bundle is an open model: an fs.FS of its small files, such as config.json and those of its tokenizer, with its
// weights and the base that has those it lacks. Nothing is read before it is asked for. It is used from one goroutine;
// its weights are read from several.
type Bundle struct {
	path    string
	alone   string // "": path is a model; else it is a file of a tokenizer alone, of this name
	isGGUF  bool
	gguf    *gguf.File          // nil: not yet opened, and so are these
	as      *llamacpp.Directory // of gguf
	tensors []array.Tensor
	base    *Bundle
	parts   []Weighted     // adapters that count together, b's own among them; none: b's alone do
	sum     []array.Tensor // of parts
	closers []func() error // of what was opened, in this order

	trained bool                    // weights are those that are trained
	mean    map[string]array.Tensor // of the weights, by path; nil: it is not looked for
	blend   float64                 // its share in those that are evaluated
}

// Open opens a directory, or a GGUF file. As os.DirFS it says nothing of a path that is not there: who reads its files
// does.
func Open(path string) *Bundle { return &Bundle{path: path, isGGUF: gguf.Is(path)} }

// OpenOn is Open, with the base in at and no longer where the path says; "": where it says.
func OpenOn(path, at string) *Bundle {
	b := Open(path)
	if at != "" {
		b.On(Open(at))
	}
	return b
}

// OpenTokenizer opens a tokenizer: as Open, or a file of one with what lies beside it. Whatever that file is called, it
// is the tokenizer.json of the bundle, or its tokenizer.model where the name ends so.
func OpenTokenizer(path string) (*Bundle, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("tokenizer: open %q: %w%s", path, err, Download(path))
	}
	b := Open(path)
	switch {
	case Is(path):
	case strings.HasSuffix(path, ".model"):
		b.alone = tokenizers[1]
	default:
		b.alone = tokenizers[0]
	}
	return b, nil
}

// tokenizers are the files of a tokenizer, of which one counts.
var tokenizers = []string{"tokenizer.json", "tokenizer.model"}

// Is tells whether a path is a directory, or a GGUF file that stands for one.
func Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || gguf.Is(path))
}

// AtClose has Close call a function, such as one that lets go of a checkpoint.
func (b *Bundle) AtClose(call func() error) *Bundle {
	b.closers = append(b.closers, call)
	return b
}

// Close closes all files, those of the base too. Of nil it does nothing.
func (b *Bundle) Close() (err error) {
	if b == nil {
		return nil
	}
	for _, closer := range slices.Backward(b.closers) {
		err = errors.Join(err, closer())
	}
	b.closers = nil
	return err
}

// Path is that of a file, by its name, for messages; "." is what was opened.
func (b *Bundle) Path(name string) string {
	switch {
	case name == "." || name == b.alone:
		return b.path
	case b.alone != "":
		return filepath.Join(filepath.Dir(b.path), filepath.FromSlash(name))
	}
	return filepath.Join(b.path, filepath.FromSlash(name))
}

// Directory is b or, where that is a tokenizer's file alone, the directory that it lies in.
func (b *Bundle) Directory() *Bundle {
	if b.alone == "" {
		return b
	}
	return Open(filepath.Dir(b.path))
}

// IsGGUF tells whether it is a GGUF file.
func (b *Bundle) IsGGUF() bool { return b.isGGUF }

// GGUF is the file itself, of whatever architecture.
func (b *Bundle) GGUF() (_ *gguf.File, err error) {
	if b.gguf == nil {
		if b.gguf, err = gguf.Open(b.path); err != nil {
			return nil, err
		}
		b.AtClose(b.gguf.Close)
	}
	return b.gguf, nil
}

// directory is what the GGUF file stands for.
func (b *Bundle) directory() (*llamacpp.Directory, error) {
	f, err := b.GGUF()
	if err == nil && b.as == nil {
		b.as, err = llamacpp.New(f)
	}
	return b.as, err
}

// ReadFile reads a small file. Where there is none of the name, the error is fs.ErrNotExist.
func (b *Bundle) ReadFile(name string) ([]byte, error) {
	switch err := b.known("read", name); {
	case err != nil:
		return nil, err
	case name == b.alone:
		return stranger.ReadNamed(b.path)
	case !b.isGGUF:
		return stranger.Read(b.Path(name))
	}
	d, err := b.directory()
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
	if b.alone != "" && name != b.alone && slices.Contains(tokenizers, name) {
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
	info, err := b.Stat(name)
	return file{bytes.NewReader(raw), info}, err
}

// file is a small file that was read.
type file struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f file) Close() error               { return nil }

// Stat tells whether there is something of a name, whatever it is: who reads it says what is wrong with it. Links are
// not followed, and of what a GGUF file stands for it is the file itself.
func (b *Bundle) Stat(name string) (fs.FileInfo, error) {
	if err := b.known("stat", name); err != nil {
		return nil, err
	}
	if !b.isGGUF {
		return os.Lstat(b.Path(name))
	}
	if d, err := b.directory(); err == nil && !d.Has(name) {
		return nil, &fs.PathError{Op: "stat", Path: b.Path(name), Err: fs.ErrNotExist}
	}
	return os.Stat(b.path)
}

// Has tells whether there is something of a name, as Stat does.
func (b *Bundle) Has(name string) bool { return stranger.Has(b, name) }

// ReadDir lists a folder of the directory.
func (b *Bundle) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := b.known("readdir", name); err != nil {
		return nil, err
	}
	return os.ReadDir(b.Path(name))
}

// Definition is the model's: of a directory with adapters, with these, upon its own config.json or, where it has none,
// that of the base.
func (b *Bundle) Definition() (model.Definition, error) {
	is, err := b.hasAdapters()
	switch {
	case err != nil:
		return nil, fmt.Errorf("model: read config %w", err)
	case is:
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
		return nil, fmt.Errorf("model: read config %q: %w", b.Path("config.json"), inPlace(raw, err))
	}
	return def, nil
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

// ReadConfig is the definition of what lies at a path.
func ReadConfig(path string) (model.Definition, error) {
	b := Open(path)
	defer b.Close()
	return b.Definition()
}

// ReadHF reads all of what lies at a path.
func ReadHF(path string) (model.Definition, []array.Host, error) {
	b := Open(path)
	defer b.Close()
	def, weights, err := b.Partial(nil)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := weights.All()
	return def, hosts, err
}
