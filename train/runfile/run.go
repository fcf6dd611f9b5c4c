// Package runfile reads the run file: YAML, strict, layered. A value comes from
// the defaults, then the files, then the environment, then --set; the last
// layer that names a key wins, and every key remembers where its value came
// from. Nothing unknown is accepted: a misspelt key is an error that names the
// file, the line and the nearest key that exists.
package runfile

// Run is the whole run file. The tags of a field say all that there is to know of its key, and nothing else repeats it:
//
//	yaml     its name
//	default  its value where no layer names it, in YAML; none: the zero value
//	range    what its values have to be beyond their type, each item's in a list: 1.. or 0..0.9 for numbers, >0 for numbers above 0,
//	         gpt2|llama for words, or a name of namedRanges
//	resume   what becomes of it when a run goes on: a Resume
//	doc      what it means, as `gputrain config template` prints above it
type Run struct {
	Model     Model     `yaml:"model" doc:"the network"`
	Data      Data      `yaml:"data" doc:"what it learns from"`
	Optimizer Optimizer `yaml:"optimizer" doc:"how it learns"`
	Train     Train     `yaml:"train" doc:"how long, how often, where to"`
	Pipeline  Pipeline  `yaml:"pipeline" doc:"stages and adapters"`
	Device    Device    `yaml:"device" doc:"how adapters are used"`
}

// Model chooses a network by kind and size, or takes one from a directory.
type Model struct {
	From         string   `yaml:"from" resume:"directory" doc:"directory in the Hugging Face layout (config.json, model.safetensors); empty = a new model of the kind below"`
	AllowMissing []string `yaml:"allow_missing" range:"pattern" doc:"with from: regular expressions of parameter paths that the directory may lack, such as [^lm_head]; they are drawn anew, and named; empty = every parameter has to be there"`
	Kind         string   `yaml:"kind" default:"gpt2" range:"gpt2|llama" doc:"gpt2 or llama"`
	Layers       int      `yaml:"layers" default:"4" range:"1.." doc:"transformer blocks"`
	Heads        int      `yaml:"heads" default:"4" range:"1.." doc:"attention heads a block"`
	KVHeads      int      `yaml:"kv_heads" range:"0.." doc:"llama: key/value heads, a divisor of heads; 0 = heads"`
	Width        int      `yaml:"width" default:"128" range:"1.." doc:"embedding width, a multiple of heads"`
	Intermediate int      `yaml:"intermediate" range:"0.." doc:"width of the feed-forward layer; 0 = 4 x width (gpt2), 8/3 x width rounded up to 16 (llama)"`
	Context      int      `yaml:"context" default:"128" range:"1.." doc:"tokens a sequence"`
	Vocab        int      `yaml:"vocab" range:"0.." doc:"vocabulary; 0 = what the data has (256 for bytes, 65536 for bare u16)"`
	Dropout      float64  `yaml:"dropout" range:"0..0.999" doc:"gpt2: probability of dropping an activation in training, also with from, whose own is not used"`
	TieHead      bool     `yaml:"tie_head" doc:"llama: the output head shares the embedding's weights (gpt2's always does)"`
	RopeTheta    float64  `yaml:"rope_theta" default:"10000" range:"0.." doc:"llama: base of the rotary frequencies"`
	Quantize     Quantize `yaml:"quantize" doc:"training for fewer bits"`
}

