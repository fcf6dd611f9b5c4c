package state

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// Job is a Config once it has been checked, with every value that was left out: what is trained, made once. Its methods say what follows from it.
type Job struct{ Config }

// NewJob checks a configuration, and fills in what it leaves out but for parameters of the optimizer.
func NewJob(c Config) (Job, error) {
	j := Job{c}.complete()
	return j, j.check()
}

// complete fills in what follows from a definition, which the directory of a checkpoint may give late.
func (j Job) complete() Job {
	if j.Microbatches == 0 {
		j.Microbatches = 1
	}
	j.Objective.Parted = j.Objective.Row().Whole && j.Microbatches > 1
	if j.Accumulation == "" {
		j.Accumulation = AccumulateTree
	}
	if j.Sequence == 0 && j.Definition != nil {
		j.Sequence = j.Definition.Context()
	}
	j.Frozen = Frozen(j.Definition, j.Frozen)
	if j.Recompute == "" {
		j.Recompute = model.RecomputeNone
	}
	if j.FS == nil {
		j.FS = checkpoint.OS
	}
	if j.PieceBytes == 0 {
		j.PieceBytes = stagingBytes
	}
	if j.Progress == nil {
		j.Progress = func(string, int, int) {}
	}
	return j
}

// check reports the first value that cannot be meant.
func (j Job) check() error {
	switch {
	case j.Definition == nil:
		return errors.New("state: config: definition: none")
	case j.Definition.Vocab() == 0:
		return fmt.Errorf("state: config: definition: %s has no tokens, want a language model", j.Definition.Kind())
	case j.Batch < 1:
		return fmt.Errorf("state: config: batch: %d, want at least 1", j.Batch)
	case j.Microbatches < 1:
		return fmt.Errorf("state: config: microbatches: %d, want at least 1", j.Microbatches)
	case !slices.Contains(accumulations, j.Accumulation):
		return fmt.Errorf("state: config: accumulation: found %q, wanted one of %s%s", j.Accumulation, strings.Join(accumulations, ", "), suggest.DidYouMean(j.Accumulation, accumulations))
	case j.Sequence < 1 || j.Sequence > j.Definition.Context():
		return fmt.Errorf("state: config: sequence: %d, want 1 to the context %d", j.Sequence, j.Definition.Context())
	case j.Evaluation < 0:
		return fmt.Errorf("state: config: evaluation: %d sequences, want at least 0", j.Evaluation)
	case j.Rows < 0 || j.Blocks < 0 || j.Blocks > 0 && j.Blocks < j.Paging().Entries:
		return fmt.Errorf("state: config: rows: %d with %d blocks, want at least 0, and blocks for one row, %d", j.Rows, j.Blocks, j.Paging().Entries)
	case j.Optimizer.Options.AccumulationSteps > 1:
		return fmt.Errorf("state: config: optimizer: accumulation_steps: %d: use microbatches here, which weigh by tokens", j.Optimizer.Options.AccumulationSteps)
	}
	if err := cmp.Or(j.Objective.Validate(), j.Objective.Row().Check(j.Batch, j.Evaluation, j.Documents)); err != nil {
		return fmt.Errorf("state: config: %w", err)
	}
	if a := j.Objective.Row().Ahead; a != nil && a.Mismatched && j.Batch*j.Microbatches < 2 {
		return fmt.Errorf("state: config: preference: found updates of one row, wanted two or more: %s compares each with the one before it", j.Objective.Loss)
	}
	_, replicas := j.replicas()
	if replicas > 1 && j.Reducer == nil {
		return fmt.Errorf("state: config: reducer: found none for %d replicas, wanted one: cluster.NewReducer makes it", replicas)
	}
	if replicas > 1 && j.Accumulation != AccumulateTree {
		return fmt.Errorf("state: config: accumulation: found %s with %d replicas, wanted %s: sums in sequence would depend on their number", j.Accumulation, replicas, AccumulateTree)
	}
	if _, err := model.ConfigJSON(j.Definition, "F32"); err != nil { // a checkpoint of it could not be read
		return fmt.Errorf("state: config: definition: %w", err)
	}
	if err := j.checkFrozen(); err != nil {
		return fmt.Errorf("state: config: %w", err)
	}
	if j.Storage != buffers.F32 && j.Storage != buffers.BF16 {
		return fmt.Errorf("state: config: storage: found %v, wanted %v or %v", j.Storage, buffers.F32, buffers.BF16)
	}
	if known := append([]string{RecomputeAuto}, model.Recomputes...); !slices.Contains(known, j.Recompute) {
		return fmt.Errorf("state: config: recompute: %q, want one of %s%s", j.Recompute, strings.Join(known, ", "), suggest.DidYouMean(j.Recompute, known))
	}
	_, err := j.Transform()
	return err
}

