//go:build window

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"path/filepath"

	"gputrain/cmd/gputrain/window"
	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

type windowFlags struct {
	Window bool `help:"Show the run in a window while it trains, drawn by the adapter that trains; closing the window leaves the run alone."`
}

// around trains with a window, if the command says so. Window systems want the
// first goroutine, so the run gets another one.
func (f windowFlags) around(run train.Config, body func(train.Config) error) error {
	if !f.Window {
		return body(run)
	}
	view, err := window.Open(window.NewBoard(run.Title, run.Steps))
	if err != nil {
		return err
	}
	run.Hooks = append(run.Hooks, window.NewTraining(view, run.Dir))
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = caught.Do(func() error { return body(run) })
	}()
	view.Loop(done)
	view.Close()
	<-done
	return err
}

type windowCommands struct {
	Watch watchCmd `cmd:"" help:"Show a run of another process in a window, from its files."`
}

type watchCmd struct {
	RunDir  string `arg:"" name:"RUN" help:"Run directory." type:"existingdir"`
	Adapter string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
}

func (c *watchCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	adapter, err := selectAdapter(c.Adapter)
	if err != nil {
		return err
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Release()
	view, err := window.Open(window.NewBoard(filepath.Base(c.RunDir), c.steps()))
	if err != nil {
		return err
	}
	defer view.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = caught.Do(func() error { return view.Watch(ctx, dev, c.RunDir) })
	}()
	view.Loop(done)
	cancel()
	<-done
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// steps is how many the run is to make, as its own copy of the run file says;
// 0 where there is none yet.
func (c *watchCmd) steps() int64 {
	cfg, err := runfile.OfRun(c.RunDir)
	if err != nil {
		slog.Info(fmt.Sprintf("watch: the number of steps is not known: %v", err))
		return 0
	}
	return cfg.Train.Steps
}
