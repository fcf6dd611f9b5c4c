package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gputrain/checkpoint"
	"gputrain/model"
	"gputrain/train/setup"
)

type mergeCmd struct {
	baseFlag
	writeFlags
	Model   string `arg:"" help:"Run directory (its newest checkpoint), checkpoint or PEFT directory with adapters; or, before an ADAPTER, the model that it stands on." type:"existingdir"`
	Adapter string `arg:"" optional:"" help:"PEFT directory, run directory or checkpoint with adapters, for MODEL as their base." type:"existingdir"`
}

// Run writes the model that computes what the base does with the adapters.
func (c *mergeCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	from := c.Model
	if c.Adapter != "" {
		if c.Base != "" {
			return usageError{errors.New("merge: --base: found a MODEL before the ADAPTER too, wanted one base")}
		}
		from, c.Base = c.Adapter, c.Model
	}
	dir, release, err := setup.HoldModel(from, told)
	if err != nil {
		return err
	}
	defer release()
	if err := checkpoint.VerifyModel(checkpoint.OS, dir); err != nil {
		return err
	}
	at, letBase, err := c.baseFlag.dir()
	if err != nil {
		return err
	}
	defer letBase()
	def, err := model.ReadConfigOn(dir, at)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	merged, err := model.Merged(def)
	if err != nil {
		return usageError{fmt.Errorf("merge: %s: %w", dir, err)}
	}
	base, err := model.AdapterBase(dir, at)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	weights, err := model.OpenWeightsOn(dir, def, at)
	if err != nil {
		return &setup.ModelError{Err: c.advised(err)}
	}
	weights.AllowNotFinite()
	o, err := c.options("merge", dir, base)
	if err != nil {
		return errors.Join(err, weights.Close())
	}
	o.Like = weights.Below()
	err = model.Export(c.To, merged, model.Merge(def, reading(ctx, weights)), o)
	if errors.Is(err, fs.ErrExist) {
		err = usageError{err}
	}
	dtype := o.Like.DType()
	if err = errors.Join(err, weights.Close()); err != nil {
		return err
	}
	tellNotFinite(weights.NotFinite())
	if len(merged.Params()) > len(model.BaseOf(def).Params()) {
		fmt.Println("the head is a matrix of its own now (tie_word_embeddings: false): it and the embedding were one in the base, and are not the same any more")
	}
	if o.DType != "" {
		dtype = o.DType
	}
	_, err = fmt.Printf("%s, %d parameters in %s, from %s with the adapters of %s to %s\n", merged.Kind(), model.Parameters(merged), strings.ToLower(dtype), base, dir, c.To)
	return err
}
