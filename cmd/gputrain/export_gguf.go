package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gputrain/gguf"
	"gputrain/gguf/llamacpp"
	"gputrain/gguf/modeldir"
	"gputrain/internal/ondisk"
	"gputrain/model"
	"gputrain/train/setup"
)

// ggufSuffix is what the name of a GGUF file ends with.
const ggufSuffix = ".gguf"

// exportGGUF writes a model as a file that llama.cpp runs.
func (c *exportCmd) exportGGUF(ctx context.Context, m *storedModel) error {
	kind, err := gguf.ParseType(cmp.Or(c.Type, "f16"))
	if err != nil {
		return usageError{fmt.Errorf("export: --type: %w", err)}
	}
	if c.DType != "auto" {
		return usageError{fmt.Errorf("export: --dtype: found %s beside a .gguf, wanted --type", c.DType)}
	}
	if own := model.AdapterParams(m.def); len(own) > 0 {
		return usageError{fmt.Errorf("export: %s: found adapters, wanted a whole model: first gputrain merge %s --to DIR, then export DIR", m.dir, c.Model)}
	}
	converted, err := ggufModel(ctx, m)
	if err != nil {
		return err
	}
	converted.Tell = func(what string) { say("gputrain: export: %s\n", what) }
	keys, tensors, err := llamacpp.Convert(converted, kind)
	if err != nil {
		return &setup.ModelError{Err: fmt.Errorf("export: %s: %w", m.dir, err)}
	}
	begin := time.Now()
	written, err := writeGGUF(c.To, keys, tensors)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	seconds := max(time.Since(begin).Seconds(), 1e-3)
	_, err = fmt.Printf("%s, %d parameters in %s, from %s to %s: %.1f MB at %.0f MB/s\n", m.def.Kind(), model.Parameters(m.def), kind, m.dir, c.To, float64(written)/1e6, float64(written)/1e6/seconds)
	return err
}

// ggufModel is the model of a directory as it is converted.
func ggufModel(ctx context.Context, m *storedModel) (llamacpp.Model, error) {
	read := reading(ctx, m.weights)
	out := llamacpp.Model{Name: filepath.Base(m.dir)}
	var err error
	if out.Config, err = model.ConfigJSON(m.def, "F32"); err != nil {
		return out, err
	}
	named, err := model.Tensors(m.def, "F32", read)
	if err != nil {
		return out, err
	}
	for i, p := range m.def.Params() { // in the order of named
		out.Tensors = append(out.Tensors, llamacpp.Tensor{Name: named[i].Name, Shape: p.Shape, Read: func() ([]float32, error) { return read(p.Path) }})
	}
	text := textDir(m.dir, m.at)
	out.Read = func(name string) ([]byte, error) { return modeldir.Read(filepath.Join(text, name)) }
	return out, nil
}

// writeGGUF writes a file beside its place and moves it there when it is whole. A file that is there already is refused.
func writeGGUF(to string, keys []gguf.Key, tensors []gguf.Tensor) (int64, error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return 0, usageError{fmt.Errorf("%s: found something there, wanted a new file: %w", to, errors.Join(err, fs.ErrExist))}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+"-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // not there any more after the move
	w := bufio.NewWriterSize(f, 1<<20)
	err = gguf.Write(w, keys, tensors)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	info, failed := f.Stat()
	if err = errors.Join(err, failed, f.Close()); err != nil {
		return 0, err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return 0, err
	}
	return info.Size(), ondisk.SyncDir(filepath.Dir(to))
}
