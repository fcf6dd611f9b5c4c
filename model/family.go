package model

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gputrain/internal/embeddings"
	"gputrain/internal/suggest"
)

// A Family is one row of the registry: every fact about the networks of one model_type that a Definition does not tell of itself. A matrix
// that files have in one piece, as GPT-2's c_attn, is one parameter, which Build cuts.
type Family struct {
	Kind string // model_type in config.json, model.kind in a run file
	// Read makes the definition that a config.json describes. A setting that asks for what the network cannot do is an error.
	Read func(c *ConfigReader) (Definition, error)
	// New makes the network of a run file's keys, without dropout; nil where there are none of it but from files.
	New func(k Keys) (Definition, error)
	// usual are the proportions of its published models, where New is there and Sized may use it.
	usual proportions
	// Embeddings are the paths of the tables that are looked up by token, the first, and by position. Head is that of the logits; without such
	// a parameter the head is the first table, of which files may have a copy as Head. Optimizers that treat matrices alone leave them out.
	Embeddings []string
	Positions  string // that of positions among them; "": none
	Head       string
	// Class is what transformers calls its networks, without what it calls their heads: "Qwen3". "": the kind, with a capital letter.
	Class string
	// Prefix is what files may have before every path but Head, and are written with where there is a Head.
	Prefix string
	// Root is what paths begin with and files of a network without a head may leave out.
	Root string
	// Path is the parameter that a tensor of a file holds where its name is not its path, nor that with Prefix; nil for none such.
	Path func(name string) string
	// Constants are tensors of files that are no parameters, for they follow from config.json; nil for none.
	Constants *regexp.Regexp
	// Dead are tensors of files that are passed over where a network has no such parameters; nil for none.
	Dead *regexp.Regexp
	// beside are tensors of other parts of a model that the network is the text part of; nil for none.
	beside *regexp.Regexp
}

var families = map[string]Family{}

// Register adds a family. It is called by init functions, here and in programs that bring a family of their own. A kind that is taken, and a
// family that config.json is not read for, are a panic.
func Register(f Family) {
	if _, taken := families[f.Kind]; taken || f.Kind == "" || f.Read == nil {
		panic(fmt.Sprintf("model: register: found %q, wanted a kind not yet taken and a reader", f.Kind))
	}
	f.mayBeWrapped()
	families[f.Kind] = f
	embeddings.Register(append(slices.Clone(f.Embeddings), f.Head, scoreWeight)...)
}

