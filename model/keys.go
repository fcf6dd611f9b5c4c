package model

// Keys are those of a run file that size a new network. A family takes those that it has a use for. The tags are those of package
// train/runfile.
type Keys struct {
	Layers       int     `yaml:"layers" default:"4" range:"1.." doc:"transformer blocks"`
	Heads        int     `yaml:"heads" default:"4" range:"1.." doc:"attention heads in a block"`
	KVHeads      int     `yaml:"kv_heads" range:"0.." doc:"llama: key and value heads, a divisor of heads; 0: as many as heads"`
	Width        int     `yaml:"width" default:"128" range:"1.." doc:"embedding width, a multiple of heads"`
	Intermediate int     `yaml:"intermediate" range:"0.." doc:"width of the feed-forward layer; 0: 4 x width (gpt2), or 8/3 x width rounded up to a multiple of 16 (llama)"`
	Context      int     `yaml:"context" default:"128" range:"1.." doc:"tokens in a sequence"`
	Vocab        int     `yaml:"vocab" range:"0.." doc:"size of the vocabulary; 0: what the data has (256 for bytes, 65536 for bare u16, with a tokenizer its tokens, rounded up to a multiple of 64)"`
	Dropout      float64 `yaml:"dropout" range:"0..0.999" doc:"gpt2: probability of dropping an activation in training. It also replaces the dropout of model.from"`
	TieHead      bool    `yaml:"tie_head" doc:"llama: the output head shares the embedding's weights (gpt2 always does)"`
	RopeTheta    float64 `yaml:"rope_theta" default:"10000" range:">0" doc:"llama: base of the rotary frequencies"`
}
