package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/hub/gguf"
	"gputrain/hub/gguf/llamacpp"
	"gputrain/internal/atomicfile"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// ggufSuffix is what the name of a GGUF file ends with.
const ggufSuffix = ".gguf"

// namesGGUF tells whether a path is to be such a file, as gguf.Is reads names.
func namesGGUF(path string) bool { return strings.EqualFold(filepath.Ext(path), ggufSuffix) }

// wholeShards is --shard-size where none is given.
const wholeShards = "5GB"

// exportGGUF writes a model as a file that llama.cpp runs.
func (c *exportCmd) exportGGUF(ctx context.Context, m *storedModel) error {
	if h := model.HeadOf(m.Def); h.Kind != "" {
		return usageError{fmt.Errorf("export: --to: found %s for a model that has %s in place of logits, wanted a directory: GGUF files are written of language models alone", c.To, headOf(h))}
	}
	own := model.AdapterParams(m.Def)
	usual, trained := "f16", trainedFor(m.Def)
	switch {
	case len(own) > 0:
		usual = "f32" // they are small
	case trained.Mode != "":
		usual = trained.Mode
	}
	kind, err := gguf.ParseType(cmp.Or(c.Type, usual))
	if err != nil || !kind.Writable() {
		return usageError{fmt.Errorf("export: --type: found %q, wanted f32, f16, bf16, q8_0 or q4_0: types that search for better scales are left to llama.cpp: llama-quantize MODEL-f16.gguf MODEL.gguf %s", c.Type, strings.ToUpper(c.Type))}
	}
	if differs := trained.Mode != kind.String() || len(trained.Match) > 0; differs && trained.Mode != "" && len(own) == 0 {
		say("gputrain: export: the loss will be another: trained as %v, %s, written as %s\n", trained, matching(trained), kind)
	}
	if c.ShardSize != wholeShards {
		return usageError{fmt.Errorf("export: --shard-size: found %s beside a .gguf, wanted none: llama-gguf-split splits a file", c.ShardSize)}
	}
	if c.DType != "auto" {
		return usageError{fmt.Errorf("export: --dtype: found %s beside a .gguf, wanted --type", c.DType)}
	}
	var keys []gguf.Key
	var tensors []gguf.Tensor
	what, parameters := "", model.Parameters(m.Def)
	if len(own) > 0 {
		what, parameters = " adapters of", parameters-model.Parameters(model.BaseOf(m.Def))
		keys, tensors, err = ggufAdapter(ctx, m, own, kind)
	} else {
		keys, tensors, err = ggufModel(ctx, m, kind)
	}
	if err != nil {
		return &setup.ModelError{Err: fmt.Errorf("export: %s: %w", m.dir(), err)}
	}
	card := m.card("export", c.To, c.Base, false)
	keys = append(keys, card.keys()...)
	file := &atomicfile.New{Path: c.To, Write: func(w io.Writer) error { return gguf.Write(w, keys, tensors) }}
	files := []*atomicfile.New{file}
	if c.Ollama != "" {
		beside, err := c.modelfile(ctx, m, keys)
		if err != nil {
			return err
		}
		files = append(files, beside)
	}
	begin := time.Now()
	if err := absent(files); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := atomicfile.Make(files...); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	seconds, written := max(time.Since(begin).Seconds(), 1e-3), float64(file.Bytes)
	if c.Ollama != "" {
		defer fmt.Printf("%s written; in its directory:\n  ollama create %s -f %s\n  ollama run %s\n", files[1].Path, c.Ollama, modelfileName, c.Ollama)
	}
	defer card.tell(c.To)
	tellNotFinite(m.Weights.NotFinite())
	_, err = fmt.Printf("%s,%s %d parameters in %s, from %s to %s: %s at %.0f MB/s\n",
		m.Def.Kind(), what, parameters, kind, m.named(), c.To, gpu.SizeText(uint64(written)), written/1e6/seconds)
	return err
}

// trainedFor is the quantization that a model was trained for, if it is a type of GGUF files.
func trainedFor(def model.Definition) model.Quantization {
	q, _ := model.QuantizationOf(def)
	if kind, err := gguf.ParseType(q.Mode); err != nil || !kind.Writable() {
		return model.Quantization{}
	}
	return q
}

