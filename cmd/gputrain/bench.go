package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
	"gputrain/internal/suggest"
)

type benchCmd struct {
	Name    string `arg:"" optional:"" help:"Only one: copy, matmul, kron, train, pipeline, texels, lora, decode, or an optimizer; none = all but lora and decode."`
	Adapter string `help:"Index, part of a name, backend:part, or all." placeholder:"SEL"`
	JSON    bool   `help:"One JSON object a figure on standard output."`

	Card     bool   `help:"Measure the adapter whole, in ten minutes at most, and write a page and a JSON file: checks, speeds, steps of models beside what is computed, memory, the largest gaps."`
	Out      string `help:"With --card: folder of the two files; by default one that is named for the adapter." type:"path" placeholder:"DIR"`
	Progress string `help:"With --card: auto, bar, plain, json or none." default:"auto" enum:"auto,bar,plain,json,none"`
}

func (c *benchCmd) Run(ctx context.Context) error {
	if c.Card {
		return c.runCard(ctx)
	}
	if c.Out != "" {
		return usageError{errors.New("bench: --out: found it without --card, wanted both")}
	}
	names := bench.Names()
	if c.Name != "" && !slices.Contains(names, c.Name) {
		return usageError{fmt.Errorf("bench: found %q, wanted one of %s%s", c.Name, strings.Join(names, ", "), suggest.DidYouMean(c.Name, names))}
	}
	adapters, err := chosenAdapters(c.Adapter)
	if err != nil {
		return err
	}
	for _, a := range adapters {
		if err := c.measure(ctx, a); err != nil {
			return fmt.Errorf("bench: %s: %w", a, err)
		}
	}
	return nil
}

func (c *benchCmd) measure(ctx context.Context, a gpu.Adapter) error {
	dev, err := gpu.Open(ctx, a, gpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Release()
	if err := sayTaken(a, c.JSON); err != nil {
		return err
	}
	return bench.Adapter(ctx, a, dev, c.Name, c.print)
}

func (c *benchCmd) print(f bench.Figure) error {
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	line := fmt.Sprintf("  %-34s %9.1f %s", f.Bench, f.Value, f.Unit)
	if f.Millis > 0 {
		line += fmt.Sprintf(", %.1f ms", f.Millis)
	}
	if f.Dispatches > 0 {
		line += fmt.Sprintf(", %d dispatches", f.Dispatches)
	}
	if f.Bytes > 0 {
		line += fmt.Sprintf(", %s moved", size(f.Bytes))
	}
	if f.Of != "" {
		line += fmt.Sprintf(", %.2f of %s", f.Ratio, f.Of)
	}
	_, err := fmt.Println(line)
	return err
}
