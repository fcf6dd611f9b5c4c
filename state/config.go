package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/checkpoint"
	"gputrain/data"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/suggest"
	"gputrain/mesh"
	"gputrain/model"
	"gputrain/optim"
)

// Config is what a training state is made of.
type Config struct {
	Definition model.Definition // a language model
	// Optimizer always measures the norm of the gradient, and leaves out updates that are not finite or beyond Limits, whatever its options
	// say.
	Optimizer    optim.Config
	Batch        int // sequences a microbatch
	Microbatches int // microbatches an update, of all replicas; 0 is 1
	// Accumulation is how their gradients are added up: AccumulateTree or AccumulateSequence; "" is the first. It decides the last bits.
	Accumulation string
	Sequence     int // tokens a sequence; 0 is the definition's context
	// Documents: the sequences of batches are made of documents, which data.Batch.Positions keep apart; without positions each is one.
	Documents bool
	// Preference makes the loss one of pairs: rows 2i and 2i+1 of a batch are the chosen and the rejected completion of a prompt, with the labels of the
	// completion, and pairs count where labels do otherwise. nil: one of labels.
	Preference *model.Preference
	Seed       uint64 // of the first parameters and of dropout
	// Frozen are the paths of parameters that are read and not trained: they have no gradient, no share in its norm and no optimizer state, and the
	// backward pass goes no further than the trained ones need. Beside adapters all others are frozen, named here or not.
	Frozen []string
	// FrozenDType is how devices keep the frozen parameters: buffers.F32, BF16, to which they are rounded, or NF4 or NF4Nested, to which the matrices of layers
	// are quantized and all else is rounded to BF16.
	FrozenDType buffers.DType
	// SaveFrozenAs is how checkpoints have the frozen parameters: buffers.F32, or BF16 where devices keep them so.
	SaveFrozenAs buffers.DType
	// Recompute is what of each layer the backward pass computes again instead of keeping it, with the same bits: one of model.Recomputes,
	// RecomputeAuto, or "" for none.
	Recompute string
	// Storage is the type in which what operations of a step hand to one another lies: buffers.F32, or BF16, to which it is rounded: see
	// graph.StoreBF16. Parameters, their gradients, sums and the optimizer's state are in f32 in both.
	Storage buffers.DType
	// RoundProducts has products of matrices round their operands to f16: see graph.RoundProducts. The loss whose gradient is computed is then scaled: see
	// TrainState.SetScale.
	RoundProducts bool
	// Base is a directory in the Hugging Face layout that has the frozen parameters: checkpoints then name it, by its absolute path and a fingerprint of
	// these, and have the trained ones alone. "": checkpoints have the whole model.
	Base string
	// BaseAt is where the base of a checkpoint is that is no longer where the checkpoint says; its fingerprint is compared. "": it is there.
	BaseAt string
	// Companions are files that checkpoints have beside the model for other programs, such as those of its tokenizer.
	Companions []checkpoint.Source
	// Ends are the tokens by which the model ends its answers, for config.json of checkpoints; nil: those of the definition.
	Ends []int32
	// Reschedule lets a checkpoint be of another schedule of the rate: from its step on that of Optimizer holds.
	Reschedule bool
	// MeasureUpdates measures the norm of each update, so that it can have a limit: another pass over what an update reads.
	MeasureUpdates bool
	// Mesh is the ranks that train this model together, each replica with its Share of an update's microbatches; nil: this process is alone. Reducer
	// adds up the gradients of replicas, if there are several.
	Mesh    *mesh.Mesh
	Reducer Reducer
	// ShardOptimizer divides the optimizer's state and its work over the replicas: each updates leaves of its own and gets the others from those
	// that do. The bits are the same.
	ShardOptimizer bool
	// Adapter is what checkpoints name as AdapterName does, where others than this state's devices compute too; "": these.
	Adapter string
	// Evaluation and Sampling say what the memory plan must have room for beside steps: evaluations in batches of so many sequences (0:
	// none), and sampling.
	Evaluation int
	Sampling   bool

	FS       checkpoint.FileSystem              // nil is checkpoint.OS
	Progress func(what string, done, total int) // of kernel compilation and of loading parameters, from one goroutine at a time; may be nil

	base       *model.Base // of Base, once WithBase has seen the parameters
	pieceBytes int         // of a tensor that are on the host at once while it is saved or loaded; 0: stagingBytes
}

