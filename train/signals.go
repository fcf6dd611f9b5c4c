package train

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Signals returns a context that ends at the first SIGINT, SIGTERM or (where there is one) SIGUSR1, with the signal as its cause: a Run in
// any phase then finishes its step, saves and returns Stopped. It says so on w. A second signal ends the process at once, by exit(1).
// Call stop when the run is over.
func Signals(ctx context.Context, w io.Writer, exit func(code int)) (run context.Context, stop func()) {
	run, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 2)
	signal.Notify(received, stopSignals...)
	over := make(chan struct{})
	go func() {
		select {
		case s := <-received:
			fmt.Fprintf(w, "%v: finishing the step and saving; once more to leave at once\n", s)
			cancel(fmt.Errorf("signal %v", s))
		case <-over:
			return
		}
		select {
		case <-received:
			exit(1)
		case <-over:
		}
	}()
	return run, func() {
		signal.Stop(received)
		close(over)
		cancel(nil)
	}
}
