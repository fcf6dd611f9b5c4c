package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/hub"
	"gputrain/internal/modelcard"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
)

type exportCmd struct {
	baseFlag
	writeFlags
	Adapter []string `help:"A directory with low-rank adapters (adapter_config.json, or a run of them) for the model, several of which add up, each times its weight: these are written." placeholder:"DIR[=WEIGHT]" sep:"none"`
	Type    string   `help:"Type of the matrices of a .gguf: f32, f16, bf16, q8_0 or q4_0. Where none is named, what model.quantize.mode trained for, else f16." placeholder:"TYPE"`
	Ollama  string   `help:"Of a .gguf: write a Modelfile beside it, by which Ollama makes a model of this name." placeholder:"NAME"`
	Model   string   `arg:"" help:"Run directory (its newest checkpoint), checkpoint, model directory in the Hugging Face layout, or GGUF file. Of adapters, their PEFT directory is written: merge writes the whole model." type:"model"`
}

// writeFlags say how a model is written.
type writeFlags struct {
	To        string `help:"Directory to make; it may exist if it is empty. Of export also a file to make, for llama.cpp, if it ends in .gguf." required:"" type:"path" placeholder:"DIR"`
	DType     string `name:"dtype" help:"Type of the weights: f32, bf16 or f16, rounded to nearest, ties to even; or auto, the type of the weights that training began with, f32 from scratch." default:"auto" enum:"auto,f32,bf16,f16"`
	ShardSize string `help:"Largest size of a weights file; larger models are split into several files with an index." default:"5GB" placeholder:"SIZE"`
}

// options are those of an export with the files for other programs of the first of some models that has any, which go
// where the model goes.
func (f writeFlags) options(command string, models ...*hub.Bundle) (o model.ExportOptions, err error) {
	o = model.ExportOptions{Companions: map[string]func(io.Writer) error{}, Tell: func(what string) { say("gputrain: %s: %s\n", command, what) }}
	if o.ShardBytes, err = runfile.ParseBytes(f.ShardSize); err != nil || o.ShardBytes == 0 {
		return o, usageError{fmt.Errorf("%s: --shard-size: found %q, wanted a size such as 5GB or 800MiB", command, f.ShardSize)}
	}
	if f.DType != "auto" {
		o.DType = strings.ToUpper(f.DType)
	}
	companions, err := setup.Companions(models...)
	if err != nil {
		return o, &setup.ModelError{Err: err}
	}
	for _, c := range companions {
		o.Companions[c.Name] = c.Write
	}
	return o, nil
}

// reading reads parameters until ctx ends.
func reading(ctx context.Context, weights *model.Stored) func(path string) ([]float32, error) {
	return func(path string) ([]float32, error) {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		return weights.Read(path)
	}
}

func (c *exportCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if _, err := c.options("export"); err != nil {
		return err
	}
	if err := c.layAll("export", c.Adapter); err != nil {
		return err
	}
	m, err := c.stored(c.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	if namesGGUF(c.To) {
		return c.exportGGUF(ctx, m)
	}
	if c.Type != "" {
		return usageError{fmt.Errorf("export: --type: found %s for a directory, wanted --dtype, or a --to that ends in %s", c.Type, ggufSuffix)}
	}
	if c.Ollama != "" {
		return usageError{fmt.Errorf("export: --ollama: found %s for a directory, wanted a --to that ends in %s", c.Ollama, ggufSuffix)}
	}
	o, err := c.options("export", m.Bundle)
	if err != nil {
		return err
	}
	begun, like, err := setup.Original(m.Bundle, c.Base, told)
	if err != nil {
		return err
	}
	defer begun.Close()
	def := m.within(begun)
	if like == nil || len(model.AdapterParams(def)) > 0 {
		like = m.Weights
	}
	o.Like = like
	card := m.card("export", c.To, c.Base, false)
	o.Companions[modelcard.File] = card.write
	whole := begun
	if whole == nil {
		whole = m.Bundle
	}
	if err := m.export(c.To, def, reading(ctx, m.Weights), o, whole); err != nil {
		return err
	}
	defer card.tell(c.To)
	if own := model.AdapterParams(def); len(own) > 0 {
		trained := 0
		for _, p := range def.Params() {
			if slices.Contains(own, p.Path) {
				trained += array.Elements(p.Shape)
			}
		}
		_, err = fmt.Printf("%s, adapters of %d parameters, from %s to %s; gputrain merge writes the whole model\n", def.Kind(), trained, m.named(), c.To)
		return err
	}
	_, err = fmt.Printf("%s, %d parameters in %s, from %s to %s\n", def.Kind(), model.Parameters(def), strings.ToLower(cmp.Or(o.DType, like.DType())), m.dir(), c.To)
	return err
}
