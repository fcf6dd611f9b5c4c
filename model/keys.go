package model

// Keys are those of a run file that size a new network. A family takes those that it has a use for. The tags are those of package
// train/runfile.
type Keys struct {
	Layers       int     `yaml:"layers" default:"4" range:"1.." doc:"transformer blocks"`
	Heads        int     `yaml:"heads" default:"4" range:"1.." doc:"attention heads in a block"`
	KVHeads      int     `yaml:"kv_heads" range:"0.." doc:"all but gpt2: key and value heads, a divisor of heads; 0: as many as heads"`
	HeadDim      int     `yaml:"head_dim" range:"0.." doc:"all but gpt2: width of a head, even; 0: width / heads"`
	Width        int     `yaml:"width" default:"128" range:"1.." doc:"embedding width, a multiple of heads if head_dim is 0"`
	Intermediate int     `yaml:"intermediate" range:"0.." doc:"width of the feed-forward layer; 0: 4 x width (gpt2), or 8/3 x width rounded up to a multiple of 16 (all others)"`
	Window       int     `yaml:"window" range:"0.." doc:"gemma2, gemma3_text, mistral, phi3, qwen2, qwen3, smollm3: tokens that a token sees in layers with a window; 0: 4096 (gemma2), 512 (gemma3_text) or no window"`
	Context      int     `yaml:"context" default:"128" range:"1.." doc:"tokens in a sequence; with model.from at most that model's"`
	Vocab        int     `yaml:"vocab" range:"0.." doc:"size of the vocabulary; 0: as the data needs (256 for bytes, 65536 for bare u16, with a tokenizer the number of its tokens, rounded up to a multiple of 64)"`
	Dropout      float64 `yaml:"dropout" range:"0..0.999" doc:"gpt2: probability of dropping an activation in training. It also overrides the dropout of model.from"`
	TieHead      bool    `yaml:"tie_head" doc:"all but gpt2: the output head shares the embedding's weights (gpt2 always does)"`
	RopeTheta    float64 `yaml:"rope_theta" default:"10000" range:">0" doc:"all but gpt2: base of the rotary frequencies"`
}
