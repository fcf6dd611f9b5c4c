package train

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/cluster"
	"gputrain/data"
	"gputrain/model"
	"gputrain/state"
)

// Config is a run. The zero value of a field marked "default" takes it.
type Config struct {
	// State is the model, the optimizer, the batch, the accumulation, the sequence length and the seed. MeasureUpdates, Evaluation and
	// Sampling are set by Run.
	State  state.Config
	Params []buffers.Host // where training begins; nil draws the parameters from State.Seed
	Loaded func()         // is called once Params are on the devices, or not needed: they may be of files that are open until then; may be nil
	From   string         // the directory that Params are from; "": none, or nobody's business
	Drawn  []string       // those of Params that were not found where the others are from but drawn (model.OpenPartial), to be told

	Train       data.Source
	Validation  data.Source   // nil: no evaluation
	Fingerprint string        // of the text (data.Corpus.Fingerprint); a resumed run compares it
	Notes       []string      // what is said of the text at the start, and in the report (data.Corpus.Notes)
	Prefetch    int           // batches read ahead
	DataTimeout time.Duration // that a batch may take to be read, or the run ends with a *data.TimeoutError; 0: as long as it takes
	// Batches makes batches of the caller's own instead of those of Train, from a place on: what it hands out has to be a function of that
	// place if a stopped run is to go on to the same bits.
	Batches func(from data.State) (BatchSource, error)

	Steps      int64 // updates
	EvalEvery  int64 // updates between evaluations; 0: at the end only
	EvalTokens int64 // of an evaluation at most, in whole windows spread over the text; 0: all
	// SaveEvery says of which steps a permanent checkpoint is made; the last step has one in any case. SaveInterval makes temporary ones, each
	// removed when the next checkpoint is there, as is that of a wanted stop; 0: none.
	SaveEvery    Intervals
	SaveInterval time.Duration
	SaveSync     bool  // training waits while a checkpoint is written
	Keep         int   // permanent checkpoints kept, the best besides; 0: all
	KeepBest     int   // checkpoints with the lowest validation losses that are kept; default 1
	SampleEvery  int64 // updates between samples; 0: at the end only
	// Sample is what is drawn; Tokens 0: no samples. Tokenizer turns it to text and back; default: bytes.
	Sample    SampleConfig
	Tokenizer Tokenizer
	LogEvery  int64 // updates between lines of metrics.jsonl; default 1
	// HistogramEvery is the number of updates between histograms of parameters and gradients, which are computed on the device
	// (histograms.jsonl); the last step has them too. 0: none. Histograms are regular expressions on params/PATH and grads/PATH: those that
	// match one; nil: all.
	HistogramEvery int64
	Histograms     []string
	Watchers       []Watcher
	// TimeLimit is how long this call may take until it stops and saves; 0: as long as the steps take.
	TimeLimit time.Duration
	// Patience is the number of updates in a row that may be left out because they are not finite; with the last of them the run
	// has diverged. Default 3.
	Patience int64
	Spikes   SpikeConfig // default: nothing that is finite is left out

	// Dir is the run directory. A run goes on from the newest whole checkpoint in it.
	Dir   string
	Fresh bool   // remove what an earlier run has left in Dir, and begin at step 0
	Reads []Read // what the run reads, From besides: a fresh start that would remove any of it is refused
	// Reschedule lets Steps and the schedule of the rate differ from those of the run in Dir, which there has to be: from the step it has
	// reached on it goes on with these. Every other difference is refused as ever.
	Reschedule bool
	// Settings is what run.yaml records and a resumed run compares; default: what State and this configuration say.
	Settings []Setting
	Given    []Given // the files that settings came from, which are kept beside run.yaml as they were
	// Peak tells how many operations a second all devices together make at best, as pipeline.Peak does; nil: lines of metrics have no MFU, nor
	// where it fails, which is said.
	Peak  func(ctx context.Context) (float64, error)
	Title string // of the report; default: the model's kind
	// Profile writes ProfileFile once the run has ended, if it had its directory; where it writes nothing there is none. nil: none.
	Profile func(w io.Writer) error

	// Ranks are the processes that train this model together, and Sums how they add up their gradients; nil: this one is alone. Rank 0 writes and says
	// everything: of the others hooks, watchers, histograms, samples and progress are left out.
	Ranks *cluster.Group
	Sums  cluster.Sums // its Microbatches are the run's

	Progress string        // one of ProgressKinds; default auto
	Output   io.Writer     // of lines and progress; default os.Stderr
	Interval time.Duration // between lines of plain progress; default 10 s
	Hooks    []Hook
}

// Given is a file as its reader found it.
type Given struct {
	Name string
	Text []byte
}

func (c Config) withDefaults() Config {
	if c.Tokenizer == nil {
		c.Tokenizer = Bytes
	}
	if c.LogEvery == 0 {
		c.LogEvery = 1
	}
	if c.KeepBest == 0 {
		c.KeepBest = 1
	}
	if c.Patience == 0 {
		c.Patience = 3
	}
	c.Spikes = c.Spikes.withDefaults()
	if c.Output == nil {
		c.Output = os.Stderr
	}
	if c.Interval == 0 {
		c.Interval = 10 * time.Second
	}
	if c.State.FS == nil {
		c.State.FS = checkpoint.OS
	}
	if c.State.Microbatches == 0 {
		c.State.Microbatches = 1
	}
	if c.State.Sequence == 0 && c.State.Definition != nil {
		c.State.Sequence = c.State.Definition.Context()
	}
	if c.Title == "" && c.State.Definition != nil {
		c.Title = c.State.Definition.Kind()
	}
	c.State.MeasureUpdates = c.Spikes.UpdateNorm > 0
	c.State.Sampling = c.Sample.Tokens > 0
	if c.Validation == nil {
		c.State.Evaluation = 0
	}
	if c.Settings == nil {
		c.Settings = c.settings()
	}
	return c
}