// Data names the text; with none it is the Go source of the toolchain at hand.
type Data struct {
	Text        []string `yaml:"text" resume:"content" doc:"files or globs (** crosses folders); empty = the Go source of the toolchain at hand"`
	JSONL       []string `yaml:"jsonl" resume:"content" doc:"files or globs with a JSON object a line, each a document, also compressed (.jsonl.gz); instead of text"`
	Mixture     []Source `yaml:"mixture" resume:"content" doc:"several sources by weight, such as [{text: 'books/*.txt', weight: 3}, {jsonl: chats.jsonl, prompt_field: question, field: answer, weight: 1}]; instead of text"`
	MixtureEnd  string   `yaml:"mixture_end" default:"restart" range:"mixture_ends" doc:"when an epoch of the mixture ends: never, as a source that is used up begins again (restart), or with the first or the last source to be used up (first_exhausted, all_exhausted)"`
	Tokens      string   `yaml:"tokens" default:"bytes" range:"bytes|u16|u32" doc:"what the files are: text whose bytes are the tokens (bytes), or little-endian tokens (u16, u32)"`
	Field       string   `yaml:"field" doc:"jsonl: field of the document, text or a list of tokens; empty = text, or input_ids where a line has no text"`
	PromptField string   `yaml:"prompt_field" doc:"jsonl: field that stands before it and is not to be predicted; empty = none"`
	MaskField   string   `yaml:"mask_field" doc:"jsonl: field with a list of 1 and 0 for the tokens that are to be predicted and those that are not; empty = none"`
	EOS         *int     `yaml:"eos" range:"-1.." doc:"jsonl: token put behind every document, below model.vocab; null = 0 behind text and none behind lists of tokens; -1 = none"`
	Packing     string   `yaml:"packing" default:"first_fit" range:"packings" doc:"jsonl: how documents share a window: whole ones wherever there is room (first_fit), in turn (greedy), on into the next window (stream), or not at all (none); nothing is predicted over a border"`
	Long        string   `yaml:"long" default:"split" range:"longs" doc:"jsonl: a document longer than a window takes several (split), or keeps what fits of its beginning (keep_start) or end (keep_end)"`
	Validation  float64  `yaml:"validation" default:"0.05" range:"0..0.9" doc:"share kept for validation, by file where there are several, by document of jsonl"`
	Epochs      int      `yaml:"epochs" range:"0..1000000" resume:"reschedule" doc:"passes over the training data, which then give train.steps; 0 = train.steps says how long"`
	Prefetch    int      `yaml:"prefetch" default:"4" range:"prefetch" resume:"free" doc:"batches made ahead in the background"`
	Timeout     string   `yaml:"timeout" default:"10m" range:"duration" resume:"free" doc:"time that a batch may take to be read until the run ends with an error, such as 10m; empty = for ever"`
}

// Optimizer names an optimizer and what all of them share; its own parameters
// stand beside, as `gputrain optimizers NAME` lists them.
type Optimizer struct {
	Name         string         `yaml:"name" default:"adamw" range:"optimizers" doc:"see gputrain optimizers"`
	LearningRate float64        `yaml:"learning_rate" default:"0.0015" range:"0..1e6" resume:"reschedule" doc:"peak learning rate"`
	Schedule     Schedule       `yaml:"schedule" doc:"the rate over the run"`
	WeightDecay  float64        `yaml:"weight_decay" default:"0.1" range:"0..1e6" doc:"decoupled weight decay, scaled by the rate"`
	DecayMask    []string       `yaml:"decay_mask" range:"pattern" doc:"regular expressions of parameter paths that decay; empty = every matrix, no vector"`
	Rates        []Rate         `yaml:"rates" doc:"multipliers of the learning rate by parameter path, such as [{match: '^wte|^wpe', multiplier: 0.1}, {match: '^h\\.[01]\\.', multiplier: 0}], where the first that matches holds; 0 freezes, though the gradient still counts in its norm"`
	ClipGrad     *float64       `yaml:"clip_grad" default:"1" range:">0" doc:"largest global gradient norm; null = no clipping"`
	Numerics     string         `yaml:"numerics" default:"stable" range:"numerics" doc:"stable or eformer"`
	Parameters   map[string]any `yaml:"parameters" doc:"the optimizer's own parameters, by name"`
}

// Rate multiplies the learning rate of parameters.
type Rate struct {
	Match      string  `yaml:"match" json:"match" range:"pattern"` // regular expression on parameter paths
	Multiplier float64 `yaml:"multiplier" json:"multiplier" range:"0..1e6"`
}

