package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
)

// configLimit bounds config.json: real ones have a few kilobytes.
const configLimit = 1 << 20

// ParseConfig makes a definition of a config.json in the Hugging Face layout. Keys
// that are absent have Hugging Face's defaults, except sizes, which must be there. An
// unknown model_type, and a setting that asks for what this package does not do, are errors;
// keys that this package has no use for are kept and come back in ConfigJSON.
func ParseConfig(raw []byte) (Definition, error) {
	if len(raw) > configLimit {
		return nil, fmt.Errorf("model: config: more than %d bytes", configLimit)
	}
	var fields map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("model: config: %w", stranger.Told(raw, err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("model: config: something follows the object")
	}
	if fields == nil {
		return nil, errors.New("model: config: null, want an object")
	}
	c := newConfigReader(fields)
	kind := c.text("model_type", "")
	quantized := c.has(quantizationKey)
	family, ok := families[kind]
	if !ok {
		return nil, unknownKind(kind, c)
	}
	if c.quantizedWeights(); len(c.errs) > 0 {
		return nil, c.errs[0]
	}
	def, err := family.Read(c)
	if err := errors.Join(c.errs...); err != nil {
		return nil, fmt.Errorf("model: config: %s: %w", kind, err)
	}
	if err == nil && def != nil && family.Head != "" {
		if def, err = c.head(def); err != nil {
			return nil, fmt.Errorf("model: config: %s: %w", kind, err)
		}
	}
	if err == nil && quantized {
		return readQuantization(c, def)
	}
	return def, err
}

// ConfigJSON is def as a config.json; dtype is what the weights beside it are stored as:
// "F32", "BF16" or "F16".
func ConfigJSON(def Definition, dtype string) ([]byte, error) { return ConfigEnding(def, dtype, nil) }

// ConfigEnding is ConfigJSON with the tokens by which the model ends its answers; nil: those that def itself has, an empty list: none.
func ConfigEnding(def Definition, dtype string, ends []int32) ([]byte, error) {
	names := map[string]string{"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
	if names[dtype] == "" {
		return nil, errExportDType(dtype)
	}
	if _, err := familyOf(def.Kind()); err != nil { // nobody could read it
		return nil, err
	}
	settings := map[string]any{}
	if def.Vocab() > 0 && !fromFile(def) { // no token begins or ends a text: the defaults of other programs would not be tokens
		settings["bos_token_id"], settings["eos_token_id"] = nil, nil
	}
	maps.Copy(settings, def.Settings())
	if ends != nil {
		settings["eos_token_id"] = stranger.IDs(ends)
	}
	settings["model_type"] = def.Kind()
	if w := wrapperOf(def); w != nil {
		whole, err := w.config(settings, names[dtype])
		if err != nil {
			return nil, fmt.Errorf("model: config: %w", err)
		}
		settings = whole
	} else {
		key := dtypeKeys[0]
		if _, old := settings[key]; !old && settings[dtypeKeys[1]] != nil {
			key = dtypeKeys[1]
		}
		delete(settings, dtypeKeys[1])
		settings[key] = names[dtype]
	}
	raw, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model: config: %w", err)
	}
	return append(raw, '\n'), nil
}

// fromFile tells whether def was read from a config.json, whose keys it has.
func fromFile(def Definition) bool {
	switch m := Student(def).(type) {
	case quantized:
		return fromFile(m.Definition)
	case adapted:
		return fromFile(m.Definition)
	case headed:
		return fromFile(m.Definition)
	case decoder:
		return m.read
	case gpt2:
		return m.file != nil
	}
	return false
}

// Same tells whether two definitions are of one network, whatever their files had of keys that change nothing: the same parameters, and the same graph.
func Same(a, b Definition) bool {
	if a.Kind() != b.Kind() || a.Context() != b.Context() || !slices.EqualFunc(a.Params(), b.Params(), func(p, q Param) bool {
		return p.Path == q.Path && slices.Equal(p.Shape, q.Shape)
	}) {
		return false
	}
	text := func(def Definition) string {
		o := plain(def)
		o.Training = true
		built, err := def.Build(1, def.Context(), o)
		if err != nil {
			return err.Error()
		}
		return built.Graph.String()
	}
	return text(a) == text(b)
}

// A ConfigReader takes typed values out of an object and collects what is wrong.
type ConfigReader struct {
	fields map[string]json.RawMessage
	used   map[string]bool
	added  map[string]bool            // fields that the file has not
	aside  map[string]json.RawMessage // fields of the file that were taken out
	errs   []error

	ropeMore []string // keys of rope_parameters that the family reads itself
}

func newConfigReader(fields map[string]json.RawMessage) *ConfigReader {
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	return &ConfigReader{fields: fields, used: map[string]bool{}, added: map[string]bool{}, aside: map[string]json.RawMessage{}}
}

// has tells whether key is there with a value other than null.
func (c *ConfigReader) has(key string) bool {
	c.used[key] = true
	raw, ok := c.fields[key]
	return ok && string(raw) != "null"
}

func (c *ConfigReader) wrong(key, want string) {
	found := string(c.fields[key])
	if len(found) > 80 {
		found = strings.ToValidUTF8(found[:77], "") + "..."
	}
	if found == "" {
		found = "missing"
	}
	c.errs = append(c.errs, fmt.Errorf("%s: %s, want %s", terminal.Name(key), terminal.Text(found), want))
}

// Size is a whole number from 1; keys are names for the same, of which one must be there.
func (c *ConfigReader) Size(keys ...string) int {
	for _, key := range keys {
		if c.has(key) {
			return c.optionalSize(key, 0)
		}
	}
	c.wrong(keys[0], "a whole number from 1")
	return 1
}

// optionalCount is a whole number from 0.
func (c *ConfigReader) optionalCount(key string, absent int) int {
	v := c.Number(key, float64(absent), true)
	if v != math.Trunc(v) || v > largest {
		c.wrong(key, fmt.Sprintf("a whole number from 0 to %d", largest))
		return absent
	}
	return int(v)
}

func (c *ConfigReader) optionalSize(key string, absent int) int {
	if !c.has(key) {
		return absent
	}
	var v int64
	if err := json.Unmarshal(c.fields[key], &v); err != nil || v < 1 || v > largest {
		c.wrong(key, fmt.Sprintf("a whole number from 1 to %d", largest))
		return 1
	}
	return int(v)
}

// Number is above 0, or from 0 on where zero is allowed.
func (c *ConfigReader) Number(key string, absent float64, zero bool) float64 {
	if !c.has(key) {
		return absent
	}
	var v float64
	if err := json.Unmarshal(c.fields[key], &v); err != nil || math.IsInf(v, 0) || v < 0 || v == 0 && !zero {
		c.wrong(key, map[bool]string{true: "a number from 0", false: "a number above 0"}[zero])
		return 1
	}
	return v
}

func (c *ConfigReader) text(key, absent string) string {
	if !c.has(key) {
		return absent
	}
	var v string
	if err := json.Unmarshal(c.fields[key], &v); err != nil {
		c.wrong(key, "a string")
	}
	return v
}

// Flag is true or false.
func (c *ConfigReader) Flag(key string, absent bool) bool {
	if !c.has(key) {
		return absent
	}
	var v bool
	if err := json.Unmarshal(c.fields[key], &v); err != nil {
		c.wrong(key, "true or false")
	}
	return v
}

// mustBe refuses a flag that asks for what is not supported.
func (c *ConfigReader) mustBe(want bool, absent bool, keys ...string) {
	for _, key := range keys {
		if c.Flag(key, absent) != want {
			c.wrong(key, fmt.Sprintf("%v: the other is not supported", want))
		}
	}
}

// mustBeNull refuses settings that only exist to ask for more; empty counts as nothing.
func (c *ConfigReader) mustBeNull(keys ...string) {
	for _, key := range keys {
		if c.has(key) && !slices.Contains([]string{"{}", "[]", "false"}, string(c.fields[key])) {
			c.wrong(key, "null: not supported")
		}
	}
}
