// Package runfile reads the run file: YAML, strict, layered. A value comes from
// the defaults, then the files, then the environment, then --set; the last
// layer that names a key wins, and every key remembers where its value came
// from. Nothing unknown is accepted: a misspelt key is an error that names the
// file, the line and the nearest key that exists.
package runfile

import (
	"gputrain/model"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/run/reward"
)

// Run is the whole run file. The tags of a field say all that there is to know of its key, and nothing else repeats it:
//
//	yaml     its name
//	default  its value where no layer names it, in YAML; none: the zero value
//	range    what its values have to be beyond their type, each item's in a list: 1.. or 0..0.9 for numbers, >0 for numbers above 0,
//	         gpt2|llama for words, or a name of namedRanges
//	resume   what becomes of it when a run goes on: a Resume
//	after    the key that it stands after, where that is a field of an embedded struct; none: after the field before it
//	doc      what it means, as `gputrain config template` prints above it and docs/run-file.md says it (make pages); {families}, {bases}: all of them
type Run struct {
	Model      Model      `yaml:"model" doc:"the network"`
	LoRA       loRA       `yaml:"lora" doc:"adapters, which are trained in place of the model"`
	Data       Data       `yaml:"data" doc:"the text to learn from"`
	Preference preference `yaml:"preference" doc:"learning from completions that are preferred to others, or good and bad"`
	Head       head       `yaml:"head" doc:"scores or vectors of rows in place of logits: reward models, classifiers, embeddings"`
	Rollout    rollout    `yaml:"rollout" doc:"learning from completions that the model draws, and rewards for them"`
	// Rewards stand beside the section, as a model may also be evaluated by them.
	Rewards   []reward.Spec `yaml:"rewards" doc:"how good completions are: a list of functions, such as [{kind: equal, column: answer}, {kind: length, weight: 0.1, buffer: 128}], whose weighted sum is the reward; docs/rollouts.md has all kinds"`
	Distil    distil        `yaml:"distil" doc:"learning from what another model says of each token"`
	Optimizer optimizer     `yaml:"optimizer" doc:"how the model learns"`
	Train     train         `yaml:"train" doc:"how long to train, how often to report and save"`
	Pipeline  pipeline      `yaml:"pipeline" doc:"stages and adapters"`
	Device    device        `yaml:"device" doc:"how adapters are used"`
	Cluster   cluster       `yaml:"cluster" doc:"how several ranks, started by mpirun or srun, train one model"`
}

// Model chooses a network by kind and size, or takes one from a directory.
type Model struct {
	From         string   `yaml:"from" resume:"directory" doc:"Hugging Face directory (config.json, model.safetensors) or GGUF file whose weights training begins with; empty: a new model of the kind below"`
	AllowMissing []string `yaml:"allow_missing" range:"pattern" doc:"with model.from: regular expressions of parameter paths that the directory may lack, such as ^lm_head. Missing parameters are initialised and named. Empty: every parameter must be there"`
	Base         string   `yaml:"base" default:"f32" range:"bases" doc:"type in which devices keep the parameters that are not trained: {bases}"`
	Kind         string   `yaml:"kind" default:"gpt2" range:"families" doc:"{families}"`
	model.Keys
	ZeroOutputs bool `yaml:"zero_outputs" doc:"begin with 0 in the matrices, and their biases, that write what attention and the feed-forward part of a layer add to its input; not with model.from"`

	Quantize model.Quantization `yaml:"quantize" doc:"training for fewer bits"`
}