// Schedule is the learning rate as a function of the update.
type Schedule struct {
	Type            string  `yaml:"type" default:"cosine" range:"schedules" resume:"reschedule" doc:"constant, linear, cosine or polynomial"`
	WarmupSteps     int     `yaml:"warmup_steps" default:"-1" range:"-1.." resume:"reschedule" doc:"updates from almost 0 to the peak; -1 = a twelfth of the steps, at most 50"`
	Steps           int     `yaml:"steps" range:"0.." resume:"reschedule" doc:"updates until the end value; 0 = train.steps"`
	LearningRateEnd float64 `yaml:"learning_rate_end" default:"0.00015" range:"0..1e6" resume:"reschedule" doc:"rate at the end"`
	Exponent        float64 `yaml:"exponent" default:"1" range:"0..100" resume:"reschedule" doc:"cosine, polynomial: exponent of the decay"`
}

// Train is the loop.
type Train struct {
	Steps           int       `yaml:"steps" default:"1600" range:"1.." resume:"reschedule" doc:"optimizer updates"`
	Batch           int       `yaml:"batch" default:"2" range:"1.." doc:"sequences a micro-batch; pipeline.microbatches cuts it further"`
	Accumulate      int       `yaml:"accumulate" default:"1" range:"1.." doc:"micro-batches an update"`
	EvalEvery       int       `yaml:"eval_every" default:"400" range:"0.." doc:"updates between evaluations; 0 = only at the end"`
	EvalTokens      int       `yaml:"eval_tokens" default:"32768" range:"0.." doc:"validation tokens an evaluation reads at most; 0 = all of them"`
	SaveEvery       Intervals `yaml:"save_every" default:"200" resume:"free" doc:"updates between permanent checkpoints, such as 200, or [{every: 100, until: 1000}, {every: 1000}]; 0 = only at the end"`
	SaveInterval    string    `yaml:"save_interval" range:"duration" resume:"free" doc:"time between temporary checkpoints, such as 15m, each removed once there is a newer one; empty = none"`
	SaveAsync       bool      `yaml:"save_async" default:"true" resume:"free" doc:"training goes on while a checkpoint is written; it takes as much host memory as the checkpoint has bytes"`
	Keep            int       `yaml:"keep" default:"3" range:"1.." resume:"free" doc:"permanent checkpoints kept, the best besides"`
	KeepBest        int       `yaml:"keep_best" default:"1" range:"1.." resume:"free" doc:"checkpoints with the lowest validation losses that are kept besides"`
	SampleEvery     int       `yaml:"sample_every" range:"0.." resume:"free" doc:"updates between samples; 0 = only at the end"`
	SampleTokens    int       `yaml:"sample_tokens" default:"240" range:"0.." resume:"free" doc:"tokens of a sample"`
	Prompt          string    `yaml:"prompt" resume:"free" doc:"what a sample begins with; empty = what suits the text"`
	Temperature     float64   `yaml:"temperature" default:"0.8" range:"0..100" resume:"free" doc:"of sampling; 0 = always the likeliest token"`
	TopK            int       `yaml:"top_k" default:"40" range:"0.." resume:"free" doc:"sample among the k likeliest tokens; 0 = all"`
	HistogramEvery  int       `yaml:"histogram_every" range:"0.." resume:"free" doc:"updates between histograms of parameters and gradients, computed on the device (histograms.jsonl); 0 = none"`
	HistogramMatch  []string  `yaml:"histogram_match" range:"pattern" resume:"free" doc:"regular expressions on params/PATH and grads/PATH that have histograms; empty = all"`
	LogEvery        int       `yaml:"log_every" default:"1" range:"1.." resume:"free" doc:"updates between lines of metrics.jsonl"`
	TensorBoard     bool      `yaml:"tensorboard" default:"true" resume:"free" doc:"write figures, histograms and samples for TensorBoard too (folder tensorboard of the run directory)"`
	NaNPatience     int       `yaml:"nan_patience" default:"3" range:"1.." resume:"free" doc:"updates in a row with a loss or gradient that is not finite until the run stops as diverged"`
	SpikeLoss       float64   `yaml:"spike_loss" range:"0..1e6" doc:"leave out updates whose loss is so many standard deviations above its mean over the last updates; 0 = none"`
	SpikeGradNorm   float64   `yaml:"spike_grad_norm" range:"0..1e6" doc:"the same of the norm of the gradient"`
	SpikeUpdateNorm float64   `yaml:"spike_update_norm" range:"0..1e6" doc:"the same of the norm of the update itself, which takes one more pass over the optimizer's state"`
	SpikeWindow     int       `yaml:"spike_window" default:"128" range:"2..1048576" doc:"updates that mean and standard deviation are of; before so many are made none is left out"`
	SpikePatience   int       `yaml:"spike_patience" default:"10" range:"1.." resume:"free" doc:"updates in a row left out as spikes until the run stops as diverged"`
	TimeLimit       string    `yaml:"time_limit" range:"duration" resume:"free" doc:"time after which the run stops and saves, such as 1d2h30m, counted from the start of the command; the same command again goes on; empty = none"`
	Seed            uint64    `yaml:"seed" default:"42" doc:"of initialisation, order, dropout and samples"`
	MemoryLimit     string    `yaml:"memory_limit" range:"size" resume:"free" doc:"most device memory to take of an adapter, such as 6GiB, by however many stages; empty = what it has"`
}

