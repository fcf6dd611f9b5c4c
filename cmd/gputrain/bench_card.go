package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/system"
	"gputrain/run/train"
	"gputrain/state"
)

// runCard measures a card whole and writes its page.
func (c *benchCmd) runCard(ctx context.Context) error {
	if c.Name != "" || c.JSON {
		return usageError{errors.New("bench: --card: found it with one figure's name or --json, wanted it alone: it measures all, and writes JSON to a file")}
	}
	a, err := selectAdapter(c.Adapter)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	scale := bench.FullScale()
	if !a.Hardware() {
		scale = bench.SmallScale()
	}
	ctx, stop := stopping(ctx)
	defer stop()
	return c.card(ctx, a, scale, program, os.Stderr, cmp.Or(c.Out, bench.CardFolder(a)))
}

// stopping returns a context that the first signal to stop ends.
func stopping(ctx context.Context) (run context.Context, stop func()) {
	run, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	signal.Notify(received, train.StopSignals()...)
	go func() {
		select {
		case s := <-received:
			cancel(&train.SignalError{Signal: s})
		case <-run.Done():
		}
	}()
	return run, func() { signal.Stop(received); cancel(nil) }
}

func (c *benchCmd) card(ctx context.Context, a gpu.Adapter, scale bench.Scale, program string, told io.Writer, dir string) error {
	if err := system.MkdirAll(dir); err != nil {
		return usageError{fmt.Errorf("bench: --out: %w", err)}
	}
	progress, err := train.NewProgress(c.Progress, told, 5*time.Second)
	if err != nil {
		return err
	}
	progress.Line(fmt.Sprintf("measuring %s, %s scale, at most %s; the page is in %s after each part", a, scale.Name, scale.Limit(), dir))
	m := bench.Meter{Scale: scale, Adapter: a, Program: program, Progress: progress, Predict: predictor(), Save: func(card bench.Card) error { return card.Write(dir) }}
	card, err := m.Run(ctx)
	progress.Close()
	if err != nil {
		return err
	}
	for i, g := range card.Gaps[:min(3, len(card.Gaps))] {
		fmt.Printf("gap %d: %s\n", i+1, g.What)
	}
	fmt.Printf("page in %s, figures in %s\n", filepath.Join(dir, bench.CardPage), filepath.Join(dir, bench.CardJSON))
	if ctx.Err() != nil {
		return fmt.Errorf("bench: %w: %w; the page has what was measured", train.ErrStopped, context.Cause(ctx))
	}
	return card.Err()
}

// predictor computes steps as plan --step does, at the speed of the adapter, which is measured once.
func predictor() bench.Predict {
	var on card
	return func(ctx context.Context, st state.Config, dev *gpu.Device) (p bench.Prediction, err error) {
		if on.FLOPS == 0 { // on a device of its own: that of a model tells what the model takes
			other, err := gpu.Open(ctx, dev.Adapter(), gpu.Options{Matrix: compile.UnitsOf(dev.Adapter().Limits) != ""})
			if err != nil {
				return p, err
			}
			defer other.Release()
			if on, err = measuredOn(ctx, other); err != nil {
				return p, err
			}
		}
		a := dev.Adapter()
		a.Limits = dev.Limits()
		step, err := stepOf(ctx, st, a, dev.SubmitLimit(), []card{on})
		if err != nil {
			return p, err
		}
		p.Speed, p.Seconds = on.Speed, step.Cards[0].Seconds
		for _, w := range step.Work {
			p.Work = append(p.Work, w.Work)
		}
		return p, nil
	}
}