// Kinds lists the families that New makes networks of.
func Kinds() (kinds []string) {
	for _, kind := range registered() {
		if families[kind].New != nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func registered() []string { return slices.Sorted(maps.Keys(families)) }

// familyOf is the row of a kind.
func familyOf(kind string) (Family, error) {
	f, ok := families[kind]
	if !ok {
		return f, fmt.Errorf("model: config: model_type: %q, want one of %q%s%s", kind, registered(), suggest.DidYouMean(kind, registered()), lacking(kind))
	}
	return f, nil
}

// unknownKind is the error of a config.json whose model_type is none of ours.
func unknownKind(kind string, c *ConfigReader) error {
	if kind == "" && !c.has("model_type") {
		return fmt.Errorf("model: config: model_type: found none, wanted one of %q: is it the config.json of a model?", registered())
	}
	_, err := familyOf(kind)
	if lacking(kind) == "" {
		for _, m := range missingKeys {
			if raw := strings.Trim(string(c.fields[m.key]), " \t\r\n"); !slices.Contains([]string{"", "null", "false", "0", "[]", "{}"}, raw) && strings.Contains(raw, m.part) {
				return fmt.Errorf("%w: %s (%s) are not supported", err, m.what, m.key)
			}
		}
	}
	return err
}

// missingKeys are keys that tell of the same where the name does not, and what their value contains.
var missingKeys = []struct{ key, part, what string }{
	{"num_experts", "", "mixtures of experts"},
	{"num_local_experts", "", "mixtures of experts"},
	{"n_routed_experts", "", "mixtures of experts"},
	{"moe_intermediate_size", "", "mixtures of experts"},
	{"vision_config", "", "images"},
	{"audio_config", "", "sound"},
	{"is_encoder_decoder", "true", "encoders"},
	{"layer_types", "linear_attention", "linear attention"},
	{"layer_types", "mamba", "state spaces"},
	{"layer_types", "conv", "convolutions"},
	{"mamba_d_state", "", "state spaces"},
	{"ssm_cfg", "", "state spaces"},
	{"state_size", "", "state spaces"},
	{"q_lora_rank", "", "latent queries"},
	{"kv_lora_rank", "", "latent keys and values"},
}

// missing is what networks have that this package has no operation for, by a part of what they are called.
var missing = []struct{ part, what string }{
	{"moe", "mixtures of experts"},
	{"mixtral", "mixtures of experts"},
	{"deepseek", "mixtures of experts"},
	{"llama4", "mixtures of experts"},
	{"dbrx", "mixtures of experts"},
	{"jamba", "mixtures of experts"},
	{"vl", "images"},
	{"vision", "images"},
	{"llava", "images"},
	{"mllama", "images"},
	{"paligemma", "images"},
	{"gemma3n", "images"},
	{"gemma4_", "images"},
	{"mistral3", "images"},
	{"idefics", "images"},
	{"smolvlm", "images"},
	{"omni", "images and sound"},
	{"whisper", "sound"},
	{"mamba", "state spaces"},
	{"bamba", "state spaces"},
	{"nemotron_h", "state spaces"},
	{"hybrid", "state spaces"},
	{"rwkv", "linear attention"},
	{"qwen3_next", "linear attention"},
	{"qwen3_6", "linear attention"},
	{"minimax", "linear attention"},
	{"recurrent_gemma", "recurrent layers"},
	{"t5", "encoders"},
	{"bert", "encoders"},
	{"bart", "encoders"},
	{"pegasus", "encoders"},
	{"marian", "encoders"},
	{"m2m_100", "encoders"},
}

// lacking says what stands in the way of a family that is known but not had.
func lacking(kind string) string {
	for _, m := range missing {
		if strings.Contains(kind, m.part) {
			return ": " + m.what + " are not supported"
		}
	}
	return ""
}

// New makes a network of a run file's keys; kind is one of Kinds.
func New(kind string, k Keys) (Definition, error) {
	f, err := familyOf(kind)
	if err != nil {
		return nil, err
	}
	if f.New == nil {
		return nil, fmt.Errorf("model: new: found %q, wanted one of %s", kind, strings.Join(Kinds(), ", "))
	}
	def, err := f.New(k)
	if err != nil {
		return nil, err
	}
	if def, err = WithDropout(def, k.Dropout); err != nil || k.Balance == nil {
		return def, err
	}
	return WithBalance(def, *k.Balance)
}

// path is the parameter that a tensor of a file holds; "" for a constant, or another part's.
func (f Family) path(name string) string {
	if f.Constants != nil && f.Constants.MatchString(name) || f.beside != nil && f.beside.MatchString(name) {
		return ""
	}
	path := strings.TrimPrefix(name, f.Prefix)
	if f.Path != nil {
		path = f.Path(name)
	}
	if f.isHead(path) || strings.HasPrefix(path, f.Root) {
		return path
	}
	return f.Root + path
}

// PathOf is the parameter of def that a tensor of a file of its family holds, as its name says; "" for none.
func PathOf(def Definition, name string) string {
	family, err := familyOf(def.Kind())
	switch {
	case err != nil:
		return name
	case strings.HasPrefix(name, peftPrefix):
		return family.tensorPath(name)
	}
	return family.path(name)
}

// name is what a file has the parameter at path as; headed where it has a head too.
func (f Family) name(path string, headed bool) string {
	if headed && !f.isHead(path) {
		return f.Prefix + path
	}
	return path
}

// adapterName is what a new PEFT file of def has a parameter of its adapters as: of a network without a head as transformers calls that's modules.
func (f Family) adapterName(def Definition, path string) string {
	switch rest, ok := strings.CutPrefix(path, peftPrefix+textRoot); {
	case wrapperOf(def) != nil && ok:
		return peftPrefix + wrappedRoot + rest
	case HeadOf(def).Kind != HeadVectors:
		return path
	}
	return peftPrefix + strings.TrimPrefix(strings.TrimPrefix(path, peftPrefix), f.Prefix+f.Root)
}

// isHead tells whether the parameter at path is that of a head.
func (f Family) isHead(path string) bool { return path == f.Head || path == scoreWeight }

// nameIn gives what files of def have the parameter at a path as: without a head without what then may be left out.
func (f Family) nameIn(def Definition) func(path string) string {
	w, head, named := wrapperOf(def), HeadOf(def).Kind, f.hasHead(def.Params())
	return func(path string) string {
		switch ofAdapter := strings.HasPrefix(path, peftPrefix); {
		case w != nil && ofAdapter:
			return f.adapterName(def, path)
		case ofAdapter:
			return path
		case w != nil:
			return w.name(path)
		case head == HeadScores:
			return f.name(path, true)
		case head == HeadVectors:
			return strings.TrimPrefix(path, f.Root)
		}
		return f.name(path, named)
	}
}

// tied tells whether the logits of def are made by its embedding.
func (f Family) tied(def Definition) bool {
	return f.Head != "" && len(f.Embeddings) > 0 && HeadOf(def).Kind == "" && !f.hasHead(def.Params())
}

// hasHead tells whether there is a parameter for the logits.
func (f Family) hasHead(params []Param) bool {
	return slices.ContainsFunc(params, func(p Param) bool { return p.Path == f.Head })
}

// Keys are those of a run file that size a new network. A family takes those that it has a use for. The tags are those of package
// train/runfile.
type Keys struct {
	Layers       int     `yaml:"layers" default:"4" range:"1.." doc:"transformer blocks"`
	Heads        int     `yaml:"heads" default:"4" range:"1.." doc:"attention heads in a block"`
	KVHeads      int     `yaml:"kv_heads" range:"0.." doc:"all but gpt2: key and value heads, a divisor of heads; 0: as many as heads"`
	HeadDim      int     `yaml:"head_dim" range:"0.." doc:"all but gpt2: width of a head, even; 0: width / heads"`
	Width        int     `yaml:"width" default:"128" range:"1.." doc:"embedding width, a multiple of heads if head_dim is 0"`
	Intermediate int     `yaml:"intermediate" range:"0.." doc:"width of the feed-forward layer; of each expert (gpt_oss, qwen3_5_moe_text, qwen3_moe) half of it; 0: 4 x width (gpt2), or 8/3 x width rounded up to a multiple of 16 (all others)"`
	Window       int     `yaml:"window" range:"0.." doc:"gemma2, gemma3_text, gemma4_text, gpt_oss, ministral3, mistral, olmo3, phi3, qwen2, qwen3, qwen3_moe, smollm3: tokens that a token sees in layers with a window; 0: 4096 (gemma2, olmo3), 512 (gemma3_text, gemma4_text), 128 (gpt_oss) or no window"`
	Context      int     `yaml:"context" default:"128" range:"1.." doc:"tokens in a sequence; with model.from at most that model's"`
	Vocab        int     `yaml:"vocab" range:"0.." doc:"size of the vocabulary; 0: as the data needs (256 for bytes, 65536 for bare u16, with a tokenizer the number of its tokens, rounded up to a multiple of 64)"`
	Dropout      float64 `yaml:"dropout" range:"0..0.999" doc:"gpt2: probability of dropping an activation in training. It also overrides the dropout of model.from"`
	TieHead      bool    `yaml:"tie_head" doc:"all but gpt2: the output head shares the embedding's weights (gpt2 always does)"`
	RopeTheta    float64 `yaml:"rope_theta" default:"10000" range:">0" doc:"all but gpt2: base of the rotary frequencies"`

	Balance *float64 `yaml:"router_aux_loss_coef" range:"0..1e30" doc:"gpt_oss, qwen3_5_moe_text, qwen3_moe: what the loss that [balances experts](#experts) counts; 0: nothing. null: what config.json has where that says output_router_logits, else 0"`
}
