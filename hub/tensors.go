package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/hub/bitsandbytes"
	"gputrain/hub/gguf/llamacpp"
	"gputrain/hub/mxfp4"
	"gputrain/model"
)

// allTensors are those of the weights, by the names that Hugging Face's files have for them. They are read, and widened,
// until Close. A matrix in nf4 of bitsandbytes is one, with what lies beside it to say what it stands for.
func (b *Bundle) allTensors() (_ []array.Tensor, err error) {
	if b.tensors == nil {
		if b.isGGUF {
			var d *llamacpp.Directory
			if d, err = b.directory(); err == nil {
				b.tensors = d.Tensors()
			}
		} else {
			b.tensors, err = b.openTensors()
		}
	}
	return b.tensors, err
}

func (b *Bundle) openTensors() ([]array.Tensor, error) {
	is, err := b.hasAdapters()
	if err != nil {
		return nil, err
	}
	open := b.openWeights
	if is {
		open = b.openAdapters
	}
	files, err := open()
	for _, f := range files {
		b.AtClose(f.Close)
	}
	if err != nil {
		return nil, err
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

// wholeTypes are the names of bitsandbytes.dtypes in files.
var wholeTypes = map[string]string{"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

// TensorsOf are the tensors of open files, sorted by name. Those that only say what a matrix in nf4 stands for are none
// of their own.
func TensorsOf(files ...*safetensors.File) (tensors []array.Tensor, err error) {
	in, all, packed := map[string]*safetensors.File{}, map[string]array.Tensor{}, map[string]bool{}
	for _, f := range files {
		for _, t := range f.Tensors() {
			if in[t.Path] != nil {
				return nil, fmt.Errorf("tensor %q is in two files", t.Path)
			}
			in[t.Path], all[t.Path] = f, t
		}
	}
	experts := map[string]bool{}
	for name := range in {
		if of := mxfp4.Of(name, func(tensor string) bool { return in[tensor] != nil }); of != "" {
			experts[of] = true
			delete(all, name)
		}
	}
	for name := range experts {
		m, err := mxfp4.Open(func(tensor string) *safetensors.File { return in[tensor] }, name)
		if err != nil {
			return nil, err
		}
		if in[name] != nil {
			return nil, fmt.Errorf("tensor %q: found it whole and in mxfp4, wanted one of them", name)
		}
		all[name] = array.Tensor{Host: array.Host{Path: name, Shape: m.Shape, Read: m.Read}, DType: "BF16"} // which holds each number
	}
	for name := range in {
		if of := bitsandbytes.Of(name); in[of] != nil {
			packed[of] = true
			delete(all, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packed)) {
		m, err := bitsandbytes.Open(func(tensor string) *safetensors.File { return in[tensor] }, name)
		if err != nil {
			return nil, err
		}
		if _, whole := all[name]; !whole {
			return nil, fmt.Errorf("tensor %q: found it to say of another what it stands for, and another to say that of it", name)
		}
		all[name] = array.Tensor{Host: array.Host{Path: name, Shape: m.Shape, Read: m.Read, Packed: m}, DType: wholeTypes[m.DType]}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tensors = append(tensors, all[name])
	}
	return tensors, nil
}

// openWeights opens the files of weights, and compares them with their index. After an error it returns those that are
// open.
func (b *Bundle) openWeights() (files []*safetensors.File, err error) {
	index, err := indexOf(b.path)
	if err != nil {
		return nil, err
	}
	tensors := map[string][]string{} // by file
	for tensor, file := range index {
		tensors[file] = append(tensors[file], tensor)
	}
	if index == nil {
		tensors[singleFile] = nil
	}
	for _, file := range slices.Sorted(maps.Keys(tensors)) {
		f, err := safetensors.Open(b.Path(file))
		switch {
		case errors.Is(err, fs.ErrNotExist) && index == nil:
			return nil, noWeights(b.path)
		case errors.Is(err, fs.ErrNotExist):
			return files, fmt.Errorf("%s: found no %q, wanted it for %d of %d tensors: %w (%s)", indexFile, file, len(tensors[file]), len(index), fs.ErrNotExist, b.path)
		case err != nil:
			return files, err
		}
		files = append(files, f)
		for _, tensor := range slices.Sorted(slices.Values(tensors[file])) {
			if _, _, ok := f.Info(tensor); !ok {
				return files, fmt.Errorf("%s: tensor %q: found it not in %q, wanted it there: the file is of another model (%s)", indexFile, tensor, file, b.path)
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
