package main

import (
	"context"
	"fmt"
	"os/signal"
	"strings"

	"gputrain/hub"
	"gputrain/internal/modelcard"
	"gputrain/model"
	"gputrain/run/setup"
	"gputrain/run/train"
)

type mergeCmd struct {
	baseFlag
	writeFlags
	Model   string   `arg:"" help:"Run directory (its newest checkpoint), checkpoint or PEFT directory with adapters; or, before an ADAPTER, the model that it stands on." type:"model"`
	Adapter []string `arg:"" optional:"" help:"PEFT directory, run directory or checkpoint with adapters, for MODEL as their base, or DIR=WEIGHT: several add up, each times its weight." sep:"none"`
}

// Run writes the model that computes what the base does with the adapters.
func (c *mergeCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if namesGGUF(c.To) {
		return usageError{fmt.Errorf("merge: --to: found %s, wanted a directory: gputrain export writes a GGUF file of it", c.To)}
	}
	if err := c.layAll("merge", c.Adapter); err != nil {
		return err
	}
	m, err := c.stored(c.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	o, merged, base, err := c.prepare(m)
	if err != nil {
		return err
	}
	dtype := o.Like.DType()
	card := m.card("merge", c.To, c.Base, true)
	o.Companions[modelcard.File] = card.write
	if err := m.export(c.To, merged, model.Merge(m.Def, reading(ctx, m.Weights)), o, base); err != nil {
		return err
	}
	if len(merged.Params()) > len(model.BaseOf(m.Def).Params()) {
		fmt.Println("the head is a matrix of its own now (tie_word_embeddings: false): it and the embedding were one in the base, and are not the same any more")
	}
	if o.DType != "" {
		dtype = o.DType
	}
	defer card.tell(c.To)
	_, err = fmt.Printf("%s, %d parameters in %s, from %s with the adapters of %s to %s\n", merged.Kind(), model.Parameters(merged), strings.ToLower(dtype), base.Path("."), m.named(), c.To)
	return err
}

// prepare finds what is to be written and how, and says where the base may be another than that of the adapters.
func (c *mergeCmd) prepare(m *storedModel) (o model.ExportOptions, merged model.Definition, base *hub.Bundle, err error) {
	if _, err = model.Merged(m.Def); err != nil {
		return o, nil, nil, usageError{fmt.Errorf("merge: %s: %w", m.dir(), err)}
	}
	if base, err = m.Base(); err != nil {
		return o, nil, nil, &setup.ModelError{Err: c.advised(err)}
	}
	if merged, err = model.Merged(m.within(base)); err != nil {
		return o, nil, nil, err
	}
	if err := tellDoubt(m.Weights, true); err != nil {
		return o, nil, nil, err
	}
	if o, err = c.options("merge", m.Bundle, base); err != nil {
		return o, nil, nil, err
	}
	o.Like = m.Weights.Below()
	if o.Ends, err = setup.MergedEnds(m.Bundle, base, merged); err != nil {
		return o, nil, nil, &setup.ModelError{Err: err}
	}
	return o, merged, base, nil
}