// matching says which parameters a quantization is of.
func matching(q model.Quantization) string {
	if len(q.Match) == 0 {
		return "all that have blocks"
	}
	return fmt.Sprintf("those that %q match", q.Match)
}

// absent makes the directory of files, of which none may be there.
func absent(files []*atomicfile.New) error {
	for _, f := range files {
		switch _, err := os.Lstat(f.Path); {
		case err == nil:
			return usageError{fmt.Errorf("%s: found something there, wanted a new file: %w", f.Path, fs.ErrExist)}
		case !errors.Is(err, fs.ErrNotExist):
			return usageError{err}
		}
	}
	return os.MkdirAll(filepath.Dir(files[0].Path), 0o777)
}

// ggufName is what a model is called: its file or directory, of a checkpoint that of the run.
func ggufName(dir string) string {
	if at := filepath.Dir(dir); filepath.Base(at) == "checkpoints" {
		dir = filepath.Dir(at)
	}
	if name := filepath.Base(dir); namesGGUF(name) {
		return name[:len(name)-len(ggufSuffix)]
	}
	return filepath.Base(dir)
}

// ggufAdapter are the adapters of a directory as they are written.
func ggufAdapter(ctx context.Context, m *storedModel, own []string, kind gguf.Type) ([]gguf.Key, []gguf.Tensor, error) {
	out := llamacpp.Adapter{Name: ggufName(m.dir()), Scales: model.AdapterScales(m.Def)}
	var err error
	if out.Config, err = model.ConfigJSON(model.TextPart(model.BaseOf(m.Def)), "F32"); err != nil {
		return nil, nil, err
	}
	read := reading(ctx, m.Weights)
	for _, p := range m.Def.Params() {
		if slices.Contains(own, p.Path) {
			out.Tensors = append(out.Tensors, llamacpp.Tensor{Name: p.Path, Shape: p.Shape, Read: func() ([]float32, error) { return read(p.Path) }})
		}
	}
	return llamacpp.ConvertAdapter(out, kind)
}

// ggufModel is the model of a directory as it is written.
func ggufModel(ctx context.Context, m *storedModel, kind gguf.Type) ([]gguf.Key, []gguf.Tensor, error) {
	read := reading(ctx, m.Weights)
	out := llamacpp.Model{Name: ggufName(m.dir()), Tell: func(what string) { say("gputrain: export: %s\n", what) }}
	var err error
	def := model.TextPart(m.Def)
	if out.Config, err = model.ConfigJSON(def, "F32"); err != nil {
		return nil, nil, err
	}
	named, err := model.Tensors(def, "F32", read)
	if err != nil {
		return nil, nil, err
	}
	for i, p := range def.Params() { // in the order of named
		out.Tensors = append(out.Tensors, llamacpp.Tensor{Name: named[i].Name, Shape: p.Shape, Read: func() ([]float32, error) { return read(p.Path) }})
	}
	text := spoken(m.Bundle)
	out.Read = text.ReadFile
	if tok, err := tokenizer.Open(text); err == nil { // Convert says what is wrong with it
		out.Read = tok.Read
		template, ends, err := answerEnds(text, tok)
		switch {
		case err != nil:
			out.Tell(fmt.Sprintf("the chat template is not understood, so the token that ends an answer is taken by its name: %v", err))
		case template != nil:
			for _, id := range ends {
				out.Ends = append(out.Ends, int(id))
			}
		}
	}
	return llamacpp.Convert(out, kind)
}

// answerEnds are the chat template of a model, nil if it has none, and the tokens that end an answer.
func answerEnds(of *hub.Bundle, tok *tokenizer.Tokenizer) (*chat.Template, []int32, error) {
	template, err := chat.OpenTemplate(of, "")
	if errors.Is(err, chat.ErrNone) {
		return nil, tok.EndTokens(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	encoder, err := chat.NewEncoder(tok, template, chat.Options{Now: time.Now()})
	if err != nil {
		return nil, nil, err
	}
	return template, encoder.Ends(), nil
}