// Data names the text; with none it is the Go source of the toolchain at hand.
type Data struct {
	Text       []string `yaml:"text" resume:"content" doc:"files or globs (** crosses folders); empty: the Go source of your toolchain, without one the text beside the program"`
	JSONL      []string `yaml:"jsonl" resume:"content" doc:"files or globs of documents: a JSON object a line, an array of JSON objects (both also .gz), or Parquet; instead of text"`
	Held       []string `yaml:"held" resume:"content" doc:"files or globs of rows, as data.jsonl, that are held out for validation in the place of data.validation: no row of theirs may be in data.jsonl"`
	Mixture    []Source `yaml:"mixture" resume:"content" doc:"several sources by weight, such as [{text: 'books/*.txt', weight: 3}, {jsonl: chats.jsonl, prompt_field: question, field: answer, weight: 1}]; instead of text"`
	MixtureEnd string   `yaml:"mixture_end" default:"restart" range:"mixture_ends" doc:"when an epoch of the mixture ends: never, because a used-up source begins again (restart), or when the first or the last source is used up (first_exhausted, all_exhausted)"`
	Tokens     string   `yaml:"tokens" default:"auto" range:"auto|bytes|tokenizer|u16|u32" doc:"contents of the files: text whose bytes are the tokens (bytes), text for a tokenizer (tokenizer), or little-endian tokens (u16, u32); auto: tokenizer if data.tokenizer or model.from has one, else bytes"`
	Tokenizer  string   `yaml:"tokenizer" resume:"content" doc:"a directory with tokenizer.json or tokenizer.model, or one of these files; empty: the tokenizer of model.from, if it has one"`
	// TokenizerFingerprint is recorded, so that a run is held to its tokenizer.
	TokenizerFingerprint string      `yaml:"tokenizer_fingerprint" doc:"fingerprint of the tokenizer, as gputrain tokenize show prints it; the run refuses a tokenizer with another one. Empty: any. A run records it"`
	Invalid              string      `yaml:"invalid" default:"error" range:"error|replace" doc:"treatment of text that is not UTF-8, for a tokenizer or in jsonl: an error that says where (error), or U+FFFD in its place (replace)"`
	Cache                string      `yaml:"cache" resume:"free" doc:"directory for what a run makes of its data once: tokens of text and of rows, windows of documents, hashes of files; empty: tokens, in the user's cache folder for gputrain"`
	Fields               data.Fields `yaml:",inline"`
	Format               string      `yaml:"format" default:"auto" range:"formats" doc:"jsonl: form of the rows: documents in data.field (fields), or conversations: messages, conversations (from, value), prompt_completion, alpaca; auto: by their keys"`
	Roles                []string    `yaml:"roles" range:"system|developer|user|assistant|tool|function|ipython" doc:"conversations: roles whose messages are learned; empty: assistant"`
	LearnLast            bool        `yaml:"learn_last" doc:"conversations: whether the last of the messages that would be learned is learned alone"`
	Template             string      `yaml:"template" resume:"content" doc:"conversations: a chat template: a .jinja file, or a name of the directory or of gputrain, such as chatml; empty: that of the directory of data.tokenizer or model.from"`
	Date                 string      `yaml:"date" default:"2024-07-26" range:"date" doc:"conversations: date that a template is told when it asks for one, the same on any day"`
	Layout               data.Layout `yaml:",inline"`
	Documents            string      `after:"packing" yaml:"documents" default:"apart" range:"apart|together" doc:"jsonl: whether documents in one window see each other (together), or each only itself, at positions from 0 on (apart)"`
	Validation           float64     `yaml:"validation" default:"0.05" range:"0..0.9" doc:"share of the data kept for validation: by file if there are several, by document for jsonl"`
	Epochs               int         `yaml:"epochs" range:"0..1000000" resume:"reschedule" doc:"passes over the training data, which then determine train.steps; 0: train.steps says how long to train"`
	Prefetch             int         `yaml:"prefetch" default:"4" range:"prefetch" resume:"free" doc:"batches prepared ahead in the background"`
	// Timeout is also that of opening the text.
	Timeout duration `yaml:"timeout" default:"10m" range:"duration" resume:"free" doc:"time that reading a batch may take before the run ends with an error; empty: no limit"`
}

