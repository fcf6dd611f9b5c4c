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
	"gputrain/internal/ranks/cluster"
	"gputrain/internal/ranks/mesh"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/grpo"
	"gputrain/run/record"
	"gputrain/run/runfile"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// Config is a run. The zero value of a field marked "default" takes it.
type Config struct {
	// Options are how the run goes: what its run file says below train, in the same words. A zero that a key does not take is its default, but for
	// Steps. Sample.Tokens of 0: no samples.
	Options

	// State is the model, the optimizer, the batch, the accumulation, the sequence length and the seed. MeasureUpdates, Evaluation and
	// Sampling are set by Run.
	State  state.Config
	Params []buffers.Host // where training begins; nil draws the parameters from State.Seed
	// Value is where training begins and where its end is left; nil: neither. A run that begins takes over what is there, unless it is the
	// zero Value: parameters, what the optimizer remembers, and the step, which counts among Steps. Of State, Definition, Optimizer and
	// Frozen may then be left out. A run that goes on from a checkpoint of Dir releases it. When Run has returned, what is there is the
	// caller's: as it was, if the run was refused before it took it over; otherwise the state at the end, also of a run that was stopped;
	// spent, if an error has left none.
	Value  *state.Value
	Loaded func() // is called once Params are on the devices, or not needed: they may be of files that are open until then; may be nil
	From   string // the directory that Params are from; "": none, or nobody's business
	LoRA   Adapters
	Drawn  []string // those of Params that were not found where the others are from but drawn (hub.Bundle.Partial), to be told

	Train       data.Source
	Validation  data.Source   // nil: no evaluation, as with an EvalEvery of 0
	Fingerprint string        // of the text (texts.Corpus.Fingerprint); a resumed run compares it
	Earlier     data.Earlier  // what earlier programs made of the text (texts.Corpus.Earlier)
	Data        *Amounts      // how much text there is; nil: nobody has counted
	Notes       []string      // what is said of the text at the start, and in the report (texts.Corpus.Notes)
	Prefetch    int           // batches read ahead
	Before      []Span        // where time went before the run, as reading its text; it is in the account and in the forecast
	DataTimeout time.Duration // that a batch may take to be read, or the run ends with a *data.TimeoutError; 0: as long as it takes
	// Batches makes batches of the caller's own instead of those of Train, from a place on: what it hands out has to be a function of that
	// place if a stopped run is to go on to the same bits.
	Batches func(from data.State) (BatchSource, error)
	// Rollouts makes the run draw what it learns from: Train and Validation are then *data.Prompts. nil: it does not.
	Rollouts *grpo.Config

	// Tokenizer turns a sample to text and back; default: bytes.
	Tokenizer Tokenizer
	Watchers  []Watcher

	// Dir is the run directory. A run goes on from the newest whole checkpoint in it.
	Dir   string
	Fresh bool   // remove what an earlier run has left in Dir, and begin at step 0
	Reads []Read // what the run reads, From and LoRA.From besides: a fresh start that would remove any of it is refused
	// Launch, if any, is noted in the marker once a fresh start has removed what was there: a restart of the same launch is not to be fresh.
	Launch string
	// Reschedule lets Steps and the schedule of the rate differ from those of the run in Dir, which there has to be: from the step it has
	// reached on it goes on with these. Every other difference is refused as ever.
	Reschedule bool
	// Settings is what run.yaml records and a resumed run compares; default: what State and this configuration say.
	Settings []record.Setting
	Given    []Given // the files that settings came from, which are kept beside run.yaml as they were
	Files    []File  // are written into Dir before run.yaml, so that a run that is refused leaves none
	// Peak tells how many operations a second all devices together make at best, as pipeline.Peak does; nil: lines of metrics have no MFU, nor
	// where it fails, which is said.
	Peak  func(ctx context.Context) (float64, error)
	Title string // of the report; default: the model's kind
	// Profile writes ProfileFile once the run has ended, if it had its directory; where it writes nothing there is none. nil: none.
	Profile func(w io.Writer) error

	// Ranks are the processes that train this model together, and Sums how they add up their gradients; nil: this one is alone. Rank 0 writes and says
	// everything: of the others hooks, watchers, histograms, samples and progress are left out.
	Ranks *mesh.Mesh
	Sums  cluster.Sums // its Microbatches are the run's

	Progress string        // one of ProgressKinds; default auto
	Output   io.Writer     // of lines and progress; default os.Stderr
	Interval time.Duration // between lines of plain progress; default 10 s
	Hooks    []Hook
	Asked    []Question // the tokens of Ask
	Answers  int        // that hooks draw of the model before the first step, and again after the last, each about as long as a sample: for the forecast
}

