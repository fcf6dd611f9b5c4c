package checkpoint

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"gputrain/gguf/modeldir"
	"gputrain/model"
)

// GenerationFile says how text is drawn from a model.
const GenerationFile = "generation_config.json"

// companionNames are the names of what a model's directory has for other programs beside the model.
var companionNames = append(modeldir.TokenizerFiles(), GenerationFile)

// Companions are the files beside a model in dir that go where it goes, byte for byte: its tokenizer's, and how text is drawn from it.
func Companions(dir string) ([]Source, error) {
	var out []Source
	for _, name := range companionNames {
		raw, err := modeldir.Read(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, TextFile(name, raw))
	}
	return out, nil
}

// isBeside tells files that a checkpoint may have beside those of every one. The manifest names them, unless the save was interrupted before.
func isBeside(name string) bool {
	return name == model.BaseFile || name == model.AdapterConfigFile || slices.Contains(companionNames, name)
}