// Validate reports the first value that cannot be meant, after the defaults.
func (c Config) Validate() error {
	c = c.WithDefaults()
	switch {
	case c.Definition == nil:
		return errors.New("state: config: definition: none")
	case c.Definition.Vocab() == 0:
		return fmt.Errorf("state: config: definition: %s has no tokens, want a language model", c.Definition.Kind())
	case c.Batch < 1:
		return fmt.Errorf("state: config: batch: %d, want at least 1", c.Batch)
	case c.Microbatches < 1:
		return fmt.Errorf("state: config: microbatches: %d, want at least 1", c.Microbatches)
	case !slices.Contains(Accumulations, c.Accumulation):
		return fmt.Errorf("state: config: accumulation: found %q, wanted one of %s%s", c.Accumulation, strings.Join(Accumulations, ", "), suggest.DidYouMean(c.Accumulation, Accumulations))
	case c.Sequence < 1 || c.Sequence > c.Definition.Context():
		return fmt.Errorf("state: config: sequence: %d, want 1 to the context %d", c.Sequence, c.Definition.Context())
	case c.Evaluation < 0:
		return fmt.Errorf("state: config: evaluation: %d sequences, want at least 0", c.Evaluation)
	case c.Optimizer.Options.AccumulationSteps > 1:
		return fmt.Errorf("state: config: optimizer: accumulation_steps: %d: use microbatches here, which weigh by tokens", c.Optimizer.Options.AccumulationSteps)
	}
	if err := c.checkPreference(); err != nil {
		return err
	}
	_, replicas := c.replicas()
	if replicas > 1 && c.Reducer == nil {
		return fmt.Errorf("state: config: reducer: found none for %d replicas, wanted one: cluster.NewReducer makes it", replicas)
	}
	if replicas > 1 && c.Accumulation != AccumulateTree {
		return fmt.Errorf("state: config: accumulation: found %s with %d replicas, wanted %s: sums in sequence would depend on their number", c.Accumulation, replicas, AccumulateTree)
	}
	if _, err := model.ConfigJSON(c.Definition, "F32"); err != nil { // a checkpoint of it could not be read
		return fmt.Errorf("state: config: definition: %w", err)
	}
	if err := c.checkFrozen(); err != nil {
		return fmt.Errorf("state: config: %w", err)
	}
	if c.Storage != buffers.F32 && c.Storage != buffers.BF16 {
		return fmt.Errorf("state: config: storage: found %v, wanted %v or %v", c.Storage, buffers.F32, buffers.BF16)
	}
	if known := append([]string{RecomputeAuto}, model.Recomputes...); !slices.Contains(known, c.Recompute) {
		return fmt.Errorf("state: config: recompute: %q, want one of %s%s", c.Recompute, strings.Join(known, ", "), suggest.DidYouMean(c.Recompute, known))
	}
	_, err := c.Transform()
	return err
}

