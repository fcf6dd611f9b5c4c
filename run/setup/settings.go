package setup

import (
	"path/filepath"
	"slices"
	"strings"

	"gputrain/model"
	"gputrain/run/record"
	"gputrain/run/runfile"
)

// ofModel is where values come from that a model has which was read.
const ofModel = "default: of model.from"

// Settings are the values that a resumed run must share, and those it may change. Of a model that was read they are the model's own: the run compares
// what that is by its parameters.
func Settings(cfg *runfile.Config, def model.Definition) []record.Setting {
	var own map[string]any
	if cfg.Model.From != "" && def != nil {
		k := model.KeysOf(def)
		own = map[string]any{
			"model.kind": def.Kind(), "model.layers": k.Layers, "model.heads": k.Heads, "model.kv_heads": k.KVHeads, "model.head_dim": k.HeadDim,
			"model.width": k.Width, "model.intermediate": k.Intermediate, "model.window": k.Window, "model.vocab": k.Vocab, "model.tie_head": k.TieHead,
			"model.rope_theta": k.RopeTheta,
		}
	}
	var out []record.Setting
	for key, value := range cfg.Values() {
		path, text := value.(string)
		file := slices.Contains([]string{"model.from", "lora.from", "data.tokenizer", "distil.teacher"}, key) || key == "data.template" && strings.HasSuffix(path, ".jinja")
		if text && path != "" && file {
			if abs, err := filepath.Abs(path); err == nil { // a run goes on from any directory
				value = abs
			}
		}
		s := record.NewSetting(key, value, string(cfg.Origin(key)))
		if v, read := own[key]; read {
			s.Value, s.Origin, s.Free = v, ofModel, true // an earlier program recorded the defaults of a new model
		}
		out = append(out, s)
	}
	return out
}
