package train

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"gputrain/internal/system"
)

// SignalError is the cause of a stop that a signal has asked for.
type SignalError struct {
	Signal os.Signal
	Name   string // what the signal is called
}

func (e *SignalError) Error() string { return "signal " + e.Name }

// Signals returns a context that ends at the first signal that a user, a terminal that closes, a service manager or a batch scheduler sends,
// with a *SignalError as its cause: a Run in any phase then finishes its step, saves and returns Stopped. It says so on w. A second signal ends
// the process at once, by exit(1); a hangup does not, as a closing terminal may send several. Call stop when the run is over. From the call on
// the process does not end because nobody reads its output any more.
func Signals(ctx context.Context, w io.Writer, exit func(code int)) (run context.Context, stop func()) {
	return NamedSignals(ctx, w, exit, os.Signal.String, func() bool { return true })
}

// NamedSignals is Signals where signals have names of the caller's: that of a process to which another hands on what the user has sent is not its own.
// begun tells whether a step has begun, which is then finished.
func NamedSignals(ctx context.Context, w io.Writer, exit func(code int), name func(os.Signal) string, begun func() bool) (run context.Context, stop func()) {
	run, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 2)
	signal.Notify(received, wanted(system.StopSignals)...)
	if len(system.OutputSignals) > 0 { // a write to a pipe without a reader is then an error like any other
		signal.Notify(make(chan os.Signal, 1), system.OutputSignals...)
	}
	over := make(chan struct{})
	go func() {
		select {
		case s := <-received:
			cancel(&SignalError{s, name(s)})
			does := "leaving before the first step"
			if begun() {
				does = "finishing the step and saving"
			}
			fmt.Fprintf(w, "%s: %s; once more to leave at once\n", name(s), does)
		case <-over:
			return
		}
		for {
			select {
			case s := <-received:
				if !isHangup(s) {
					exit(1)
					return
				}
			case <-over:
				return
			}
		}
	}()
	return run, func() {
		signal.Stop(received)
		close(over)
		cancel(nil)
	}
}

// wanted leaves out a hangup that nohup has said to ignore.
func wanted(signals []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool { return isHangup(s) && signal.Ignored(s) })
}

// isHangup tells the signal of a terminal that closes.
func isHangup(s os.Signal) bool { return slices.Contains(system.Hangups, s) }