// Pipeline cuts the model into stages and binds them to adapters.
type Pipeline struct {
	Stages       int    `yaml:"stages" default:"1" range:"1.." resume:"free" doc:"stages the model is cut into, each on a device of its own; 1 = not cut"`
	Adapters     []int  `yaml:"adapters" range:"0.." resume:"free" doc:"adapter of each stage, as numbered by gputrain devices, or one for all; empty = --adapter, or the fastest"`
	Schedule     string `yaml:"schedule" default:"1f1b" range:"gpipe|1f1b|interleaved" resume:"free" doc:"order of microbatches: gpipe (all forwards, then all backwards), 1f1b (in turn, less memory) or interleaved (1f1b over several parts a stage, less waiting)"`
	Microbatches int    `yaml:"microbatches" default:"1" range:"1.." doc:"pieces that a micro-batch is cut into so that stages work at the same time, a divisor of train.batch; it changes the rounding, so a run keeps it"`
	Chunks       int    `yaml:"chunks" range:"0.." resume:"free" doc:"parts of the model a stage has with the interleaved schedule; 0 = 2 (other schedules: 1)"`
	Ahead        int    `yaml:"ahead" range:"0.." resume:"free" doc:"1f1b: forward passes that every stage but the last runs beyond what the schedule needs, so that slow links are hidden; each takes the memory of a microbatch"`
	Recompute    bool   `yaml:"recompute" resume:"free" doc:"backward passes of several stages compute the activations again instead of keeping them: less memory, a forward pass more"`
	Devices      string `yaml:"devices" default:"adapter" range:"adapter|stage" resume:"free" doc:"adapter (stages that name one adapter share a device) or stage (a device for every stage)"`
	Rules        []Rule `yaml:"rules" resume:"free" doc:"stage of parameters by path, such as [{match: '^wte|^wpe|^h\\.[01]\\.', stage: 0}, {match: '^h\\.[23]\\.|^ln_f', stage: 1}], where each parameter has one; empty = cut where the slowest stage is fastest"`
}

// Device is how adapters are used; nothing of it changes what a run computes.
type Device struct {
	Texels string `yaml:"texels" default:"auto" range:"auto|off|reuse|all|force" resume:"free" doc:"software adapters: which kernels read their operands from textures, which take memory besides: none (off), those that read each element many times (reuse), all that gain by it (all), or what a measurement of the adapter says (auto); force is for tests"`
}

// Rule puts parameters on a stage.
type Rule struct {
	Match string `yaml:"match" json:"match" range:"pattern" doc:"regular expression on parameter paths"`
	Stage int    `yaml:"stage" json:"stage" range:"0.." doc:"from 0"`
}

// Interleaved is the schedule in which a stage has several parts of the model.
const Interleaved = "interleaved"

// PartsPerStage is Chunks in force.
func (p Pipeline) PartsPerStage() int {
	switch {
	case p.Chunks > 0:
		return p.Chunks
	case p.Schedule == Interleaved:
		return 2
	}
	return 1
}