// RecomputeAuto is the first of model.Recomputes that fits a device. Where there is none to fit, everything is kept.
const RecomputeAuto = "auto"

// Choices are what a job may stand for: itself, or with RecomputeAuto one for each of model.Recomputes, in their order. With rows whose blocks are left open,
// all of these with those for all rows come first, and behind them with fewer.
func (j Job) Choices() (out []Job) {
	recomputes := []string{j.Recompute}
	if j.Recompute == RecomputeAuto {
		recomputes = model.Recomputes
	}
	for _, j := range j.Pools() {
		for _, j.Recompute = range recomputes {
			out = append(out, j)
		}
	}
	return out
}

// Pools are the same job with each of the pools of blocks that its rows may have: as many as all need, and parts of them.
func (j Job) Pools() []Job {
	if j.Blocks > 0 || j.Rows == 0 {
		return []Job{j}
	}
	var out []Job
	p := j.Paging()
	for j.Blocks = p.Blocks; j.Blocks >= p.Entries && len(out) < 4; j.Blocks /= 2 {
		out = append(out, j)
	}
	return out
}

// Transform is the optimizer with what a training state needs of it.
func (j Job) Transform() (optim.Transform, error) {
	o := j.Optimizer
	o.Options.SkipNonFinite, o.Options.MeasureNorm = true, true
	t, err := o.Build()
	if err != nil {
		return t, err
	}
	if j.RoundProducts {
		t = optim.Unscale(t)
	}
	t = optim.GuardUpdates(optim.Guard{Losses: j.losses(), Update: j.MeasureUpdates}, t)
	if len(j.Frozen) == 0 {
		return t, nil
	}
	_, frozen := j.Divide()
	return optim.Freeze(frozen, t), nil
}

// count checks a batch, so that a wrong one is refused before anything is submitted, and counts what the loss is divided by.
func (j Job) count(b data.Batch) (n model.Counts, err error) {
	share := j.Share()
	rows, seq := j.Batch*share.Count, j.Sequence
	if b.Rows != rows || len(b.Tokens) != rows*seq || len(b.Labels) != rows*seq {
		return n, fmt.Errorf("batch: %d rows, %d tokens, %d labels, want %d rows of %d tokens (batch %d x %d microbatches)",
			b.Rows, len(b.Tokens), len(b.Labels), rows, seq, j.Batch, share.Count)
	}
	if b.Positions != nil && !j.Documents {
		return n, errors.New("batch: positions of documents: found some, want none without Config.Documents (or data.Layout.Together)")
	}
	if b.Positions != nil && len(b.Positions) != rows*seq {
		return n, fmt.Errorf("batch: %d positions of documents, want %d", len(b.Positions), rows*seq)
	}
	wanted := j.Objective.Beside(j.Definition, seq, false)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if found, each := len(b.Beside[name]), wanted[name]; found != rows*each {
			return n, fmt.Errorf("batch: %s: found %d numbers beside the rows, wanted %d: %s of this network reads %d a row", name, found, rows*each, j.Objective.Loss, each)
		}
	}
	vocab, labels := int32(j.Definition.Vocab()), int32(model.Labels(j.Definition))
	for i, label := range b.Labels {
		if token := b.Tokens[i]; token < 0 || token >= vocab {
			return n, fmt.Errorf("batch: row %d: token %d: found %d, wanted 0 to %d", i/seq, i%seq, token, vocab-1)
		}
		if label == graph.IgnoreLabel {
			continue
		}
		if label < 0 || label >= labels {
			return n, fmt.Errorf("batch: row %d: label %d: found %d, wanted 0 to %d, or %d for one that does not count", i/seq, i%seq, label, labels-1, graph.IgnoreLabel)
		}
	}
	if err := model.CheckEnds(j.Definition, rowsOf(b)); err != nil {
		return n, err
	}
	in := j.Objective.Inputs(rowsOf(b))
	if in.Lacking == nil && in.Counts.Of == 0 && !j.joined() {
		return n, errNoLabels
	}
	if a := j.Objective.Row().Ahead; a != nil && in.Lacking == nil && !j.joined() {
		_, in.Lacking = a.Rows(rowsOf(b), nil)
	}
	return in.Counts, in.Lacking
}

