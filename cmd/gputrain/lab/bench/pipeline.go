package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

// The pipeline that is measured: the default model with twice its layers, cut in two, and microbatches of 1,024 tokens.
const (
	benchLayers       = 8
	benchRows         = 8
	benchMicrobatches = 8
	benchPipelineRuns = 3
)

// pipelineBench is that pipeline, and two independent models of half its layers on the same devices, which run at the same time and so show
// what the machine allows.
type pipelineBench struct {
	whole  *pipeline.State
	halves []*state.TrainState
	batch  data.Batch
	// Operations of a step, as model.FLOPsPerToken counts them.
	wholeWork, halvesWork float64
}

func newPipelineBench(ctx context.Context, devices []*gpu.Device, ahead int) (*pipelineBench, error) {
	b := &pipelineBench{}
	c, work, err := b.config(benchLayers)
	if err != nil {
		return nil, err
	}
	b.wholeWork = work
	b.batch = randomBatch(c.Batch*c.Microbatches, c.Sequence, c.Definition.Vocab())
	job, err := state.NewJob(c)
	if err != nil {
		return nil, err
	}
	built, err := job.Build()
	if err != nil {
		return nil, err
	}
	cut, err := partition.Even(built, len(devices))
	if err != nil {
		return nil, err
	}
	if b.whole, err = pipeline.Create(ctx, devices, pipeline.Config{State: c, Assignment: cut, Ahead: ahead}, nil); err != nil {
		return nil, err
	}
	for _, dev := range devices {
		c, work, err := b.config(benchLayers / len(devices))
		if err != nil {
			return b, err
		}
		half, err := state.Create(ctx, dev, c)
		if err != nil {
			return b, err
		}
		b.halves = append(b.halves, half)
		b.halvesWork += work
	}
	return b, nil
}

// config is the default run with so many layers, and the operations of a step.
func (b *pipelineBench) config(layers int) (state.Config, float64, error) {
	cfg := runfile.New()
	cfg.Model.Layers, cfg.Train.Batch = layers, benchRows
	p, err := setup.Plan(cfg, os.Stderr)
	if err != nil {
		return state.Config{}, 0, err
	}
	c := p.State
	c.Microbatches = benchMicrobatches
	perToken, err := model.FLOPsPerToken(c.Definition, c.Sequence)
	return c, perToken * float64(c.Batch*c.Microbatches*c.Sequence), err
}

func (b *pipelineBench) release() {
	if b.whole != nil {
		b.whole.Release()
	}
	for _, h := range b.halves {
		h.Release()
	}
}

// randomBatch has tokens that are all alike to a model.
func randomBatch(rows, sequence, vocab int) data.Batch {
	n := rows * sequence
	b := data.Batch{Tokens: make([]int32, n), Labels: make([]int32, n), Rows: rows, Count: n}
	key := prng.NewKey(1)
	for i := range n {
		b.Tokens[i] = int32(key.Bits32(uint64(i)) % uint32(vocab))
		b.Labels[i] = int32(key.Bits32(uint64(i+1)) % uint32(vocab))
	}
	return b
}

// stepWhole is the time of a step of the pipeline.
func (b *pipelineBench) stepWhole(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	_, err := b.whole.TrainStep(ctx, b.batch)
	return time.Since(start), err
}

// stepHalves is the time of a step of each of the halves, all at once.
func (b *pipelineBench) stepHalves(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := caught.Each(len(b.halves), len(b.halves), func(i int) error {
		_, err := b.halves[i].TrainStep(ctx, b.batch)
		if err == nil {
			_, err = b.halves[i].Drain(ctx)
		}
		return err
	})
	return time.Since(start), err
}

// benchPipeline reports the work a second of a pipeline of two stages on two devices of one adapter, as a ratio to that of two independent models of half
// the layers at the same time, and what links take of it.
func pipelineFigures(ctx context.Context, a gpu.Adapter, report func(Figure) error) error {
	var devices []*gpu.Device
	for range 2 {
		dev, err := gpu.Open(ctx, a, gpu.Options{})
		if err != nil {
			return err
		}
		defer dev.Release()
		devices = append(devices, dev)
	}
	for ahead := range 2 {
		if err := benchAhead(ctx, devices, ahead, report); err != nil {
			return err
		}
	}
	return nil
}

func benchAhead(ctx context.Context, devices []*gpu.Device, ahead int, report func(Figure) error) error {
	b, err := newPipelineBench(ctx, devices, ahead)
	if b != nil {
		defer b.release()
	}
	if err != nil {
		return err
	}
	var whole, halves []time.Duration
	shares := make([][]float64, len(pipelineShares))
	for i := range benchPipelineRuns + 1 {
		w, err := b.stepWhole(ctx)
		if err != nil {
			return err
		}
		h, err := b.stepHalves(ctx)
		if err != nil {
			return err
		}
		if i > 0 { // the first is for warming up
			whole, halves = append(whole, w), append(halves, h)
			for j, share := range pipelineShares {
				shares[j] = append(shares[j], 100*share.of(b.whole))
			}
		}
	}
	median := func(times []time.Duration) float64 {
		slices.Sort(times)
		return times[len(times)/2].Seconds()
	}
	rate, allowed := b.wholeWork/median(whole), b.halvesWork/median(halves)
	name := fmt.Sprintf("pipeline, 2 stages, %d microbatches, ahead %d", benchMicrobatches, ahead)
	err = report(Figure{
		Bench: name, Value: rate / 1e9, Unit: "GFLOP/s", Millis: median(whole) * 1e3, Ratio: rate / allowed, Of: fmt.Sprintf("the %.1f of two half models at once", allowed/1e9),
	})
	if err != nil {
		return err
	}
	for j, share := range pipelineShares {
		slices.Sort(shares[j])
		if err := report(Figure{Bench: name + ", " + share.name, Value: shares[j][len(shares[j])/2], Unit: "%"}); err != nil {
			return err
		}
	}
	return nil
}

// pipelineShares are shares of a step, or of what its links carried.
var pipelineShares = []struct {
	name string
	of   func(*pipeline.State) float64
}{
	{"transfer that did not lengthen the step", (*pipeline.State).OffPath},
	{"transfer beside compute", func(s *pipeline.State) float64 { return s.Use().Overlapped }},
	{"transfer that nobody stood still for", func(s *pipeline.State) float64 { return s.Use().Hidden }},
	{"transfer", func(s *pipeline.State) float64 { return s.Use().Transfer }},
	{"bubble", func(s *pipeline.State) float64 { return s.Use().Bubble }},
}
