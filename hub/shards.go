package hub

import (
	"crypto/sha256"
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

// WeightFiles are the files with the weights: model.safetensors, or those that model.safetensors.index.json names,
// sorted. Where there are both, they must have the same tensors. Of adapters it is adapter_model.safetensors, of a GGUF
// file the file itself.
func (b *Bundle) WeightFiles() ([]string, error) {
	if is, err := b.hasAdapters(); err != nil || is {
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

// differentWeights says what the tensors of a file and those of several have not in common; "" where they are the same,
// bit by bit.
func differentWeights(single string, shards []string) (differ string, err error) {
	var in [2]map[string]*safetensors.File
	for i, names := range [][]string{{single}, shards} {
		in[i] = map[string]*safetensors.File{}
		for _, name := range names {
			f, err := safetensors.Open(name)
			if err != nil {
				return "", err
			}
			defer f.Close()
			for _, tensor := range f.Names() {
				in[i][tensor] = f
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in[0])) {
		one, other := in[0][name], in[1][name]
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
		delete(in[1], name)
	}
	for _, name := range slices.Sorted(maps.Keys(in[1])) {
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
	var sums [2][sha256.Size]byte
	for i, f := range []*safetensors.File{a, b} {
		raw, err := f.Bytes(name)
		if err != nil {
			return false, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, raw); err != nil {
			return false, err
		}
		sum.Sum(sums[i][:0])
	}
	return sums[0] == sums[1], nil
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
