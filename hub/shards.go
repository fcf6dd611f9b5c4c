package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/buffers/safetensors"
	"gputrain/internal/stranger"
	"gputrain/model"
)

// Names of the files with the weights.
const (
	singleFile = "model.safetensors"
	indexFile  = singleFile + ".index.json"
)

// WeightFiles are the files with the weights: model.safetensors, or those that model.safetensors.index.json names, sorted. Where there are both,
// they must have the same tensors. Of adapters it is adapter_model.safetensors, of a GGUF file the file itself.
func (b *Bundle) WeightFiles() ([]string, error) {
	if is, err := b.HasAdapters(); err != nil || is {
		return []string{b.Path(model.AdapterWeightsFile)}, err
	}
	if b.IsGGUF() {
		return []string{b.path}, nil
	}
	index, err := indexOf(b.path)
	if err != nil {
		return nil, err
	}
	if index == nil {
		return []string{b.Path(singleFile)}, nil
	}
	return shardsOf(b.path, index), nil
}

// shardsOf are the files that an index names, sorted.
func shardsOf(dir string, index map[string]string) []string {
	names := slices.Compact(slices.Sorted(maps.Values(index)))
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names
}

// indexOf decides where the weights in dir are, for all who read them: the file of each tensor, or nil: all are in model.safetensors.
//
// Where there are both model.safetensors and an index, transformers reads the former. It leaves either behind when it saves a model over another one, so
// that nothing tells which is meant: both are right only where they say the same. An index whose files are gone is a leftover.
func indexOf(dir string) (map[string]string, error) {
	index, err := readIndex(filepath.Join(dir, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if _, absent := os.Lstat(filepath.Join(dir, singleFile)); err != nil || errors.Is(absent, fs.ErrNotExist) {
		return index, err
	}
	shards := shardsOf(dir, index)
	if slices.Equal(shards, []string{filepath.Join(dir, singleFile)}) {
		return index, nil
	}
	for _, shard := range shards {
		if _, err := os.Lstat(shard); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	differ, err := differentWeights(filepath.Join(dir, singleFile), shards)
	if err != nil {
		return nil, err
	}
	if differ != "" {
		return nil, fmt.Errorf("%q: found %s, and %s with %d files, which differ (%s), wanted one model: remove the one that is not meant (transformers reads %s)",
			dir, singleFile, indexFile, len(shards), differ, singleFile)
	}
	return nil, nil
}

// differentWeights says what the tensors of a file and those of several have not in common; "" where they are the same, bit by bit.
func differentWeights(single string, shards []string) (differ string, err error) {
	one, err := safetensors.Open(single)
	if err != nil {
		return "", err
	}
	defer one.Close()
	in := map[string]*safetensors.File{}
	for _, shard := range shards {
		f, err := safetensors.Open(shard)
		if err != nil {
			return "", err
		}
		defer f.Close()
		for _, name := range f.Names() {
			in[name] = f
		}
	}
	for _, name := range one.Names() {
		other := in[name]
		if other == nil {
			return fmt.Sprintf("only the former has %q", name), nil
		}
		same, err := sameTensor(one, other, name)
		if err != nil {
			return "", err
		}
		if !same {
			return fmt.Sprintf("first in %q", name), nil
		}
		delete(in, name)
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		return fmt.Sprintf("only the latter has %q", name), nil
	}
	return "", nil
}

// sameTensor compares a tensor of two files.
func sameTensor(a, b *safetensors.File, name string) (bool, error) {
	dtype, shape, _ := a.Info(name)
	if d, s, _ := b.Info(name); d != dtype || !slices.Equal(s, shape) {
		return false, nil
	}
	one, err := a.Bytes(name)
	if err != nil {
		return false, err
	}
	other, err := b.Bytes(name)
	if err != nil {
		return false, err
	}
	left, right := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(one, left)
		m, failed := io.ReadFull(other, right[:n])
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			return false, err
		case failed != nil:
			return false, failed
		case !bytes.Equal(left[:n], right[:m]):
			return false, nil
		}
	}
}

// readIndex returns the file that holds each tensor. Files must lie in the same directory.
func readIndex(path string) (map[string]string, error) {
	var index struct {
		Files map[string]json.RawMessage `json:"weight_map"`
	}
	if err := stranger.ReadJSON(path, &index); err != nil {
		return nil, err
	}
	if len(index.Files) == 0 {
		return nil, fmt.Errorf("%q: weight_map is empty", path)
	}
	files := make(map[string]string, len(index.Files))
	for _, tensor := range slices.Sorted(maps.Keys(index.Files)) {
		var file string
		if err := json.Unmarshal(index.Files[tensor], &file); err != nil {
			return nil, fmt.Errorf("%q: weight_map: tensor %.200q: found %.80s, wanted the name of a file", path, tensor, index.Files[tensor])
		}
		if file != filepath.Base(file) || strings.ContainsAny(file, `/\`) || file == ".." || file == "." {
			return nil, fmt.Errorf("%q: tensor %.200q: file %.200q, want a name in the same directory", path, tensor, file)
		}
		files[tensor] = file
	}
	return files, nil
}