// optimizer names an optimizer and what all of them share; its own parameters
// stand beside, as `gputrain optimizers NAME` lists them.
type optimizer struct {
	Name         string   `yaml:"name" default:"adamw" range:"optimizers" doc:"the optimizer; gputrain optimizers lists all"`
	LearningRate float64  `yaml:"learning_rate" default:"0.0015" range:"0..1e6" resume:"reschedule" doc:"peak learning rate. With model.from the default is a thirtieth of the optimizer's rate for a new model (gputrain optimizers), and a tenth for adapters: 0.00005 and 0.00015 for adamw; with preference.loss a tenth of these, with rollout.loss a fiftieth and a fifteenth, with head.objective and adapters 0.0001"`
	Schedule     schedule `yaml:"schedule" doc:"the rate over the run"`
	WeightDecay  float64  `yaml:"weight_decay" default:"0.1" range:"0..1e6" doc:"decoupled weight decay, scaled by the learning rate"`
	DecayMask    []string `yaml:"decay_mask" range:"pattern" doc:"regular expressions of the parameter paths that decay; empty: all matrices, no vectors"`
	Rates        []rate   `yaml:"rates" doc:"multipliers of the learning rate by parameter path, such as [{match: '^wte|^wpe', multiplier: 0.1}, {match: '^h\\.[01]\\.', multiplier: 0}]; the first match holds. 0 freezes a parameter: it is read but not trained, and has no gradient, no share in the norm and no optimizer state"`
	ClipGrad     *float64 `yaml:"clip_grad" default:"1" range:">0" doc:"largest global gradient norm; null: no clipping"`
	Numerics     string   `yaml:"numerics" default:"stable" range:"numerics" doc:"stable or eformer"`

	Hyperball     hyperball `yaml:"hyperball" range:"pattern" doc:"matrices that keep their norm, on a sphere along which they step by the rate, whatever the size of the update: true: those that are no embedding, output head or B of an adapter; or regular expressions of parameter paths. Published rates are 0.018 (Adam, Muon) and 0.025 (PSGD). weight_decay skips them, unless cautious_decay is true. A matrix of zeros has no sphere"`
	CautiousDecay bool      `yaml:"cautious_decay" doc:"weight_decay acts only where the update shrinks a parameter, and on the matrices of hyperball too; published with 0.025"`
	UpdateFloor   float64   `yaml:"update_floor" range:"0..1e6" doc:"least norm of the update of a matrix before the rate, as a share of the norm of its parameters: a smaller one is made so large; 0: none. It takes the place of weight_decay; published for Muon: 0.35 and 0.38"`
	FloorBy       string    `yaml:"floor_by" default:"row" range:"row|matrix" doc:"whose norms update_floor compares: those of each row, which is an output, or of the matrix"`

	Lookahead lookahead `yaml:"lookahead" doc:"gradients ahead of the weights"`
	Average   average   `yaml:"average" doc:"a mean of the weights"`

	Parameters map[string]any `yaml:"parameters" doc:"the optimizer's own parameters, by name"`
}

// lookahead takes gradients ahead of the weights, along the mean of what updates moved them by.
type lookahead struct {
	Scale float64 `yaml:"scale" range:"0..1e6" doc:"EMA-Nesterov: gradients are taken at the weights and this much, times the learning rate over its peak, of the mean of what updates moved them by, which takes 4 bytes a parameter; 0.3 and 0.6 are published. 0: at the weights"`
	Decay float64 `yaml:"decay" default:"0.99" range:"0..0.999999" doc:"decay of that mean"`
	From  int     `yaml:"from" range:"0.." doc:"updates that are made before the first with a gradient ahead of its weights; the mean runs from the first"`
	Until int     `yaml:"until" range:"0.." doc:"updates that are made before the first without one again; 0: all that follow have one"`
}

// average is a mean of the weights over the last updates.
type average struct {
	From    int      `yaml:"from" range:"0.." doc:"update after which a mean of the weights begins; best at least five times horizon before the end"`
	Horizon float64  `yaml:"horizon" range:"0..1e6" doc:"updates that the mean of the weights covers, 1 or more: each update moves it by 1/horizon of its distance to them. It takes 4 bytes a parameter, and training never reads it; 150 is published. 0: no mean"`
	Blend   float64  `yaml:"blend" default:"0.6" range:"0..1" doc:"share of the mean in the weights that are evaluated, sampled from and exported; the rest is that of the trained ones"`
	Without []string `yaml:"without" range:"pattern" doc:"regular expressions of the parameter paths that have no mean, such as ^wte: they are evaluated as they are trained"`
}

// rate multiplies the learning rate of parameters.
type rate struct {
	Match      string  `yaml:"match" json:"match" range:"pattern"` // regular expression on parameter paths
	Multiplier float64 `yaml:"multiplier" json:"multiplier" range:"0..1e6"`
}