// Validate reports the first value that cannot be meant.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := c.State.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value int64
		least int64
	}{
		{"steps", c.Steps, 1},
		{"eval_every", c.EvalEvery, 0},
		{"eval_tokens", c.EvalTokens, 0},
		{"save_interval", int64(c.SaveInterval), 0},
		{"keep", int64(c.Keep), 0},
		{"keep_best", int64(c.KeepBest), 1},
		{"sample_every", c.SampleEvery, 0},
		{"log_every", c.LogEvery, 1},
		{"histogram_every", c.HistogramEvery, 0},
		{"patience", c.Patience, 1},
		{"time_limit", int64(c.TimeLimit), 0},
		{"prefetch", int64(c.Prefetch), 0},
	} {
		if f.value < f.least {
			return fmt.Errorf("train: config: %s: %d, want at least %d", f.name, f.value, f.least)
		}
	}
	if err := c.SaveEvery.Validate(); err != nil {
		return fmt.Errorf("train: config: save_every: %w", err)
	}
	if err := c.Spikes.Validate(); err != nil {
		return err
	}
	switch {
	case c.Dir == "":
		return fmt.Errorf("train: config: run directory: none")
	case c.Fresh && c.Reschedule:
		return fmt.Errorf("train: config: fresh and reschedule: found both, wanted one: a run that starts over has no schedule to leave")
	case c.DataTimeout < 0:
		return fmt.Errorf("train: config: data timeout: %v, want at least 0", c.DataTimeout)
	case c.Train == nil && c.Batches == nil:
		return fmt.Errorf("train: config: training text: none")
	case c.Ranks != nil && c.Ranks.Size() > 1 && c.State.ShardOptimizer && c.HistogramEvery+int64(len(c.Watchers)) > 0:
		return fmt.Errorf("train: config: histogram_every: %d, watchers: %d, wanted none where ranks divide the update (cluster.shard_optimizer): no rank has all gradients",
			c.HistogramEvery, len(c.Watchers))
	}
	if i := slices.IndexFunc(c.Hooks, func(h Hook) bool { return h == nil }); i >= 0 {
		return fmt.Errorf("train: config: hook %d: found none, wanted one", i)
	}
	if err := CheckNames(c.Histograms, c.State); err != nil {
		return fmt.Errorf("train: config: histograms: %w", err)
	}
	if err := validateWatchers(c.Watchers, c.State); err != nil {
		return fmt.Errorf("train: config: %w", err)
	}
	vocab := c.State.Definition.Vocab()
	for _, t := range []struct {
		name   string
		source data.Source
	}{{"training", c.Train}, {"validation", c.Validation}} {
		if t.source != nil && t.source.Vocab() > vocab {
			return fmt.Errorf("train: config: %s text: a vocabulary of %d tokens, the model has %d", t.name, t.source.Vocab(), vocab)
		}
	}
	if c.Sample.Tokens != 0 {
		return c.Sample.Validate()
	}
	return nil
}

// settings describes a configuration that came without Settings.
func (c Config) settings() []Setting {
	if c.State.Definition == nil {
		return nil
	}
	const origin = "program"
	s := []Setting{
		NewSetting("model.kind", c.State.Definition.Kind(), origin),
		NewSetting("model.params", len(c.State.Definition.Params()), origin),
	}
	if len(c.State.Frozen) > 0 {
		s = append(s, NewSetting("model.frozen", slices.Sorted(slices.Values(c.State.Frozen)), origin))
	}
	s = append(s, optimizerSettings(c.State.Optimizer)...)
	for _, own := range []struct {
		key   string
		value any
	}{
		{"train.steps", c.Steps},
		{"train.batch", c.State.Batch},
		{"train.accumulate", c.State.Microbatches},
		{accumulationKey, cmp.Or(c.State.Accumulation, state.AccumulateTree)},
		{"train.context", c.State.Sequence},
		{"train.seed", c.State.Seed},
		{recomputeKey, cmp.Or(c.State.Recompute, model.RecomputeNone)},
		{"train.eval_every", c.EvalEvery},
		{"train.eval_tokens", c.EvalTokens},
		{"train.save_every", c.SaveEvery},
		{"train.save_interval", c.SaveInterval.String()},
		{"train.keep", c.Keep},
		{"train.keep_best", c.KeepBest},
		{"train.sample_every", c.SampleEvery},
		{"train.histogram_every", c.HistogramEvery},
		{"train.histogram_match", c.Histograms},
		{"train.log_every", c.LogEvery},
		{"train.nan_patience", c.Patience},
		{"train.spike_loss", c.Spikes.Loss},
		{"train.spike_grad_norm", c.Spikes.GradNorm},
		{"train.spike_update_norm", c.Spikes.UpdateNorm},
		{"train.spike_window", c.Spikes.Window},
		{"train.spike_patience", c.Spikes.Patience},
	} {
		from := origin
		if own.key == accumulationKey && c.State.Accumulation == "" {
			from = defaultOrigin
		}
		s = append(s, NewSetting(own.key, own.value, from))
	}
	return s
}
