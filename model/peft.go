package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
	"gputrain/internal/terminal"
)

// Files of a PEFT directory.
const (
	AdapterConfigFile  = "adapter_config.json"
	AdapterWeightsFile = "adapter_model.safetensors"
)

// peft is what an adapter_config.json says.
type peft struct {
	lora   LoRA
	base   string                     // base_model_name_or_path
	head   string                     // the kind of head that task_type is of
	fields map[string]json.RawMessage // all of the file
}

// peftIdle are keys that change no number: where the base came from, how training began, what for the adapter is.
var peftIdle = []string{
	"auto_mapping", "revision", "inference_mode", "peft_version", "megatron_core", "runtime_config", "qalora_group_size", "fan_in_fan_out",
}

// peftRefused are keys that change numbers in ways that are not known here, and what they are. A value that asks for nothing passes, as for any other key.
var peftRefused = map[string]string{
	"alora_invocation_tokens": "adapters that begin at a token", "trainable_token_indices": "single rows of an embedding that are trained",
	"lora_bias": "adapters with biases", "layer_replication": "layers that are used several times", "use_qalora": "adapters of groups of inputs",
	"loftq_config": "a base that was changed with the adapter",
	"eva_config":   "a beginning from data", "corda_config": "a base that was changed with the adapter", "megatron_config": "modules of Megatron",
	"ensure_weight_tying": "copies that stay tied", "arrow_config": "several adapters at once", "use_bdlora": "adapters of blocks",
}

// peftBegins are the values of init_lora_weights that leave the base as it is.
var peftBegins = []string{"true", "false", "null", `"gaussian"`, `"eva"`, `"orthogonal"`}

// parsePEFT reads an adapter_config.json. A key that changes numbers and is not known is an error.
func parsePEFT(raw []byte) (p peft, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&p.fields); err != nil {
		return p, stranger.Told(raw, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("something follows the object")
	}
	if p.fields == nil {
		return p, errors.New("found null, wanted an object")
	}
	c := newConfigReader(p.fields)
	if kind := c.text("peft_type", ""); kind != "LORA" && len(c.errs) == 0 {
		c.wrong("peft_type", "LORA: others are not supported")
	}
	tasks := map[string]string{"": ""}
	for _, row := range headRows {
		tasks[row.task] = row.kind
	}
	var known bool
	if p.head, known = tasks[c.text("task_type", "")]; !known {
		c.wrong("task_type", "one of CAUSAL_LM, SEQ_CLS, FEATURE_EXTRACTION: others are not supported")
	}
	p.base = c.text("base_model_name_or_path", "")
	l := &p.lora
	l.Rank = c.optionalSize("r", 8)
	l.Alpha = c.Number("lora_alpha", 8, false)
	l.Dropout = c.Number("lora_dropout", 0, true)
	l.RSLoRA, l.DoRA = c.Flag("use_rslora", false), c.Flag("use_dora", false)
	if bias := c.text("bias", "none"); bias != "none" {
		c.wrong("bias", `"none": trained biases are not supported`)
	}
	if c.has("init_lora_weights") && !slices.Contains(peftBegins, string(p.fields["init_lora_weights"])) {
		c.wrong("init_lora_weights", "one of "+strings.Join(peftBegins, ", ")+": others change the base")
	}
	l.Target, l.Save, l.parameters = c.targets("target_modules"), c.names("modules_to_save"), c.names("target_parameters")
	l.exclude = c.excluded("exclude_modules")
	if p.head == HeadScores { // it stands there whatever was asked for, and no network here has a module of the name
		l.Save = slices.DeleteFunc(l.Save, func(name string) bool { return name == classifier })
	}
	c.layers(l)
	ranks, order := patterns[int](c, "rank_pattern")
	l.RankPattern, l.rankOrder = ranks, order
	l.AlphaPattern, l.alphaOrder = patterns[float64](c, "alpha_pattern")
	c.refuseOthers()
	if err := errors.Join(c.errs...); err != nil {
		return p, err
	}
	return p, l.validate()
}

// targets is a list of names, or one expression, which matches whole names.
func (c *ConfigReader) targets(key string) []string {
	var pattern string
	if json.Unmarshal(c.fields[key], &pattern) != nil || !c.has(key) {
		return c.names(key)
	}
	if plainName.MatchString(pattern) && pattern != AllLinear {
		pattern = "(?:" + pattern + ")"
	}
	return []string{pattern}
}

// excluded is what a list of names, or ends of names, or one expression of whole names leaves out; nil: nothing.
func (c *ConfigReader) excluded(key string) *regexp.Regexp {
	var pattern string
	if !c.has(key) {
		return nil
	}
	if json.Unmarshal(c.fields[key], &pattern) != nil {
		var ends []string
		for _, name := range c.names(key) {
			ends = append(ends, regexp.QuoteMeta(name))
		}
		if len(ends) == 0 {
			return nil
		}
		pattern = `(?:.*\.)?(?:` + strings.Join(ends, "|") + ")"
	}
	matches, err := compileName(pattern)
	if err != nil {
		c.wrong(key, fmt.Sprintf("names, or a regular expression: %v", err))
	}
	return matches
}