// Options are those of a run file's section train that the loop goes by, SampleConfig how text is drawn, and SpikeConfig which updates are left
// out.
type (
	Options      = runfile.Loop
	SampleConfig = runfile.Sample
	SpikeConfig  = runfile.Spikes
	intervals    = runfile.Intervals
)

// Every is one interval for the whole run; none for 0.
func Every(n int64) intervals {
	if n == 0 {
		return nil
	}
	return intervals{{Every: n}}
}

// Amounts are how much text a run has. What was not counted is 0.
type Amounts struct {
	Files     int   `json:"files"`
	Bytes     int64 `json:"bytes,omitempty"`
	Documents int   `json:"documents,omitempty"`
	Groups    int   `json:"pairs,omitempty"`  // that the documents are: model.Loss.Counts
	Tokens    int64 `json:"tokens,omitempty"` // of all documents, else those to train on
}

// Given is a file as its reader found it.
type Given struct {
	Name string
	Text []byte
}

// File is a file of the caller's in a run directory.
type File struct {
	Name string
	Text []byte
	// Ours tells a file that the caller has written from others, which are never replaced. Its own are with Fresh.
	Ours func(text []byte) bool
}

func (c Config) withDefaults() Config {
	if c.Tokenizer == nil {
		c.Tokenizer = Bytes
	}
	c.Options = runfile.Filled(c.Options)
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
	if c.learnsRollouts() {
		c.State.Rows = c.rowsAtOnce()
	}
	if !c.evaluatesLoss() {
		c.State.Evaluation = 0
	}
	if c.Settings == nil {
		c.Settings = c.settings()
	}
	return c
}

// Validate reports the first value that cannot be meant.
func (c Config) Validate() error {
	if c.Steps == 0 {
		return fmt.Errorf("train: config: train.steps: found 0, wanted 1 or more")
	}
	c, err := c.withValue()
	if err != nil {
		return err
	}
	c = c.withDefaults()
	if err := c.State.Validate(); err != nil {
		return err
	}
	if err := c.Options.Validate(); err != nil {
		return fmt.Errorf("train: config: %w", err)
	}
	switch {
	case c.Dir == "":
		return fmt.Errorf("train: config: run directory: none")
	case c.Fresh && c.Reschedule:
		return fmt.Errorf("train: config: fresh and reschedule: found both, wanted one: a run that starts over has no schedule to leave")
	case c.Prefetch < 0:
		return fmt.Errorf("train: config: prefetch: found %d, wanted 0 or more", c.Prefetch)
	case c.DataTimeout < 0:
		return fmt.Errorf("train: config: data timeout: %v, want at least 0", c.DataTimeout)
	case c.Train == nil && c.Batches == nil:
		return fmt.Errorf("train: config: training text: none")
	case c.Ranks != nil && c.Ranks.Size() > 1 && c.State.ShardOptimizer && c.HistogramEvery+int64(len(c.Watchers)) > 0:
		return fmt.Errorf("train: config: histogram_every: %d, watchers: %d, wanted none where ranks divide the update (cluster.shard_optimizer): no rank has all gradients",
			c.HistogramEvery, len(c.Watchers))
	}
	if err := c.validateRollouts(); err != nil {
		return err
	}
	if i := slices.IndexFunc(c.Hooks, func(h Hook) bool { return h == nil }); i >= 0 {
		return fmt.Errorf("train: config: hook %d: found none, wanted one", i)
	}
	if err := CheckNames(c.HistogramMatch, c.State); err != nil {
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
func (c Config) settings() []record.Setting {
	if c.State.Definition == nil {
		return nil
	}
	const origin = "program"
	s := []record.Setting{
		record.NewSetting("model.kind", c.State.Definition.Kind(), origin),
		record.NewSetting("model.params", len(c.State.Definition.Params()), origin),
	}
	if len(c.State.Frozen) > 0 {
		s = append(s, record.NewSetting("model.frozen", slices.Sorted(slices.Values(c.State.Frozen)), origin))
	}
	s = append(s, optimizerSettings(c.State.Optimizer)...)
	s = append(
		s, record.NewSetting("state.batch", c.State.Batch, origin), record.NewSetting("state.microbatches", c.State.Microbatches, origin),
		record.NewSetting("state.sequence", c.State.Sequence, origin), record.NewSetting("train.seed", c.State.Seed, origin),
		record.NewSetting(recomputeKey, cmp.Or(c.State.Recompute, model.RecomputeNone), origin),
	)
	accumulation := record.NewSetting(accumulationKey, cmp.Or(c.State.Accumulation, state.AccumulateTree), origin)
	if c.State.Accumulation == "" {
		accumulation.Origin = record.Default
	}
	s = append(s, accumulation)
	for key, value := range runfile.LoopValues(c.Options) {
		s = append(s, record.NewSetting(key, value, origin))
	}
	return s
}
