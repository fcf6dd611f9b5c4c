package model

import "encoding/json"

// Reads tells whether models of a kind can be read.
func Reads(kind string) bool {
	_, err := familyOf(kind)
	return err == nil
}

// KeysOf is what a model has in the words of a run file. What its family has no use for is 0.
func KeysOf(def Definition) Keys {
	raw, _ := json.Marshal(def.Settings()) // a config.json can be written
	settings := map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &settings)
	k := Keys{
		Layers: numberOf[int](settings, "num_hidden_layers", "n_layer"), Heads: numberOf[int](settings, "num_attention_heads", "n_head"),
		KVHeads: numberOf[int](settings, "num_key_value_heads"), HeadDim: numberOf[int](settings, "head_dim"),
		Width: numberOf[int](settings, "hidden_size", "n_embd"), Intermediate: numberOf[int](settings, "intermediate_size", "n_inner"),
		Window: numberOf[int](settings, "sliding_window"), Context: def.Context(), Vocab: def.Vocab(), RopeTheta: numberOf[float64](settings, "rope_theta"),
	}
	if string(settings["use_sliding_window"]) == "false" {
		k.Window = 0
	}
	if k.RopeTheta == 0 { // newer files
		rope := map[string]json.RawMessage{}
		_ = json.Unmarshal(settings["rope_parameters"], &rope)
		k.RopeTheta = numberOf[float64](rope, "rope_theta")
	}
	if k.KVHeads == 0 {
		k.KVHeads = k.Heads
	}
	if k.HeadDim == 0 && k.Heads > 0 {
		k.HeadDim = k.Width / k.Heads
	}
	if family, err := familyOf(def.Kind()); err == nil && family.Head != "" {
		k.TieHead = family.tied(def)
	}
	return k
}

// numberOf is the first of some settings that is a number there; 0: none is.
func numberOf[N int | float64](settings map[string]json.RawMessage, names ...string) (n N) {
	for _, name := range names {
		if json.Unmarshal(settings[name], &n) == nil && n != 0 {
			return n
		}
	}
	return 0
}
