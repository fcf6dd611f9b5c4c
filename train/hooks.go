package train

import "context"

// Hook is told what happens in a run. Hooks are called in the order of Config.Hooks, on the goroutine of the loop, between steps; an error
// from one ends the run with it. What a hook changes is its own responsibility.
type Hook interface {
	Event(ctx context.Context, e Event) error
}

// HookFunc is a function as a Hook.
type HookFunc func(ctx context.Context, e Event) error

// Event calls f.
func (f HookFunc) Event(ctx context.Context, e Event) error { return f(ctx, e) }

// Event is one thing that happened. The field that belongs to its kind is set.
type Event struct {
	Kind       EventKind
	Step       int64        // steps submitted so far
	Metrics    *Metrics     // Stepped: of a step up to two before Step, since metrics are read late
	Eval       *EvalMetrics // Evaluated
	Sample     *Sample      // Sampled
	Checkpoint string       // Saved: its directory
	State      State        // a *state.TrainState in a run on one device
}

// EventKind tells events apart.
type EventKind int

// The kinds, in the order in which a run first meets them.
const (
	Started   EventKind = iota // before the first step
	StepBegin                  // before every step
	Stepped                    // the metrics of a step have been read
	Evaluated
	Sampled
	Saved
)
