package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

// Prediction is a step as gputrain plan --step computes it, at the speed of the adapter's copies and products.
type Prediction struct {
	gpu.Speed
	Seconds float64
	Work    []compile.Work
}

// Predict computes it for a device.
type Predict func(ctx context.Context, c state.Config, dev *gpu.Device) (Prediction, error)

// CardModel is a step of a model beside what was computed of it.
type CardModel struct {
	Name            string      `json:"name"`
	Set             []string    `json:"set"` // of a run file
	Parameters      int64       `json:"parameters"`
	Tokens          int         `json:"tokens"` // of a step
	Recompute       string      `json:"recompute"`
	Steps           int         `json:"steps"`        // that were timed
	Seconds         float64     `json:"step_seconds"` // the median
	TokensPerSecond float64     `json:"tokens_per_second"`
	Predicted       float64     `json:"predicted_seconds"`
	Ratio           float64     `json:"ratio"`
	Create          float64     `json:"create_seconds"` // of the state, with its kernels
	Dispatches      int         `json:"dispatches"`
	Submits         int         `json:"submits"`
	LongestSubmit   float64     `json:"longest_submit_seconds"` // expected, at the speed that a rehearsal has measured
	SubmitLimit     float64     `json:"submit_limit_seconds"`   // 0: none
	Planned         uint64      `json:"memory_planned_bytes"`
	Taken           uint64      `json:"memory_taken_bytes"`
	Loss            float64     `json:"loss"`              // of the last step, on random tokens
	Profiled        float64     `json:"profiled_seconds"`  // of a step whose passes are timed; 0: the adapter has no timestamps
	Operations      []operation `json:"operations"`        // of that step
	Missing         string      `json:"missing,omitempty"` // why operations are not known
}

// operation is what operations of a kind took in a step, and what was computed.
type operation struct {
	Name       string  `json:"name"`
	Seconds    float64 `json:"seconds"`
	Predicted  float64 `json:"predicted_seconds"`
	Ratio      float64 `json:"ratio"` // 0: nothing was computed
	Needed     float64 `json:"needed_operations"`
	Executed   float64 `json:"executed_operations"`
	Bytes      float64 `json:"bytes"`
	Dispatches int     `json:"dispatches"`
}

// updating is what an update is called among operations; a profile names its passes alone.
const updating = "update and sums"

// cardSteps are the most steps that are timed.
const cardSteps = 10

// settings are all of the run file's. A run file with adapters has model.from too.
func (c cardModel) settings() []string {
	set := append(slices.Clip(c.set), fmt.Sprintf("train.batch=%d", c.batch))
	if c.rank > 0 {
		set = append(set, fmt.Sprintf("lora.rank=%d", c.rank), "lora.target=all-linear", "model.base=bf16")
	}
	return set
}

// config is how a model is trained.
func (c cardModel) config() (st state.Config, err error) {
	rank := c.rank
	c.rank = 0
	cfg := runfile.New()
	for _, set := range append([]string{"data.text=none.txt"}, c.settings()...) {
		if err := cfg.Set(set); err != nil {
			return st, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return st, err
	}
	p, err := setup.Plan(cfg, io.Discard)
	if err != nil || rank == 0 {
		return p.State, err
	}
	st = p.State
	if st.Definition, err = model.WithLoRA(st.Definition, model.LoRA{Rank: rank, Target: []string{model.AllLinear}}); err != nil {
		return st, err
	}
	st.Frozen, st.FrozenDType = state.Frozen(st.Definition, nil), buffers.BF16
	return st, nil
}

// model measures steps of a model, with what passes are made of on another device, as timing them lengthens a step.
func (m *Meter) model(ctx context.Context, c cardModel) error {
	st, err := c.config()
	if err != nil {
		return err
	}
	out := CardModel{Name: c.name, Set: c.settings(), Parameters: model.Parameters(st.Definition), Tokens: st.Batch * st.Microbatches * st.Sequence, Operations: []operation{}}
	p, err := m.steps(ctx, st, &out)
	if errors.Is(err, gpu.ErrOutOfMemory) && c.batch > 1 {
		c.batch /= 2
		return m.model(ctx, c)
	}
	if err != nil {
		return err
	}
	st.Recompute = out.Recompute
	switch budget := m.budget(); {
	case !m.Adapter.Timestamps:
		out.Missing = "the adapter has no timestamps"
	case m.spent()+(out.Create+3*out.Seconds)/budget > 1.2:
		out.Missing = "the steps took this part's time"
	default:
		if err = m.operations(ctx, st, p, &out); err != nil {
			out.Missing = err.Error()
		}
	}
	return m.done(ctx, func(c *Card, _ *cardPart) { c.Models = append(c.Models, out) })
}

// budget is the seconds of the part.
func (m *Meter) budget() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.card.Parts[len(m.card.Parts)-1].Budget
}

// spent is the share of the part's time that has gone.
func (m *Meter) spent() float64 { return time.Since(m.begun).Seconds() / m.budget() }

