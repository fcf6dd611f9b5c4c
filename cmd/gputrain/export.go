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
	Model     string `arg:"" help:"Run directory (its newest checkpoint), checkpoint, or model directory in the Hugging Face layout." type:"existingdir"`
	To        string `help:"Directory to make; it may exist if it is empty." required:"" type:"path" placeholder:"DIR"`
	DType     string `name:"dtype" help:"Type of the weights: f32, bf16 or f16, rounded to nearest, ties to even; or auto, the type of the weights that training began with, f32 from scratch." default:"auto" enum:"auto,f32,bf16,f16"`
	ShardSize string `help:"Largest size of a weights file; larger models are split into several files with an index." default:"5GB" placeholder:"SIZE"`
}

func (c *exportCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	shard, err := runfile.ParseBytes(c.ShardSize)
	if err != nil || shard == 0 {
		return usageError{fmt.Errorf("export: --shard-size: found %q, wanted a size such as 5GB or 800MiB", c.ShardSize)}
	}
	dir, release, err := setup.HoldModel(c.Model, told)
	if err != nil {
		return err
	}
	defer release()
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return err
	}
	def, err := model.ReadConfig(dir)
	if err != nil {
		return &setup.ModelError{Err: err}
	}
	base, letBase, err := c.baseFlag.dir()
	if err != nil {
		return err
	}
	defer letBase()
	weights, err := model.OpenWeightsOn(dir, def, base)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	weights.AllowNotFinite()
	companions, err := checkpoint.Companions(dir)
	if err != nil {
		return &setup.ModelError{Err: errors.Join(err, weights.Close())}
	}
	like, leave, err := setup.Original(dir, base, told)
	if err != nil {
		return errors.Join(err, weights.Close())
	}
	defer leave()
	if like == nil {
		like = weights
	}
	o := model.ExportOptions{ShardBytes: shard, Like: like, Companions: map[string]func(io.Writer) error{}, Tell: func(what string) {
		say("gputrain: export: %s\n", what)
	}}
	for _, f := range companions {
		o.Companions[f.Name] = f.Write
	}
	if c.DType != "auto" {
		o.DType = strings.ToUpper(c.DType)
	}
	err = model.Export(c.To, def, func(path string) ([]float32, error) {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		return weights.Read(path)
	}, o)
	if errors.Is(err, fs.ErrExist) {
		err = usageError{err}
	}
	if err = errors.Join(err, weights.Close()); err != nil {
		return err
	}
	tellNotFinite(weights.NotFinite())
	_, err = fmt.Printf("%s, %d parameters in %s, from %s to %s\n", def.Kind(), model.Parameters(def), strings.ToLower(cmp.Or(o.DType, like.DType())), dir, c.To)
	return err
}
