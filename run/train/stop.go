package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"gputrain/internal/system"
	"gputrain/optim"
)

// Sentinels that the errors of Run match.
var (
	ErrStopped  = errors.New("train: stopped")
	errDiverged = errors.New("train: diverged")
	ErrUsage    = errors.New("train: wrong usage") // a mistake of whoever has written the command, the run file or the program
)

// DivergedError says where a run lost its numbers.
type DivergedError struct {
	Step     int64       // the last step that was tried
	Skipped  int64       // steps in a row, up to it, whose update was left out
	Spikes   optim.Spike // which limits the last of them was beyond; 0: it was not finite
	Tensor   string      // the first bad tensor, "params/h.0.attn.c_attn.weight" or "grads/..."; "" when only the loss is bad
	Loss     float64
	GradNorm float64
}

// Error names the step and the tensor.
func (e *DivergedError) Error() string {
	if e.Spikes != 0 {
		return fmt.Sprintf("train: diverged: step %d: loss %v, gradient norm %v, %d updates in a row left out, the last for its %s: go on from an earlier checkpoint at a lower learning rate, or raise the spike limits or their patience",
			e.Step, e.Loss, e.GradNorm, e.Skipped, e.Spikes)
	}
	tensor := "the loss alone"
	if e.Tensor != "" {
		tensor = fmt.Sprintf("tensor %q", e.Tensor)
	}
	return fmt.Sprintf("train: diverged: step %d: loss %v, gradient norm %v, %d updates in a row left out; first not finite: %s; lower the learning rate, lengthen the warm-up or clip the gradient",
		e.Step, e.Loss, e.GradNorm, e.Skipped, tensor)
}

// Unwrap is ErrDiverged.
func (e *DivergedError) Unwrap() error { return errDiverged }

// TimeLimitError says that a run has had its time.
type TimeLimitError struct{ Limit time.Duration }

// Error gives the limit.
func (e *TimeLimitError) Error() string { return fmt.Sprintf("time limit of %v", e.Limit) }

// stopError is the cause of a wanted stop.
type stopError struct {
	cause  error
	before bool // before the loop, which saves what it has reached
}

func (e stopError) Error() string {
	text := "train: stopped: " + e.cause.Error()
	if e.before {
		text += "; no step has been made, so there was nothing to save"
	}
	return text
}

func (e stopError) Unwrap() []error { return []error{ErrStopped, e.cause} }

// stopRequested returns a stopError when ctx is over.
func stopRequested(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return stopError{cause: context.Cause(ctx)}
}

// stopOf tells whether err is how a wanted stop shows: it is ctx's end, or asks for one. Anything else is an error, also when ctx is over.
func stopOf(ctx context.Context, err error) error {
	if errors.Is(err, ErrStopped) {
		return err
	}
	if stop := stopRequested(ctx); stop != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return stop
	}
	return nil
}

// Stopping is err, or a wanted stop (see ErrStopped) where err is nothing but the end of ctx: for what is done around a Run, such as opening
// devices, that a signal may end too.
func Stopping(ctx context.Context, err error) error {
	if stopOf(ctx, err) == nil || errors.Is(err, ErrStopped) {
		return err
	}
	return stopError{cause: context.Cause(ctx), before: true} // the loop tells of its own stops
}

// SignalError is the cause of a stop that a signal has asked for.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "signal " + e.Signal.String() }

// Signals returns a context that ends at the first signal that a user, a terminal that closes, a service manager or a batch scheduler sends,
// with a *SignalError as its cause: a Run in any phase then finishes its step, saves and returns Stopped. It says so on w. A second signal ends
// the process at once, by exit(1); a hangup does not, as a closing terminal may send several. Call stop when the run is over. From the call on
// the process does not end because nobody reads its output any more.
func Signals(ctx context.Context, w io.Writer, exit func(code int)) (run context.Context, stop func()) {
	return StepSignals(ctx, w, exit, func() bool { return true })
}

// StepSignals is Signals where begun tells whether a step has begun, which is then finished.
func StepSignals(ctx context.Context, w io.Writer, exit func(code int), begun func() bool) (run context.Context, stop func()) {
	run, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 2)
	signal.Notify(received, StopSignals()...)
	if len(system.OutputSignals) > 0 { // a write to a pipe without a reader is then an error like any other
		signal.Notify(make(chan os.Signal, 1), system.OutputSignals...)
	}
	over := make(chan struct{})
	go func() {
		select {
		case s := <-received:
			cancel(&SignalError{s})
			does := "leaving before the first step"
			if begun() {
				does = "finishing the step and saving"
			}
			fmt.Fprintf(w, "%s: %s; once more to leave at once\n", s, does)
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

// StopSignals are those that stop a run, but for a hangup that nohup has said to ignore.
func StopSignals() []os.Signal {
	return slices.DeleteFunc(slices.Clone(system.StopSignals), func(s os.Signal) bool { return isHangup(s) && signal.Ignored(s) })
}

// isHangup tells the signal of a terminal that closes.
func isHangup(s os.Signal) bool { return slices.Contains(system.Hangups, s) }