// schedule is the learning rate as a function of the update.
type schedule struct {
	Type                 string   `yaml:"type" default:"cosine" range:"schedules" resume:"reschedule" doc:"constant, linear, cosine, polynomial or power"`
	WarmupSteps          int      `yaml:"warmup_steps" default:"-1" range:"-1.." resume:"reschedule" doc:"updates from almost 0 to the peak; -1: a twelfth of the steps, at most 50"`
	Steps                int      `yaml:"steps" range:"0.." resume:"reschedule" doc:"updates until the end value; 0: train.steps"`
	LearningRateEndRatio float64  `yaml:"learning_rate_end_ratio" default:"0.1" range:"0..1" resume:"reschedule" doc:"learning rate at the end, as a share of the peak"`
	LearningRateEnd      *float64 `yaml:"learning_rate_end" range:"0..1e6" resume:"reschedule" doc:"learning rate at the end itself, at most the peak, instead of a share; null: the share"`
	Exponent             float64  `yaml:"exponent" default:"1" range:"0..100" resume:"reschedule" doc:"cosine, polynomial, power: exponent of the decay"`
	CooldownSteps        int      `yaml:"cooldown_steps" range:"0.." resume:"reschedule" doc:"power: the rate keeps its peak until so many updates before the end, at most all after the warm-up; 0: all"`
}

// train is the section of the loop. Its keys stand in the order of Loop; one that is for another package stands after the key that its tag names.
type train struct {
	Loop
	Batch          int     `after:"steps" yaml:"batch" default:"2" range:"1.." doc:"sequences in a batch; pipeline.microbatches cuts it further"`
	Accumulate     int     `after:"batch" yaml:"accumulate" default:"1" range:"1.." doc:"batches in an update"`
	Accumulation   string  `after:"accumulate" yaml:"accumulation" default:"tree" range:"tree|sequence" doc:"how the gradients of an update's batches, and of their microbatches (pipeline.microbatches), are added up: along one tree, with the same bits on any number of ranks (tree), or each onto the sum before it, which takes no further memory and is for one rank only (sequence)"`
	SaveFrozen     bool    `after:"save_async" yaml:"save_frozen" default:"true" resume:"free" doc:"also save the parameters that optimizer.rates freezes; false: checkpoints have the trained parameters only, and name model.from and a fingerprint of the frozen ones"`
	FrozenAs       string  `after:"save_frozen" yaml:"save_frozen_as" default:"f32" range:"whole" resume:"free" doc:"type in which checkpoints have the frozen parameters: f32, or with model.base bf16 also bf16, as devices keep them, in half the bytes"`
	TensorBoard    bool    `after:"log_every" yaml:"tensorboard" default:"true" resume:"free" doc:"also write figures, histograms and samples for TensorBoard, to the folder tensorboard of the run directory"`
	LabelSmoothing float64 `after:"nan_patience" yaml:"label_smoothing" range:"0..1" doc:"share of a label's probability that all tokens of the vocabulary have in equal parts, itself among them: the loss is that much of the mean of -log p over the vocabulary, and the rest of the label's. Losses then also come as nll, without it and without train.z_loss. 0: none"`
	ZLoss          float64 `after:"label_smoothing" yaml:"z_loss" range:"0..1e6" doc:"weight of the square of the logarithm of the sum of the exponentials of a token's logits, which is added to its loss and keeps logits from growing; 0.0001 is usual. 0: none"`
	TokenAccuracy  bool    `after:"z_loss" yaml:"token_accuracy" doc:"log nll, z and token_accuracy of steps and evaluations, the share of labels that are the likeliest token, without train.label_smoothing and train.z_loss too. It reads no logits twice"`
	Seed           uint64  `yaml:"seed" default:"42" doc:"seed of initialisation, order, dropout and samples"`
	Recompute      string  `yaml:"recompute" default:"auto" range:"auto|none|attention|layers" resume:"free" doc:"activations of each layer that the backward pass computes again instead of keeping, to the same bits: nothing (none), the operands of attention, norms and activation functions (attention), everything except the layer's input (layers), or the first of these that fits the memory (auto)"`
	Storage        string  `yaml:"storage" default:"f32" range:"f32|bf16" doc:"how a step keeps its activations, its logits, and the gradients between operations: in f32, or rounded to bf16, in half the bytes; with bf16 rollouts keep keys and values so, too. Operations compute and add up in f32; parameters, their gradients and the optimizer's state stay in f32"`
	Products       string  `yaml:"products" default:"f32" range:"f32|f16" doc:"how products of matrices read their operands: in f32, or rounded to f16, as matrix units multiply them (device.matrix). Sums, and everything else, stay in f32; the loss is scaled by a power of two that the run adapts"`
	MemoryLimit    string  `yaml:"memory_limit" range:"size" resume:"free" doc:"most device memory to use on one adapter, such as 6GiB, however many stages it has; empty: all it has"`
}