// WithDefaults is the configuration with every value that was left out, but for those of the optimizer.
func (c Config) WithDefaults() Config {
	if c.Microbatches == 0 {
		c.Microbatches = 1
	}
	if c.Accumulation == "" {
		c.Accumulation = AccumulateTree
	}
	if c.Sequence == 0 && c.Definition != nil {
		c.Sequence = c.Definition.Context()
	}
	c.Frozen = c.withFrozenBase()
	if c.Recompute == "" {
		c.Recompute = model.RecomputeNone
	}
	if c.FS == nil {
		c.FS = checkpoint.OS
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	return c
}

// RecomputeAuto is the first of model.Recomputes that fits a device. Where there is none to fit, everything is kept.
const RecomputeAuto = "auto"

// Choices are what a configuration may stand for: itself, or with RecomputeAuto one for each of model.Recomputes, in their order.
func (c Config) Choices() []Config {
	if c.Recompute != RecomputeAuto {
		return []Config{c}
	}
	var out []Config
	for _, what := range model.Recomputes {
		c.Recompute = what
		out = append(out, c)
	}
	return out
}

// Transform is the optimizer with what a training state needs of it.
func (c Config) Transform() (optim.Transform, error) {
	o := c.Optimizer
	o.Options.SkipNonFinite, o.Options.MeasureNorm = true, true
	t, err := o.Build()
	if err != nil {
		return t, err
	}
	if c.RoundProducts {
		t = optim.Unscale(t)
	}
	t = optim.GuardUpdates(optim.Guard{Losses: c.losses(), Update: c.MeasureUpdates}, t)
	if len(c.Frozen) == 0 {
		return t, nil
	}
	_, frozen := c.Divide()
	return optim.Freeze(frozen, t), nil
}

// counts are what the loss of an update is divided by.
type counts struct {
	tokens  int64 // Metrics.Tokens
	learned int64 // labels of ORPO's mean, with a Preference
}

// countLabels checks a batch, so that a wrong one is refused before anything is submitted, and counts the labels that are not ignored.
func (c Config) countLabels(b data.Batch) (n counts, err error) {
	c = c.WithDefaults()
	share := c.Share()
	rows, seq := c.Batch*share.Count, c.Sequence
	if b.Rows != rows || len(b.Tokens) != rows*seq || len(b.Labels) != rows*seq {
		return n, fmt.Errorf("batch: %d rows, %d tokens, %d labels, want %d rows of %d tokens (batch %d x %d microbatches)",
			b.Rows, len(b.Tokens), len(b.Labels), rows, seq, c.Batch, share.Count)
	}
	if b.Positions != nil && !c.Documents {
		return n, errors.New("batch: positions of documents: found some, want none without Config.Documents (or data.Layout.Together)")
	}
	if b.Positions != nil && len(b.Positions) != rows*seq {
		return n, fmt.Errorf("batch: %d positions of documents, want %d", len(b.Positions), rows*seq)
	}
	vocab := int32(c.Definition.Vocab())
	for i, label := range b.Labels {
		if token := b.Tokens[i]; token < 0 || token >= vocab {
			return n, fmt.Errorf("batch: row %d: token %d: found %d, wanted 0 to %d", i/seq, i%seq, token, vocab-1)
		}
		if label == graph.IgnoreLabel {
			continue
		}
		if label < 0 || label >= vocab {
			return n, fmt.Errorf("batch: row %d: label %d: found %d, wanted 0 to %d, or %d for one that does not count", i/seq, i%seq, label, vocab-1, graph.IgnoreLabel)
		}
		n.tokens++
	}
	if c.Preference != nil {
		return c.countPairs(b)
	}
	if n.tokens == 0 && !c.joined() {
		return n, errNoLabels
	}
	return n, nil
}

var errNoLabels = errors.New("batch: 0 labels count in the loss")

// dropoutKey is what dropout draws with in a microbatch of the update that follows step.
func (c Config) dropoutKey(step int64, micro int) prng.Key {
	return prng.NewKey(c.Seed).FoldIn(dropoutStream).FoldIn(uint32(step)).FoldIn(uint32(micro))
}

// dropoutStream keeps the random numbers of dropout apart from all others of a run.
const dropoutStream = 0xd20907

// Build is the model as an update computes it, a microbatch at a time.
func (c Config) Build() (*model.Built, error) {
	return c.Definition.Build(c.Batch, c.Sequence, model.Options{Loss: true, Training: true, Documents: c.Documents, Preference: c.Preference})
}

// Training is the graph of one microbatch, forward and backward.
type Training struct {
	Graph     *graph.Graph
	Forward   int              // nodes of the forward pass, which come first
	LossSum   *graph.Value     // the sum of the losses
	PairSums  *graph.Value     // of model.Pairs; nil without a Preference
	Gradients []compile.Target // of the parameters that are trained, in the order of the definition
}

// Training builds the model and its backward pass for the parameters that are trained: what only frozen ones would need is not computed. part is
// the part of each parameter where the model is cut; nil: it is not.
func (c Config) Training(part map[string]int) (t Training, err error) {
	c = c.WithDefaults()
	built, err := c.Build()
	if err != nil {
		return t, err
	}
	t = Training{Graph: built.Graph, Forward: len(built.Graph.Nodes()), LossSum: built.LossSum}
	if built.Pairs != nil {
		t.PairSums = built.Pairs.Sums
	}
	var wanted []*graph.Value
	frozen := setOf(c.Frozen)
	for i, p := range c.Definition.Params() {
		if !frozen[p.Path] {
			t.Gradients, wanted = append(t.Gradients, compile.Target{Leaf: p.Path}), append(wanted, built.Params[i])
		}
	}
	values, err := graph.Gradients(built.Graph, built.Loss, wanted)
	if err != nil {
		return t, err
	}
	if c.RoundProducts {
		t.Graph.RoundProducts()
	}
	for i, v := range values {
		t.Gradients[i].Value = v
	}
	if c.Storage == buffers.BF16 {
		wanted := append(values, t.LossSum)
		if t.PairSums != nil {
			wanted = append(wanted, t.PairSums)
		}
		t.Graph.StoreBF16(wanted...)
	}
	if c.Recompute == model.RecomputeNone || c.Recompute == RecomputeAuto {
		return t, nil
	}
	e, err := model.Recompute(built, t.Forward, c.Recompute, part)
	if err != nil {
		return t, err
	}
	t.Graph, t.LossSum = e.Graph, e.Value(t.LossSum)
	if t.PairSums != nil {
		t.PairSums = e.Value(t.PairSums)
	}
	for i := range t.Gradients {
		t.Gradients[i].Value = e.Value(t.Gradients[i].Value)
	}
	return t, nil
}

// step is Training and what is wanted of it: the sum of the losses as "loss", and the gradients.
func (c Config) step() (*graph.Graph, []compile.Target, error) {
	t, err := c.Training(nil)
	if err != nil {
		return nil, nil, err
	}
	targets := []compile.Target{{Name: lossTarget, Value: t.LossSum}}
	if t.PairSums != nil {
		targets = append(targets, compile.Target{Name: pairsTarget, Value: t.PairSums})
	}
	return t.Graph, append(targets, t.Gradients...), nil
}

// Names of targets that are read back.
const (
	lossTarget   = "loss"
	pairsTarget  = "pairs"
	logitsTarget = "logits"
)
