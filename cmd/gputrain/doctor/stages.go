package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/state"
)

// stagedModel is a modelRun on the stages of a pipeline, with the passes, schedule and updates of a run.
type stagedModel struct {
	ctx   context.Context
	state *pipeline.State
	scale float32 // of the loss
}

func newStagedModel(ctx context.Context, devices []*gpu.Device, m *modelCase) (*stagedModel, error) {
	optimizer, err := m.optimizer()
	if err != nil {
		return nil, err
	}
	micro := max(1, m.micro)
	s, err := onStages(ctx, devices, slices.Concat(m.initial, m.frozen), state.Config{
		Definition: m.def, Optimizer: optimizer, Batch: m.Batch / micro, Microbatches: micro, Sequence: m.SeqLen, Storage: m.storage, RoundProducts: m.rounds, Objective: m.learned,
	})
	if err != nil {
		return nil, err
	}
	s.scale = m.scale()
	s.state.SetScale(float64(s.scale))
	return s, nil
}

// onStages makes a model with a stage on each of the devices.
func onStages(ctx context.Context, devices []*gpu.Device, params []buffers.Host, c state.Config) (*stagedModel, error) {
	c.Sampling = model.HeadOf(c.Definition).Kind == ""
	job, err := state.NewJob(c)
	if err != nil {
		return nil, err
	}
	built, err := job.Build()
	if err != nil {
		return nil, err
	}
	assignment, err := partition.Even(built, len(devices))
	if err != nil {
		return nil, err
	}
	s, err := pipeline.Create(ctx, devices, pipeline.Config{State: c, Assignment: assignment}, params)
	if err != nil {
		return nil, err
	}
	return &stagedModel{ctx, s, 1}, nil
}

// logits takes each row in token by token.
func (s *stagedModel) logits(tokens []int32) ([]float32, error) {
	var all []float32
	for row := range slices.Chunk(tokens, s.state.Config().Sequence) {
		some, err := s.logitsOf(row)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (s *stagedModel) logitsOf(text []int32) (all []float32, err error) {
	for i, token := range text {
		var some []float32
		if i == 0 {
			some, err = s.state.Logits(s.ctx, text[:1])
		} else {
			some, err = s.state.Decode(s.ctx, token)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// train makes an update.
func (s *stagedModel) train(b data.Batch) (m state.Metrics, err error) {
	c := s.state.Config()
	b.Rows = c.Batch * max(1, c.Microbatches)
	made, err := s.state.TrainStep(s.ctx, b)
	if err != nil {
		return m, err
	}
	rest, err := s.state.Drain(s.ctx)
	if made = append(made, rest...); err == nil && len(made) != 1 {
		err = fmt.Errorf("found the metrics of %d steps, wanted those of one", len(made))
	}
	if err != nil {
		return m, err
	}
	return made[0], nil
}

func (s *stagedModel) learn(b data.Batch) (map[string][]float32, error) {
	m, err := s.train(b)
	if err != nil {
		return nil, err
	}
	found := map[string][]float32{"loss": {float32(m.Loss)}}
	if m.Experts != nil {
		found[balanceFigure] = []float32{float32(m.Balance)}
	}
	for name, mean := range s.state.Config().Objective.Row().Figures(m.Means) {
		found[name] = []float32{float32(mean)}
	}
	return found, nil
}

func (s *stagedModel) gradients() ([]buffers.Host, error) {
	_, grads := s.state.Trees()
	all, err := downloaded(s.ctx, grads)
	return unscaled(all, s.scale), err
}

func (s *stagedModel) params() ([]buffers.Host, error) {
	params, _ := s.state.Trees()
	return downloaded(s.ctx, params)
}

func (s *stagedModel) release() { s.state.Release() }

// downloaded are the leaves of all trees.
func downloaded(ctx context.Context, trees []*buffers.Tree) (all []buffers.Host, err error) {
	for _, tree := range buffers.Given(trees...) {
		some, err := tree.Download(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b buffers.Host) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// onStages compares what a step on stages computes, and the logits of each document as a text of its own.
func (p *packedCase) onStages(ctx context.Context, devices []*gpu.Device, c *goldenCase, names []string) (*comparison, error) {
	run, err := onStages(ctx, devices, p.initial, state.Config{
		Definition: p.def, Optimizer: optim.Config{Name: "sgd"}, Batch: p.Batch, Sequence: p.SeqLen, Documents: true,
	})
	if err != nil {
		return nil, err
	}
	defer run.release()
	found := map[string][]float32{}
	for from := 0; from < len(p.tokens); {
		to := from + 1
		for to < len(p.tokens) && p.positions[to] > 0 {
			to++
		}
		some, err := run.logitsOf(p.tokens[from:to])
		if err != nil {
			return nil, err
		}
		found["logits"] = append(found["logits"], some...)
		from = to
	}
	m, err := run.train(data.Batch{Tokens: p.tokens, Labels: p.labels, Positions: p.positions})
	if err != nil {
		return nil, err
	}
	found["loss"] = []float32{float32(m.Loss)}
	grads, err := run.gradients()
	if err != nil {
		return nil, err
	}
	for _, h := range grads {
		found[h.Path] = h.Data
	}
	return p.compare(c, names, found)
}