// pipeline cuts the model into stages and binds them to adapters.
type pipeline struct {
	Stages       int              `yaml:"stages" default:"1" range:"1.." resume:"free" doc:"stages that the model is cut into, each on its own device; 1: not cut"`
	Adapters     []adapter        `yaml:"adapters" resume:"free" doc:"adapter of each stage, numbered as by gputrain devices, or one for all; with rank:adapter, such as ['0:0', '1:0'], the stages are on several ranks, counted within one pipeline, and auto is the adapter that a rank would take by itself. Empty: --adapter, or the fastest"`
	Schedule     string           `yaml:"schedule" default:"1f1b" range:"gpipe|1f1b|interleaved" resume:"free" doc:"order of microbatches: gpipe (all forwards, then all backwards), 1f1b (in turn, less memory) or interleaved (1f1b over several parts a stage, less waiting)"`
	Microbatches int              `yaml:"microbatches" default:"1" range:"1.." doc:"pieces that a batch is cut into so that stages work at the same time; a divisor of train.batch. It changes the rounding, so a resumed run keeps it"`
	Chunks       int              `yaml:"chunks" range:"0.." resume:"free" doc:"interleaved: parts of the model on each stage; 0: 2 (other schedules: 1)"`
	Ahead        int              `yaml:"ahead" range:"0.." resume:"free" doc:"1f1b: forward passes that every stage except the last runs beyond those that the schedule needs, which hides slow links. Each takes the memory of a microbatch"`
	Devices      string           `yaml:"devices" default:"adapter" range:"adapter|stage" resume:"free" doc:"adapter: stages that name one adapter share a device; stage: every stage has its own"`
	Rules        []partition.Rule `yaml:"rules" resume:"free" doc:"stage of parameters by path, such as [{match: '^wte|^wpe|^h\\.[01]\\.', stage: 0}, {match: '^h\\.[23]\\.|^ln_f', stage: 1}]; each parameter must have exactly one stage. Empty: a cut that makes the slowest stage as fast as possible"`
}

// device is how adapters are used; nothing of it changes what a run computes.
type device struct {
	SubmitLimit duration `yaml:"submit_limit" default:"0.5s" range:"duration" resume:"free" doc:"longest time that one submit to an adapter is expected to take. A longer step is cut into several submits, to the same bits. Windows resets a driver after two seconds of one submit. Empty or 0s: never cut"`
	Texels      string   `yaml:"texels" default:"auto" range:"auto|off|reuse|all|force" resume:"free" doc:"software adapters: which kernels read their operands from textures, which take extra memory: none (off), kernels that read each element many times (reuse), all that gain by it (all), or as a measurement of the adapter says (auto). force is for tests"`
	Matrix      string   `yaml:"matrix" default:"off" range:"off|auto" resume:"free" doc:"matrix units of the adapter, which make products of f16 (train.products): used where Linux's Vulkan driver has them and they compute rightly (auto), or not (off). A run does not resume on another kind of unit"`
}

// cluster is how ranks train one model.
type cluster struct {
	ShardOptimizer bool     `yaml:"shard_optimizer" resume:"free" doc:"divide the optimizer's state and the update over the ranks, with the same bits: each rank keeps its part of the state, and sends the others the parameters that it updates"`
	Wire           string   `yaml:"wire" default:"f32" range:"f32|bf16" doc:"how gradients travel between ranks: unchanged (f32), or rounded, with half the bytes (bf16); the bits then depend on the number of ranks"`
	Bucket         string   `yaml:"bucket" range:"size" resume:"free" doc:"gradients that travel together, such as 4MiB, while the next ones are read from the device. Empty: 4 MiB, or 256 KiB for each rank if that is more"`
	Timeout        duration `yaml:"timeout" default:"5m" range:"duration" resume:"free" doc:"how long to wait for another rank, on top of 20 times its expected work, before the run ends with an error that names it"`
}

// interleaved is the schedule in which a stage has several parts of the model.
const interleaved = "interleaved"

// PartsPerStage is Chunks in force.
func (p pipeline) PartsPerStage() int {
	switch {
	case p.Chunks > 0:
		return p.Chunks
	case p.Schedule == interleaved:
		return 2
	}
	return 1
}
