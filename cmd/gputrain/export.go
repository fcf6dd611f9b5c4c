package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gputrain/checkpoint"
	"gputrain/model"
	"gputrain/train/runfile"
	"gputrain/train/setup"
)

type exportCmd struct {
	baseFlag
	writeFlags
	Model string `arg:"" help:"Run directory (its newest checkpoint), checkpoint, or model directory in the Hugging Face layout. Of adapters, their PEFT directory is written: merge writes the whole model." type:"existingdir"`
}

// writeFlags say how a model is written.
type writeFlags struct {
	To        string `help:"Directory to make; it may exist if it is empty." required:"" type:"path" placeholder:"DIR"`
	DType     string `name:"dtype" help:"Type of the weights: f32, bf16 or f16, rounded to nearest, ties to even; or auto, the type of the weights that training began with, f32 from scratch." default:"auto" enum:"auto,f32,bf16,f16"`
	ShardSize string `help:"Largest size of a weights file; larger models are split into several files with an index." default:"5GB" placeholder:"SIZE"`
}

// options are those of an export of what is in the first of dirs that has files for other programs beside it, which go where the model goes.
func (f writeFlags) options(command string, dirs ...string) (o model.ExportOptions, err error) {
	o = model.ExportOptions{Companions: map[string]func(io.Writer) error{}, Tell: func(what string) { say("gputrain: %s: %s\n", command, what) }}
	if o.ShardBytes, err = runfile.ParseBytes(f.ShardSize); err != nil || o.ShardBytes == 0 {
		return o, usageError{fmt.Errorf("%s: --shard-size: found %q, wanted a size such as 5GB or 800MiB", command, f.ShardSize)}
	}
	if f.DType != "auto" {
		o.DType = strings.ToUpper(f.DType)
	}
	for _, dir := range dirs {
		companions, err := checkpoint.Companions(dir)
		if err != nil {
			return o, &setup.ModelError{Err: err}
		}
		for _, c := range companions {
			o.Companions[c.Name] = c.Write
		}
		if len(companions) > 0 {
			break
		}
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
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if _, err := c.options("export"); err != nil {
		return err
	}
	dir, release, err := setup.HoldModel(c.Model, told)
	if err != nil {
		return err
	}
	defer release()
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return err
	}
	base, letBase, err := c.baseFlag.dir()
	if err != nil {
		return err
	}
	defer letBase()
	def, err := model.ReadConfigOn(dir, base)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	weights, err := model.OpenWeightsOn(dir, def, base)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	weights.AllowNotFinite()
	o, err := c.options("export", dir)
	if err != nil {
		return errors.Join(err, weights.Close())
	}
	like, leave, err := setup.Original(dir, base, told)
	if err != nil {
		return errors.Join(err, weights.Close())
	}
	defer leave()
	if like == nil || len(model.AdapterParams(def)) > 0 {
		like = weights
	}
	o.Like = like
	err = model.Export(c.To, def, reading(ctx, weights), o)
	if errors.Is(err, fs.ErrExist) {
		err = usageError{err}
	}
	if err = errors.Join(err, weights.Close()); err != nil {
		return err
	}
	tellNotFinite(weights.NotFinite())
	if own := model.AdapterParams(def); len(own) > 0 {
		_, err = fmt.Printf("%s, adapters of %d parameters, from %s to %s; gputrain merge writes the whole model\n", def.Kind(), model.Parameters(def)-model.Parameters(model.BaseOf(def)), dir, c.To)
		return err
	}
	_, err = fmt.Printf("%s, %d parameters in %s, from %s to %s\n", def.Kind(), model.Parameters(def), strings.ToLower(cmp.Or(o.DType, like.DType())), dir, c.To)
	return err
}
