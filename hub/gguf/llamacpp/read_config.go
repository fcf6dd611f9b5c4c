package llamacpp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gputrain/hub/gguf"
)

// config is the config.json of the model.
func (d *Directory) config() ([]byte, error) {
	c, err := d.sizes()
	if err != nil {
		return nil, err
	}
	if d.kind != "gpt2" {
		if err := d.rotation(c); err != nil {
			return nil, err
		}
		d.windows(c)
	}
	if d.family.read != nil {
		d.family.read(d, c)
	}
	_, headed := d.file.Info("output.weight")
	c["model_type"], c["architectures"], c["tie_word_embeddings"] = d.kind, []string{d.family.class}, !headed
	if embedding, _ := d.file.Info("token_embd.weight"); embedding.Type == gguf.BF16 || embedding.Type == gguf.F16 {
		c["torch_dtype"] = map[gguf.Type]string{gguf.BF16: "bfloat16", gguf.F16: "float16"}[embedding.Type]
	}
	for _, name := range []string{"bos", "eos"} {
		c[name+"_token_id"] = nil
		if ids := d.vocab().ids(name); len(ids) > 0 {
			c[name+"_token_id"] = ids[0]
		}
	}
	return json.MarshalIndent(c, "", "  ")
}

// sizes are the keys of config.json that say how large the model is.
func (d *Directory) sizes() (map[string]any, error) {
	embedding, ok := d.file.Info("token_embd.weight")
	if !ok || len(embedding.Shape) != 2 {
		return nil, fmt.Errorf("tensor token_embd.weight: found none, wanted a matrix")
	}
	c := map[string]any{"vocab_size": embedding.Shape[0]}
	var failed error
	size := func(key string) int {
		n, ok := d.stated.integer(key)
		if each := d.stated.list(key); d.family.listed && len(each) > 0 {
			n, ok = each[0], true
		}
		if (!ok || n < 1 || n > math.MaxInt32) && failed == nil {
			v, _ := d.file.Value(d.stated.prefix + key)
			failed = fmt.Errorf("key %s%s: found %.40s, wanted one number from 1: models whose layers differ are not read", d.stated.prefix, key, fmt.Sprint(v))
		}
		return n
	}
	eps := func(name, key string) {
		if v, ok := d.stated.number(key); ok {
			c[name] = short(v)
		}
	}
	for _, row := range [][3]string{
		{"context_length", "max_position_embeddings", "n_positions"},
		{"embedding_length", "hidden_size", "n_embd"},
		{"block_count", "num_hidden_layers", "n_layer"},
		{"feed_forward_length", "intermediate_size", "n_inner"},
		{"attention.head_count", "num_attention_heads", "n_head"},
	} {
		name := row[1]
		if d.kind == "gpt2" {
			name = row[2]
		}
		c[name] = size(row[0])
	}
	if d.kind == "gpt2" {
		eps("layer_norm_epsilon", "attention.layer_norm_epsilon")
		return c, failed
	}
	c["num_key_value_heads"] = c["num_attention_heads"]
	if _, said := d.file.Value(d.stated.prefix + "attention.head_count_kv"); said {
		if each := d.stated.list(keyHeads); d.family.arch == "lfm2" && len(each) > 0 { // 0 in layers that are convolutions
			c["num_key_value_heads"] = max(1, slices.Max(each))
		} else {
			c["num_key_value_heads"] = size(keyHeads)
		}
	}
	eps("rms_norm_eps", "attention.layer_norm_rms_epsilon")
	if failed != nil {
		return nil, failed
	}
	head := c["hidden_size"].(int) / c["num_attention_heads"].(int)
	if n, ok := d.stated.integer("attention.key_length"); ok {
		head = n
	}
	c["head_dim"] = head
	if n, ok := d.stated.integer("rope.dimension_count"); ok && n != head && head > 0 {
		c["partial_rotary_factor"] = float64(n) / float64(head)
	}
	if slices.Contains([]string{"llama", "qwen3", "granite"}, d.kind) {
		_, c["attention_bias"] = d.file.Info("blk.0.attn_q.bias")
	}
	if d.kind == "llama" || d.kind == "granite" {
		_, c["mlp_bias"] = d.file.Info("blk.0.ffn_up.bias")
	}
	return c, nil
}

// rotation are the keys of positions.
func (d *Directory) rotation(c map[string]any) error {
	theta := d.stated.or("rope.freq_base", 10000)
	if d.kind == "gemma3_text" { // Ollama leaves bases out, or has names of its own for them
		theta = d.stated.or("rope.freq_base", d.stated.or("rope.global.freq_base", 1e6))
		c["rope_local_base_freq"] = d.stated.or("rope.freq_base_swa", d.stated.or("rope.local.freq_base", 10000))
	}
	c["rope_theta"] = theta
	switch rule := d.stated.text("rope.scaling.type"); rule {
	case "", "none":
	case "linear":
		c["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": d.stated.or("rope.scaling.factor", 0)}
	case "yarn":
		return d.yarn(c)
	case "longrope": // which the tensors say
	default:
		return fmt.Errorf("key %srope.scaling.type: found %q, wanted none, linear, yarn or longrope: others are not read", d.stated.prefix, rule)
	}
	if d.kind == "phi3" {
		return d.longRope(c)
	}
	if d.family.listed {
		return nil
	}
	factors, err := d.factors(ropeFactors)
	if factors == nil || err != nil {
		return err
	}
	rule, err := llama3Rule(factors, theta, c["head_dim"].(int))
	if err != nil {
		return fmt.Errorf("tensor %s: %w", ropeFactors, err)
	}
	if rule != nil {
		c["rope_scaling"] = rule
	}
	return nil
}