// steps times steps for half of the part's time at most.
func (m *Meter) steps(ctx context.Context, st state.Config, out *CardModel) (p Prediction, err error) {
	dev, err := gpu.Open(ctx, m.Adapter, gpu.Options{Matrix: st.RoundProducts})
	if err != nil {
		return p, err
	}
	defer dev.Release()
	begun, before := time.Now(), dev.Counters().LiveBytes
	s, err := stepperOf(ctx, dev, st)
	if err != nil {
		return p, err
	}
	defer s.state.Release()
	out.Create, out.Recompute = time.Since(begun).Seconds(), s.state.Config().Recompute
	st.Recompute = out.Recompute
	if p, err = m.Predict(ctx, st, dev); err != nil {
		return p, err
	}
	if 6*p.Seconds > m.budget() {
		return p, fmt.Errorf("%w: a step is computed to take %.1f s", errBudget, p.Seconds)
	}
	for range 2 { // first what drivers compile at a kernel's first use, then the speed by which submits are cut
		if _, err := s.state.Rehearse(ctx, 1); err != nil {
			return p, err
		}
	}
	if err := s.step(ctx, dev, false); err != nil {
		return p, err
	}
	// As in training, the host prepares a step while the device is at one.
	took, steps := system.Stopwatch(), 0
	for counted := dev.Counters(); steps < cardSteps && (steps < 2 || m.spent() < 0.5); steps++ {
		if err := context.Cause(ctx); err != nil {
			return p, err
		}
		if _, err := s.state.TrainStep(ctx, s.tokens); err != nil {
			return p, err
		}
		now := dev.Counters()
		out.Dispatches, out.Submits = int(now.Dispatches-counted.Dispatches), int(now.Submits-counted.Submits)
		counted = now
	}
	last, err := s.state.Drain(ctx)
	if err != nil {
		return p, err
	}
	if len(last) == 0 || !last[len(last)-1].Finite {
		return p, errors.New("the loss or the gradient of a step is not finite")
	}
	out.Steps, out.Seconds = steps, took().Seconds()/float64(steps)
	out.TokensPerSecond = float64(s.tokens.Count) / out.Seconds
	out.Loss, out.Predicted, out.Ratio = last[len(last)-1].Loss, p.Seconds, out.Seconds/p.Seconds
	for _, submit := range s.state.Submits()[0] {
		out.LongestSubmit = max(out.LongestSubmit, submit.Takes.Seconds())
	}
	out.SubmitLimit = max(0, dev.SubmitLimit().Seconds())
	out.Planned, out.Taken = s.state.Memory()[0].Total(), dev.Counters().PeakBytes-before
	return p, nil
}

// operations times the passes of one step.
func (m *Meter) operations(ctx context.Context, st state.Config, p Prediction, out *CardModel) error {
	dev, err := gpu.Open(ctx, m.Adapter, gpu.Options{Profile: true, Matrix: st.RoundProducts})
	if err != nil {
		return err
	}
	defer dev.Release()
	s, err := stepperOf(ctx, dev, st)
	if err != nil {
		return err
	}
	defer s.state.Release()
	for i := range 2 { // the first compiles
		dev.Profile()
		if err := s.step(ctx, dev, i > 0); err != nil {
			return err
		}
	}
	out.Profiled = s.figure().Millis / 1e3
	took := map[string]float64{}
	for _, span := range dev.Profile() {
		took[cmp.Or(span.Operation, updating)] += (span.End - span.Begin).Seconds()
	}
	out.Operations = compared(took, predicted(p))
	return nil
}

// predicted is what operations of each kind do and take by computation. Those that are in another's kernel are that one's.
func predicted(p Prediction) map[string]operation {
	name := func(w compile.Work) string {
		switch {
		case w.Kind == "update" || w.Kind == "gradients":
			return updating
		case w.Group != compile.Rest:
			return w.Group
		}
		return w.Kind
	}
	out := map[string]operation{}
	for _, w := range p.Work {
		within, follows := strings.CutPrefix(w.Kernels, "in ")
		at := slices.IndexFunc(p.Work, func(o compile.Work) bool { return follows && o.Kernels == within })
		of := w
		if at >= 0 {
			of = p.Work[at]
		}
		o := out[name(of)]
		o.Predicted += p.Speed.Seconds(w.Work)
		o.Needed, o.Executed, o.Bytes, o.Dispatches = o.Needed+w.Needed, o.Executed+w.FLOPs, o.Bytes+w.Bytes, o.Dispatches+w.Dispatches
		out[name(of)] = o
	}
	return out
}

// compared puts both together, the longest first.
func compared(took map[string]float64, predicted map[string]operation) (out []operation) {
	for name, seconds := range took {
		o := predicted[name]
		if o.Name, o.Seconds = name, seconds; o.Predicted > 0 {
			o.Ratio = o.Seconds / o.Predicted
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b operation) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	})
	return out
}
