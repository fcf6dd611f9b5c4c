package state

import (
	"gputrain/buffers"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
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
	Objective model.Objective // what is learned, which decides what rows of a batch are
	Seed      uint64          // of the first parameters and of dropout
	// Frozen are the paths of parameters that are read and not trained: they have no gradient, no share in its norm and no optimizer state, and the
	// backward pass goes no further than the trained ones need. Beside adapters all others are frozen, named here or not.
	Frozen []string
	// FrozenDType is how devices keep the frozen parameters: one of array.Bases.
	FrozenDType buffers.DType
	// SaveFrozenAs is how checkpoints have the frozen parameters: buffers.F32, or BF16 where devices keep them so.
	SaveFrozenAs buffers.DType
	// Consulted are the parameters of the definition's teacher and reference (model.Consulted), with their paths there: neither what a state is made of nor its
	// checkpoints have them.
	Consulted []buffers.Host
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
	// BaseRecord is what checkpoints say of Base; nil: Create makes it of the frozen parameters, which it reads.
	BaseRecord *model.Base
	// BaseAt is where the base of a checkpoint is that is no longer where the checkpoint says; its fingerprint is compared. "": it is there.
	BaseAt string
	// Scorers are the reward models of the run, which take memory beside it: the plan has it.
	Scorers []Scorer
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
	// Evaluation, Sampling and Rows say what the memory plan must have room for beside steps: evaluations in batches of so many sequences (0: none),
	// sampling, and continuing so many texts at once (0: none; see Reader.Paging).
	Evaluation int
	Sampling   bool
	Rows       int
	// Blocks are those of the keys and values of these; 0: as many as all need, or a part of them where memory is short, so that fewer are under way.
	Blocks int

	// PieceBytes is how much of a tensor is on the host at once while it is saved or loaded; 0: stagingBytes.
	PieceBytes int
	FS         checkpoint.FileSystem              // nil is checkpoint.OS
	Progress   func(what string, done, total int) // of kernel compilation and of loading parameters, from one goroutine at a time; may be nil
}

// Validate reports the first value that cannot be meant, after the defaults.
func (c Config) Validate() error {
	_, err := NewJob(c)
	return err
}