// factors are what frequencies are divided by; nil where a file has no such tensor.
func (d *Directory) factors(name string) ([]float32, error) {
	info, ok := d.file.Info(name)
	if !ok {
		return nil, nil
	}
	factors := make([]float32, info.Elements())
	return factors, d.file.Floats(name, factors, 0)
}

func (d *Directory) yarn(c map[string]any) error {
	factor, ok := d.stated.number("rope.scaling.factor")
	original, begun := d.stated.integer("rope.scaling.original_context_length")
	if !ok || !begun || original < 1 {
		return fmt.Errorf("key %srope.scaling.original_context_length: found no such number, or no rope.scaling.factor, wanted both for yarn", d.stated.prefix)
	}
	rule := map[string]any{"rope_type": "yarn", "factor": short(factor), "original_max_position_embeddings": original}
	for _, turns := range yarnTurns {
		if v, ok := d.stated.number("rope.scaling.yarn_" + turns.key); ok && v != turns.usual {
			rule[turns.key] = short(v)
		}
	}
	if by, ok := d.stated.number("rope.scaling.attn_factor"); ok && by != 1 {
		rule["attention_factor"], _ = strconv.ParseFloat(strconv.FormatFloat(by*yarnAmplify(factor), 'g', 7, 64), 64) // as many digits as by has
	}
	c["rope_scaling"] = rule
	return nil
}

// longRope are the factors of Phi 3 for short texts and for long ones.
func (d *Directory) longRope(c map[string]any) error {
	within, err := d.factors(ropeShort)
	if err != nil || within == nil {
		return err
	}
	beyond, err := d.factors(ropeLong)
	if err != nil {
		return err
	}
	original, ok := d.stated.integer("rope.scaling.original_context_length")
	if !ok || original < 1 || beyond == nil {
		return fmt.Errorf("tensor %s: found no %s beside it, or no key %srope.scaling.original_context_length, wanted both", ropeShort, ropeLong, d.stated.prefix)
	}
	c["original_max_position_embeddings"] = original
	rule := map[string]any{"type": "longrope", "short_factor": within, "long_factor": beyond}
	usual := longAmplify(c["max_position_embeddings"].(int), float64(original))
	if by, ok := d.stated.number("rope.scaling.attn_factor"); ok && math.Abs(by-usual) > 1e-6 {
		rule["attention_factor"] = short(by)
	}
	c["rope_scaling"] = rule
	return nil
}

// llama3Rule is the rule of Llama 3.1 that gives some factors, nil where they change nothing. A file has the factors alone: of the rules that published models
// have, and their neighbours, one must give the same.
func llama3Rule(factors []float32, theta float64, head int) (map[string]any, error) {
	if len(factors) != head/2 {
		return nil, fmt.Errorf("found %d factors, wanted %d, one for each pair of a head", len(factors), head/2)
	}
	most := slices.Max(factors)
	if most == 1 && slices.Min(factors) == 1 {
		return nil, nil
	}
	for began := 8192; began >= 32; began /= 2 {
		for _, high := range []float64{4, 2, 8} {
			rule := map[string]any{"rope_type": "llama3", "factor": float64(most), "low_freq_factor": 1.0, "high_freq_factor": high, "original_max_position_embeddings": float64(began)}
			made := (&config{rule}).llama3(theta, head)
			if slices.EqualFunc(made, factors, func(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-5*float64(b) }) {
				return rule, nil
			}
		}
	}
	return nil, fmt.Errorf("found factors up to %g that no known rule gives, wanted those of Llama 3.1: others are not read", most)
}

// windows are the keys of Gemma's windows, caps and scale.
func (d *Directory) windows(c map[string]any) {
	if !d.family.plusOne {
		return
	}
	scale := c["head_dim"].(int)
	if c["num_hidden_layers"] == map[string]int{"gemma2": 46, "gemma3_text": 62}[d.kind] {
		scale = c["hidden_size"].(int) / c["num_attention_heads"].(int)
	}
	c["query_pre_attn_scalar"] = scale
	c["sliding_window"] = int(d.stated.or("attention.sliding_window", map[string]float64{"gemma2": 4096, "gemma3_text": 1024}[d.kind]))
	if d.kind == "gemma3_text" {
		const key = "attention.sliding_window_pattern"
		c["sliding_window_pattern"] = int(d.stated.or(key, 6))
		d.layerTypes(c) // as Ollama has it
		return
	}
	c["attn_logit_softcapping"], c["final_logit_softcapping"] = d.stated.or("attn_logit_softcapping", 50), d.stated.or("final_logit_softcapping", 30)
}

// layerTypes says which layers have a window, where a file has a list of that.
func (d *Directory) layerTypes(c map[string]any) {
	v, _ := d.file.Value(d.stated.prefix + "attention.sliding_window_pattern")
	if each, ok := v.([]bool); ok {
		var types []string
		for _, slides := range each {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[slides])
		}
		c["layer_types"] = types
	}
}

// generation says which tokens end a text: more than one, where turns have an end of their own.
func (d *Directory) generation() ([]byte, error) {
	ends := []int{}
	for _, name := range []string{"eos", "eot", "eom"} {
		for _, id := range d.vocab().ids(name) {
			if !slices.Contains(ends, id) {
				ends = append(ends, id)
			}
		}
	}
	return json.Marshal(map[string]any{"eos_token_id": ends})
}

// short is the shortest number that is the same float32: 1e-5 and not 9.999999747378752e-06.
func short(v float64) float64 {
	raw, err := json.Marshal(float32(v))
	var out float64
	if err != nil || json.Unmarshal(raw, &out) != nil {
		return v
	}
	return out
}