var errNoLabels = errors.New("batch: 0 labels count in the loss")

// dropoutKey is what dropout draws with in a microbatch of the update that follows step.
func (j Job) dropoutKey(step int64, micro int) prng.Key {
	return prng.NewKey(j.Seed).FoldIn(dropoutStream).FoldIn(uint32(step)).FoldIn(uint32(micro))
}

// dropoutStream keeps the random numbers of dropout apart from all others of a run.
const dropoutStream = 0xd20907

// Build is the model as an update computes it, a microbatch at a time.
func (j Job) Build() (*model.Built, error) {
	return j.Definition.Build(j.Batch, j.Sequence, model.Options{Loss: true, Training: true, Documents: j.Documents, Objective: j.Objective})
}

// trainingGraph is the graph of one microbatch, forward and backward.
type trainingGraph struct {
	Graph     *graph.Graph
	Forward   int              // nodes of the forward pass, which come first
	LossSum   *graph.Value     // the sum of the losses
	Sums      *graph.Value     // of the objective, and behind them those of routers; nil where there are none
	Gradients []compile.Target // of the parameters that are trained, in the order of the definition
}

// Training builds the model and its backward pass for the parameters that are trained: what only frozen ones would need is not computed. part is
// the part of each parameter where the model is cut; nil: it is not.
func (j Job) Training(part map[string]int) (t trainingGraph, err error) {
	built, err := j.Build()
	if err != nil {
		return t, err
	}
	sums := built.Sums
	if built.Routed != nil {
		flat := built.Graph.Reshape(built.Routed, model.RoutingOf(j.Definition).Sums())
		if sums = flat; built.Sums != nil {
			sums = built.Graph.Concat(0, built.Sums, flat)
		}
	}
	t = trainingGraph{Graph: built.Graph, Forward: len(built.Graph.Nodes()), LossSum: built.LossSum, Sums: sums}
	var wanted []*graph.Value
	frozen := setOf(j.Frozen)
	for i, p := range j.Definition.Params() {
		if !frozen[p.Path] {
			t.Gradients, wanted = append(t.Gradients, compile.Target{Leaf: p.Path}), append(wanted, built.Params[i])
		}
	}
	values, err := graph.Gradients(built.Graph, built.Learned, wanted)
	if err != nil {
		return t, err
	}
	if j.RoundProducts {
		t.Graph.RoundProducts()
	}
	for i, v := range values {
		t.Gradients[i].Value = v
	}
	if j.Storage == buffers.BF16 {
		wanted := append(values, t.LossSum)
		if t.Sums != nil {
			wanted = append(wanted, t.Sums)
		}
		t.Graph.StoreBF16(wanted...)
	}
	if j.Recompute == model.RecomputeNone || j.Recompute == RecomputeAuto {
		return t, nil
	}
	e, err := model.Recompute(built, t.Forward, j.Recompute, part)
	if err != nil {
		return t, err
	}
	t.Graph, t.LossSum = e.Graph, e.Value(t.LossSum)
	if t.Sums != nil {
		t.Sums = e.Value(t.Sums)
	}
	for i := range t.Gradients {
		t.Gradients[i].Value = e.Value(t.Gradients[i].Value)
	}
	return t, nil
}

// step is Training and what is wanted of it: the sum of the losses as "loss", and the gradients.
func (j Job) step() (*graph.Graph, []compile.Target, error) {
	t, err := j.Training(nil)
	if err != nil {
		return nil, nil, err
	}
	targets := []compile.Target{{Name: lossTarget, Value: t.LossSum}}
	if t.Sums != nil {
		targets = append(targets, compile.Target{Name: sumsTarget, Value: t.Sums})
	}
	return t.Graph, append(targets, t.Gradients...), nil
}

// Names of targets that are read back.
const (
	lossTarget   = "loss"
	sumsTarget   = "sums"
	logitsTarget = "logits"
)