// names is a list of names; null is none.
func (c *ConfigReader) names(key string) (names []string) {
	if !c.has(key) {
		return nil
	}
	if err := json.Unmarshal(c.fields[key], &names); err != nil || slices.Contains(names, "") {
		c.wrong(key, "a list of names")
	}
	return names
}

// layers are those of layers_to_transform: one number, or a list.
func (c *ConfigReader) layers(l *LoRA) {
	const key = "layers_to_transform"
	var one int
	switch {
	case !c.has(key):
	case json.Unmarshal(c.fields[key], &one) == nil:
		l.Layers = []int{one}
	case json.Unmarshal(c.fields[key], &l.Layers) != nil:
		c.wrong(key, "a number of a layer, or a list of such")
	}
	var pattern string
	var several []string
	if !c.has("layers_pattern") {
		return
	}
	if json.Unmarshal(c.fields["layers_pattern"], &pattern) == nil {
		several = []string{pattern}
	} else if json.Unmarshal(c.fields["layers_pattern"], &several) != nil {
		c.wrong("layers_pattern", "a name, or a list of names")
	}
	for _, name := range several {
		if !slices.Contains([]string{"layers", "h", ""}, name) {
			c.wrong("layers_pattern", "layers or h, as layers are called")
		}
	}
}

// patterns is an object of numbers by expressions, and the order of its keys.
func patterns[T int | float64](c *ConfigReader, key string) (of map[string]T, order []string) {
	if !c.has(key) {
		return nil, nil
	}
	if err := json.Unmarshal(c.fields[key], &of); err != nil {
		c.wrong(key, "an object of numbers by names")
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(c.fields[key]))
	_, _ = d.Token() // it was an object just now
	for d.More() {
		name, _ := d.Token()
		if _, err := d.Token(); err != nil {
			break
		}
		if text, ok := name.(string); ok && !slices.Contains(order, text) {
			order = append(order, text)
		}
	}
	return of, order
}

