package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/system"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

// trainVariant is an optimizer that takes the default run's training step.
type trainVariant struct {
	name       string // "adamw"
	optimizer  string
	parameters string // JSON; "" = the defaults
}

// stepper makes steps on random tokens.
type stepper struct {
	state  *state.TrainState
	tokens data.Batch
	times  []time.Duration
	// What the timed steps have taken together.
	dispatches, submits, bytes uint64
}

func newStepper(ctx context.Context, dev *gpu.Device, v trainVariant, batch int) (*stepper, error) {
	cfg := runfile.New()
	def, _, err := setup.Definition(cfg, os.Stderr)
	if err != nil {
		return nil, err
	}
	optimizer, err := cfg.OptimizerConfig()
	if err != nil {
		return nil, err
	}
	optimizer.Name, optimizer.Parameters = v.optimizer, nil
	if v.parameters != "" {
		optimizer.Parameters = []byte(v.parameters)
	}
	sequence := cfg.Model.Context
	return stepperOf(ctx, dev, state.Config{Definition: def, Optimizer: optimizer, Batch: batch, Sequence: sequence, Seed: 1})
}

// stepperOf is one of any configuration.
func stepperOf(ctx context.Context, dev *gpu.Device, c state.Config) (s *stepper, err error) {
	j, err := state.NewJob(c)
	if err != nil {
		return nil, err
	}
	c = j.Config
	s = &stepper{tokens: randomBatch(c.Batch*c.Microbatches, c.Sequence, c.Definition.Vocab())}
	if s.state, err = state.Create(ctx, dev, c); err == nil && c.RoundProducts {
		s.state.SetScale(1 << state.FirstScale)
	}
	return s, err
}

// step makes one step alone, and keeps its time where it is told to.
func (s *stepper) step(ctx context.Context, dev *gpu.Device, timed bool) error {
	before, took := dev.Counters(), system.Stopwatch()
	if _, err := s.state.TrainStep(ctx, s.tokens); err != nil {
		return err
	}
	if err := dev.Wait(ctx); err != nil || !timed {
		return err
	}
	s.times = append(s.times, took())
	after := dev.Counters()
	s.dispatches += after.Dispatches - before.Dispatches
	s.submits += after.Submits - before.Submits
	s.bytes += after.WrittenBytes - before.WrittenBytes + after.ReadBytes - before.ReadBytes
	return nil
}

// figure is that of a training step, the median of many.
func (s *stepper) figure() Figure {
	n := uint64(len(s.times))
	slices.Sort(s.times)
	step := s.times[n/2].Seconds()
	return Figure{Value: float64(s.tokens.Count) / step, Unit: "tokens/s", Millis: step * 1e3, Dispatches: int(s.dispatches / n), Bytes: s.bytes / n}
}

// measureTraining runs steps of the default model on random tokens with each of the variants, in turn, so that what disturbs the machine
// disturbs all alike.
func measureTraining(ctx context.Context, dev *gpu.Device, variants []trainVariant, batch, warm, steps int) ([]Figure, error) {
	var all []*stepper
	defer func() {
		for _, s := range all {
			s.state.Release()
		}
	}()
	for _, v := range variants {
		s, err := newStepper(ctx, dev, v, batch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		all = append(all, s)
	}
	for i := range warm + steps {
		for _, s := range all {
			if err := s.step(ctx, dev, i >= warm); err != nil {
				return nil, err
			}
		}
	}
	var figures []Figure
	for i, s := range all {
		if _, err := s.state.Drain(ctx); err != nil {
			return nil, err
		}
		f := s.figure()
		f.Bench = variants[i].name
		figures = append(figures, f)
	}
	return figures, nil
}

// torchBatch is the batch of torch_gpt.py, 1,024 tokens; largeBatch has eight times as many.
const torchBatch, largeBatch = 8, 64

// benchTraining reports the training step with AdamW, as a ratio to PyTorch's on the processor of this machine where Python has it, and with
// other optimizers as ratios to that.
func trainingFigures(ctx context.Context, dev *gpu.Device, report func(Figure) error) error {
	for _, size := range []struct{ batch, warm, steps int }{{torchBatch, 3, 15}, {largeBatch, 2, 3}} {
		figures, err := measureTraining(ctx, dev, trainVariants, size.batch, size.warm, size.steps)
		if err != nil {
			return err
		}
		figures = append(figures, annealed(figures[1], figures[2]))
		for i, f := range figures {
			f.Bench = fmt.Sprintf("train %s, %d tokens", f.Bench, size.batch*runfile.New().Model.Context)
			switch {
			case i > 0:
				f.Ratio, f.Of = f.Millis/figures[0].Millis, "adamw's step"
			case size.batch == torchBatch:
				peer, err := torchTokensPerSecond(ctx)
				if err != nil {
					return err
				}
				if peer > 0 {
					f.Ratio, f.Of = f.Value/peer, fmt.Sprintf("PyTorch's %.0f on the processor", peer)
				}
			}
			if err := report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// tuningFigures are steps of adapters, without and with matrix units.
func tuningFigures(ctx context.Context, a gpu.Adapter, report func(Figure) error) error {
	for _, m := range tunedModels {
		all := []cardModel{m}
		if compile.UnitsOf(a.Limits) != "" {
			all = append(all, m.inF16())
		}
		for _, m := range all {
			f, err := m.steps(ctx, a)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			if err := report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps is the median of a model's steps, of which there are more where they are short.
func (c cardModel) steps(ctx context.Context, a gpu.Adapter) (f Figure, err error) {
	st, err := c.config()
	if err != nil {
		return f, err
	}
	dev, err := gpu.Open(ctx, a, gpu.Options{Matrix: st.RoundProducts})
	if err != nil {
		return f, err
	}
	defer dev.Release()
	s, err := stepperOf(ctx, dev, st)
	if err != nil {
		return f, err
	}
	defer s.state.Release()
	took := system.Stopwatch()
	for i := 0; i < 2 || took() < 5*time.Second && i < 30; i++ {
		if err := s.step(ctx, dev, i > 0); err != nil {
			return f, err
		}
	}
	if _, err := s.state.Drain(ctx); err != nil {
		return f, err
	}
	f = s.figure()
	f.Bench = fmt.Sprintf("%s, %d tokens", c.name, s.tokens.Count)
	return f, nil
}

// trainVariants are AdamW, which the others are held to, and Quad: with a refresh in every update, and with none in the steps that are timed.
var trainVariants = []trainVariant{
	{name: "adamw", optimizer: "adamw"},
	{name: "quad", optimizer: "quad", parameters: `{"refresh": {"every": 1}}`},
	{name: "quad applied", optimizer: "quad", parameters: `{"refresh": {"every": 1000000}}`},
}

// refreshed is the share of updates that refresh where Quad's cadence is annealed, once it has settled (kron.DefaultCadence).
const refreshed = 0.03

// annealed is what a step takes on average where that share of the updates refreshes.
func annealed(each, none Figure) Figure {
	f := none
	f.Bench, f.Millis = fmt.Sprintf("quad %.0f %%", 100*refreshed), refreshed*each.Millis+(1-refreshed)*none.Millis
	f.Value = each.Value * each.Millis / f.Millis
	return f
}

//go:embed torch_gpt.py
var torchProgram string

// torchTokensPerSecond trains the default run's model with PyTorch on the
// processor; 0 where no Python here has PyTorch.
func torchTokensPerSecond(ctx context.Context) (float64, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import torch").Run() != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, python, "-c", torchProgram).Output()
		if err != nil {
			return 0, fmt.Errorf("bench: PyTorch: %w", err)
		}
		return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	}
	return 0, nil
}
