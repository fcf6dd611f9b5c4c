package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"gputrain/cmd/gputrain/listen"
	"gputrain/cmd/gputrain/serve"
	"gputrain/internal/caught"
	"gputrain/run/train"
)

type serveCmd struct {
	Runs []string `arg:"" optional:"" name:"RUN" help:"Run directories, or directories of run directories; by default runs/."`
	Port string   `help:"Port of the page; 0 takes a free one." default:"7070"`
	Host string   `help:"Name or address at which other machines may reach the page too; by default only this machine can." placeholder:"HOST"`
}

func (c *serveCmd) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	runs := c.Runs
	if len(runs) == 0 {
		runs = []string{"runs"}
	}
	for _, dir := range runs {
		if info, err := os.Stat(dir); err != nil {
			return usageError{fmt.Errorf("serve: run %q: %w", dir, err)}
		} else if !info.IsDir() {
			return usageError{fmt.Errorf("serve: run %q: found a file, wanted a run directory or a directory of them", dir)}
		}
	}
	server, err := serve.New(runs...)
	if err != nil {
		return err
	}
	if server.Runs() == 0 {
		fmt.Fprintln(os.Stderr, "no run here yet; the page shows runs as they begin")
	}
	listener, err := listen.Open(":"+c.Port, c.Host)
	if err != nil {
		return usageError{err}
	}
	announce(listener)
	return server.Serve(ctx, listener)
}

// serveFlags are those of a command that shows its own run.
type serveFlags struct {
	Serve string `help:"Show the run in a browser while it trains: an address of this machine, :0 for a free port." placeholder:"ADDR"`
	Host  string `help:"With --serve: name or address at which other machines may reach the page too." placeholder:"HOST"`
}

// start serves a run directory, if the command says so, until stop is called.
func (f *serveFlags) start(ctx context.Context, dir string) (stop func(), err error) {
	if f.Serve == "" {
		if f.Host != "" {
			return nil, usageError{fmt.Errorf("--host %s: wanted --serve with it", f.Host)}
		}
		return func() {}, nil
	}
	server, err := serve.New(dir)
	if err != nil {
		return nil, err
	}
	listener, err := listen.Open(f.Serve, f.Host)
	if err != nil {
		return nil, usageError{err}
	}
	announce(listener)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a run that was told to stop still saves
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := caught.Do(func() error { return server.Serve(ctx, listener) }); err != nil {
			tell(err) // the run goes on without its page
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

func announce(l *listen.Listener) {
	if l.Outside {
		fmt.Fprintf(os.Stderr, "warning: everybody who reaches %s can read these runs: settings, samples and reports\n", l.Addr())
	}
	fmt.Fprintf(os.Stderr, "live page at %s\n", l.URL)
}