// refuseOthers names the keys of the file that nothing has read and that ask for something.
func (c *ConfigReader) refuseOthers() {
	for _, key := range peftIdle {
		c.used[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(c.fields)) {
		if c.used[key] || slices.Contains([]string{"null", "false", "{}", "[]", `""`}, compacted(c.fields[key])) {
			continue
		}
		what, known := peftRefused[key]
		if !known {
			what = "it is not known here" + suggest.DidYouMean(key, slices.Sorted(maps.Keys(c.used)))
		} else {
			what += " are not supported"
		}
		c.wrong(key, "nothing: "+what)
	}
}

// compacted is a value without spaces.
func compacted(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// classifier is a name of heads that PEFT saves whole beside headModule.
const classifier = "classifier"

// adapt is def with the adapters that p tells of, and their head where def has another: of as many labels as its tensor has rows.
func (p peft) adapt(def Definition, tensors []array.Tensor) (Definition, error) {
	if has := HeadOf(def).Kind; p.head != has && p.head != "" {
		h := newConfigReader(asFields(def.Settings())).scores()
		h.Kind = p.head
		for _, t := range tensors {
			if t.Path == peftPrefix+scoreWeight && len(t.Shape) == 2 && t.Shape[0] != h.Labels {
				h.Labels, h.Names = t.Shape[0], nil
			}
		}
		var err error
		if def, err = WithHead(def, h); err != nil {
			return nil, err
		}
	}
	wrapped, err := WithLoRA(def, p.lora)
	if err != nil {
		return nil, err
	}
	m := wrapped.(adapted)
	m.file, m.baseName = p.fields, p.base
	return m, nil
}

// adapterConfig is adapter_config.json of m's adapters, on a base called so; "": as m's file has it.
func (m adapted) adapterConfig(base string) ([]byte, error) {
	fields := map[string]any{}
	for key, value := range m.file {
		fields[key] = value
	}
	if m.file == nil {
		l, modules := m.lora, m.modules
		exclude := any(nil)
		if w := wrapperOf(m); w != nil {
			exclude = w.row.modules()
			var err error
			if l, modules, err = l.inWrapping(m.modules); err != nil {
				return nil, err
			}
		}
		target, parameters := l.targets(modules)
		save, head := l.Save, HeadOf(m).Kind
		if head == HeadScores && !slices.Contains(save, classifier) {
			save = append([]string{classifier}, save...)
		}
		fields = map[string]any{
			"peft_type": "LORA", "task_type": headRowOf(head).task, "auto_mapping": nil, "revision": nil, "inference_mode": true, "bias": "none",
			"r": l.Rank, "lora_alpha": l.Alpha, "lora_dropout": l.Dropout, "use_rslora": l.RSLoRA, "use_dora": l.DoRA, "target_modules": target, "target_parameters": orNone(parameters),
			"rank_pattern": orEmpty(l.RankPattern), "alpha_pattern": orEmpty(l.AlphaPattern), "init_lora_weights": true, "lora_bias": false,
			"modules_to_save": orNone(save), "layers_to_transform": orNone(l.Layers), "layers_pattern": nil, "exclude_modules": exclude,
			"fan_in_fan_out":          slices.ContainsFunc(m.modules, func(a adapter) bool { return a.conv }),
			"base_model_name_or_path": m.baseName,
		}
	}
	if base != "" {
		fields["base_model_name_or_path"] = base
	}
	raw, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model: adapter: %w", err)
	}
	return append(raw, '\n'), nil
}

// targets are the modules of an adapter, as an expression where it was asked for by one, else as a list that every program understands: the last parts of their
// names. parameters are the matrices of experts that PEFT has as parameters, by names below their layers, or whole ones where not all layers have them.
func (l LoRA) targets(all []adapter) (modules any, parameters []string) {
	names, asked := []string{}, []string{}
	for _, a := range all {
		switch {
		case !a.parameter():
			names = append(names, a.names()...)
		case len(l.Layers) > 0:
			parameters = append(parameters, a.module)
		default:
			parameters = append(parameters, a.module[strings.LastIndex(a.module, expertsModule):])
		}
	}
	slices.Sort(parameters)
	parameters = slices.Compact(parameters)
	expression := len(l.Target) == 1 && !plainName.MatchString(l.Target[0])
	for _, target := range l.Target {
		if slices.ContainsFunc(names, func(name string) bool { return l.isTarget(name, []string{target}) }) {
			asked = append(asked, target)
		}
	}
	switch {
	case expression && parameters == nil:
		return l.Target[0], nil
	case expression:
		return names, parameters
	case len(l.Target) > 0 && !slices.Contains(l.Target, AllLinear):
		return asked, parameters
	}
	return append([]string{}, lastNames(names)...), parameters
}

// orEmpty is {} for none.
func orEmpty[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

// orNone is null for none.
func orNone[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// tensorPath is the path of the parameter that a tensor of a PEFT file holds: its name, with the module called as in a language model's files.
func (f Family) tensorPath(name string) string {
	rest, ok := strings.CutPrefix(name, peftPrefix)
	if !ok {
		return name
	}
	for _, part := range []string{loraA, loraB, magnitudeVector} {
		if module, ok := strings.CutSuffix(rest, part); ok {
			return peftPrefix + f.module(f.path(module+".weight")) + part
		}
	}
	return peftPrefix + f.name(f.path(rest), true)
}

// described names tensors for a message, the first few of many.
func described(names []string) string {
	const most = 4
	var texts []string
	for _, name := range names[:min(most, len(names))] {
		texts = append(texts, terminal.Name(name))
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(texts, ", ") + more
}

// tensors maps the paths of m's adapters to the names of a PEFT file, which has to have these and no others.
func (m adapted) tensors(in []array.Tensor) (map[string]string, error) {
	family := families[m.Kind()]
	names, wanted, found := map[string]string{}, map[string]bool{}, map[string]array.Tensor{}
	var wrong, missing, extra []string
	for _, p := range m.own() {
		wanted[p.Path] = true
	}
	for _, t := range in {
		name, path := t.Path, family.tensorPath(t.Path)
		if other, twice := names[path]; twice {
			return nil, fmt.Errorf("%q and %q are the same parameter", other, name)
		}
		if !wanted[path] {
			extra = append(extra, name)
		}
		names[path], found[path] = name, t
	}
	for _, p := range sortParams(m.own()) {
		switch t, ok := found[p.Path]; {
		case !ok:
			missing = append(missing, p.Path)
		case !slices.Equal(t.Shape, p.Shape):
			wrong = append(wrong, fmt.Sprintf("%q: shape %v, want %v: the adapter is of another base, or of another rank", t.Path, t.Shape, p.Shape))
		case encoders[t.DType] == nil:
			wrong = append(wrong, fmt.Sprintf("%q: dtype %s, want F32, BF16 or F16", t.Path, t.DType))
		}
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("found no %s, wanted them, as %s says", described(missing), AdapterConfigFile))
	}
	if len(extra) > 0 {
		wrong = append(wrong, fmt.Sprintf("found %s, of which %s says nothing", described(extra), AdapterConfigFile))
	}
	return names, complain(wrong)
}

// ParseAdapter is base with the adapters that an adapter_config.json tells of. tensors are those of their file, where it may have a head: how many labels
// that has, nothing else says.
func ParseAdapter(config []byte, base Definition, tensors ...array.Tensor) (Definition, error) {
	p, err := parsePEFT(config)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", AdapterConfigFile, err)
	}
	return p.adapt(base, tensors)
}

// AdapterBase is what an adapter_config.json calls the base of its adapters; "": it does not say.
func AdapterBase(config []byte) (string, error) {
	p, err := parsePEFT(config)
	return p.base, err
}
