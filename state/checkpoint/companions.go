package checkpoint

import "slices"

// GenerationFile says how text is drawn from a model.
const GenerationFile = "generation_config.json"

// Companions are the names of what goes where a model goes, byte for byte: the files of its tokenizer, and how text is
// drawn from it.
var Companions = []string{
	"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
	"chat_template.jinja", "chat_template.json", GenerationFile,
}

// Files of a checkpoint that leaves some of a model's parameters to another directory, its base.
const (
	adapterWeightsFile = "adapter_model.safetensors"
	adapterConfigFile  = "adapter_config.json"
	baseFile           = "base.json"
)

// isBeside tells files that a checkpoint may have beside those of every one. The manifest names them, unless the save was interrupted before.
func isBeside(name string) bool {
	return name == baseFile || name == adapterConfigFile || slices.Contains(Companions, name)
}
