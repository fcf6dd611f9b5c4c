package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/hub/bitsandbytes"
	"gputrain/hub/gguf"
	"gputrain/model"
)

// Tensors are those of the weights, by the names that Hugging Face's files have for them. They are read, and widened, until
// Close. A matrix in nf4 of bitsandbytes is one, with what lies beside it to say what it stands for.
func (b *Bundle) Tensors() ([]array.Tensor, error) { return b.tensors() }

func (b *Bundle) openTensors() ([]array.Tensor, error) {
	if b.as != nil {
		return b.ggufTensors()
	}
	var files []*safetensors.File
	is, err := b.HasAdapters()
	switch {
	case err != nil:
	case is:
		files, err = b.openAdapters()
	default:
		files, err = openFiles(b.path)
	}
	for _, f := range files {
		b.closers = append(b.closers, f.Close)
	}
	switch {
	case err != nil:
		return nil, err
	case is:
		return plainTensors(files), nil
	}
	return TensorsOf(files...)
}

// openAdapters opens the file of adapters.
func (b *Bundle) openAdapters() ([]*safetensors.File, error) {
	f, err := safetensors.Open(b.Path(model.AdapterWeightsFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%q: found no %s, wanted the adapters that %s tells of: %w", b.path, model.AdapterWeightsFile, model.AdapterConfigFile, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return []*safetensors.File{f}, nil
}

// ggufTypes are the types that safetensors has too. Blocks are widened to F32.
var ggufTypes = map[gguf.Type]string{gguf.BF16: "BF16", gguf.F16: "F16"}

func (b *Bundle) ggufTensors() (tensors []array.Tensor, err error) {
	d, err := b.as()
	if err != nil {
		return nil, err
	}
	for _, p := range d.Parameters() {
		tensors = append(tensors, array.Tensor{
			Host: array.Host{Path: p.Name, Shape: p.Shape, Read: p.Read}, DType: cmp.Or(ggufTypes[p.Type], "F32"),
		})
	}
	return tensors, nil
}

// wholeTypes are the names of bitsandbytes.DTypes in files.
var wholeTypes = map[string]string{"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

// plainTensors are those of files as they stand there.
func plainTensors(files []*safetensors.File) (tensors []array.Tensor) {
	for _, f := range files {
		tensors = append(tensors, f.Tensors()...)
	}
	return tensors
}

// TensorsOf are the tensors of open files, sorted by name. Those that only say what a matrix in nf4 stands for are none of their
// own.
func TensorsOf(files ...*safetensors.File) ([]array.Tensor, error) {
	in, packed := map[string]*safetensors.File{}, map[string]bool{}
	for _, f := range files {
		for _, name := range f.Names() {
			if in[name] != nil {
				return nil, fmt.Errorf("tensor %q is in two files", name)
			}
			in[name] = f
		}
	}
	tensors := map[string]array.Tensor{}
	for _, t := range plainTensors(files) {
		if of := bitsandbytes.Of(t.Path); in[of] != nil {
			packed[of] = true
		} else {
			tensors[t.Path] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packed)) {
		m, err := bitsandbytes.Open(func(tensor string) *safetensors.File { return in[tensor] }, name)
		if err != nil {
			return nil, err
		}
		if _, whole := tensors[name]; !whole {
			return nil, fmt.Errorf("tensor %q: found it to say of another what it stands for, and another to say that of it", name)
		}
		tensors[name] = array.Tensor{Host: array.Host{Path: name, Shape: m.Shape, Read: m.Read, NF4: m}, DType: wholeTypes[m.DType]}
	}
	return slices.SortedFunc(maps.Values(tensors), func(a, b array.Tensor) int { return strings.Compare(a.Path, b.Path) }), nil
}

// openFiles opens the files of weights in dir, and compares them with their index. After an error it returns those that are open.
func openFiles(dir string) (files []*safetensors.File, err error) {
	index, err := indexOf(dir)
	if index == nil && err == nil {
		f, err := safetensors.Open(filepath.Join(dir, singleFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, noWeights(dir)
		case err != nil:
			return nil, err
		}
		return []*safetensors.File{f}, nil
	}
	if err != nil {
		return nil, err
	}
	tensors := map[string][]string{} // by file
	for tensor, file := range index {
		tensors[file] = append(tensors[file], tensor)
	}
	for _, file := range slices.Sorted(maps.Keys(tensors)) {
		f, err := safetensors.Open(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: found no %q, wanted it for %d of %d tensors: %w (%s)", indexFile, file, len(tensors[file]), len(index), fs.ErrNotExist, dir)
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
		for _, tensor := range slices.Sorted(slices.Values(tensors[file])) {
			if _, _, ok := f.Info(tensor); !ok {
				return files, fmt.Errorf("%s: tensor %q: found it not in %q, wanted it there: the file is of another model (%s)", indexFile, tensor, file, dir)
			}
		}
	}
	return files, nil
}

// others are files of weights that are not read, by what their names end with, and what may be done.
var others = []struct{ suffix, what string }{
	{model.AdapterWeightsFile, "is an adapter, and there is no " + model.AdapterConfigFile + " that says of what"},
	{".safetensors", "is not named as Hugging Face names weights"},
	{".safetensors.index.json", "is not named as Hugging Face names an index"},
	{".gguf", "is a model of its own: name the file"},
	{".bin", "is a pickle, which may run code and is never read: save the model as safetensors"},
	{".pt", "is a pickle, which may run code and is never read: save the model as safetensors"},
	{".pth", "is a pickle, which may run code and is never read: save the model as safetensors"},
}

// noWeights says that dir has none, and what is there instead.
func noWeights(dir string) error {
	found := ""
	entries, err := os.ReadDir(dir)
	for _, o := range others {
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool {
			return strings.HasSuffix(e.Name(), o.suffix) && e.Name() != "training_args.bin"
		})
		if i >= 0 {
			found = fmt.Sprintf("; %s %s", entries[i].Name(), o.what)
			break
		}
	}
	return errors.Join(err, fmt.Errorf("%q: found no weights, wanted %s, or %s and the files it names%s: %w", dir, singleFile, indexFile, found, fs.ErrNotExist))
}
