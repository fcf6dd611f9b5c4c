package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// Quantization says which parameters the network reads as the numbers of a format of few bits, while they are trained in all their bits; see
// graph.Quantize for the modes. Mode, Bits and Group that are empty or 0 are none, and what is usual for the mode. Groups lie along the last axis as
// parameters are stored: the outputs of GPT-2's projections, the inputs of all others. Those of GGUF files lie along the inputs of all. The tags are those of package run/runfile.
type Quantization struct {
	Mode  string `yaml:"mode" default:"none" range:"quantizations" doc:"format in which the network reads quantized parameters: none, affine (even steps), nf4, mxfp4, mxfp8, nvfp4, q8_0, q4_0 or f16. The last three are what GGUF files hold. It also overrides the quantization of model.from" json:"mode"`
	Bits  int    `yaml:"bits" range:"0.." doc:"affine: bits of a number, 2 to 8; 0: 4" json:"bits,omitempty"`
	Group int    `yaml:"group" range:"0.." doc:"affine and nf4: neighbours in a row that share a scale; 0: 64 (nvfp4 has 16, all others 32)" json:"group"`
	// Match without expressions is every matrix of a layer, that is below a number in the path; of what GGUF files hold, all that they have so.
	Match []string `yaml:"match" range:"pattern" doc:"regular expressions of the parameter paths to quantize; empty: every matrix of a layer, but neither the embeddings nor a separate output head; of what GGUF files hold, every matrix that they have so, embeddings and head too" json:"match,omitempty"`
}

// quantizationKey is where config.json has a Quantization. Other programs pass over it: the weights beside it are whole.
const quantizationKey = "fake_quantization"

// longestMatch bounds the expressions of a config.json that came from a stranger, which are held against all paths.
const longestMatch = 4096

// quantized is a network that reads some of its parameters through graph.Quantize.
type quantized struct {
	Definition
	q     Quantization
	paths map[string]bool
	ops   map[string]graph.Quantize // by which they are read
}

// WithQuantization is def with the parameters that q matches quantized wherever they are read, in training, evaluation and sampling; without a mode none
// is. It takes the place of a quantization that def has. Each expression must match a parameter.
func WithQuantization(def Definition, q Quantization) (Definition, error) {
	if old, ok := def.(quantized); ok {
		def = old.Definition
	}
	if m, ok := def.(adapted); ok { // the base is quantized, adapters are not
		base, err := WithQuantization(m.Definition, q)
		if err != nil {
			return nil, err
		}
		return WithLoRA(base, m.lora)
	}
	if q.Mode == "" {
		if q.Bits != 0 || q.Group != 0 || len(q.Match) > 0 {
			return nil, fmt.Errorf("model: quantize: bits %d, group %d, match %q without a mode", q.Bits, q.Group, q.Match)
		}
		return def, nil
	}
	op := graph.Quantize{Mode: q.Mode, Bits: q.Bits, Group: q.Group}.Or()
	if err := op.Validate(); err != nil {
		return nil, fmt.Errorf("model: quantize: %w", err)
	}
	q.Bits, q.Group, q.Match = op.Bits, op.Group, slices.Clone(q.Match)
	m := quantized{Definition: def, q: q, paths: map[string]bool{}, ops: map[string]graph.Quantize{}}
	for _, p := range def.Params() {
		usual := array.Spec{Path: p.Path, Shape: p.Shape}.MatrixOfLayer()
		if op.Format().OfGGUF() {
			if len(p.Shape) == 3 && p.pieces != nil {
				return nil, fmt.Errorf("model: quantize: mode %s: found experts, wanted a network without: one is not trained for a type of its GGUF file", q.Mode)
			}
			usual = inFiles(def, p)
		}
		m.ops[p.Path] = q.opOf(p)
		m.paths[p.Path] = len(q.Match) == 0 && usual
	}
	if n := len(strings.Join(q.Match, "")); n > longestMatch {
		return nil, fmt.Errorf("model: quantize: match: expressions of %d bytes, want at most %d", n, longestMatch)
	}
	for _, match := range q.Match {
		pattern, err := regexp.Compile(match)
		if err != nil {
			return nil, fmt.Errorf("model: quantize: match: %w", err)
		}
		found := false
		for path := range m.paths {
			if pattern.MatchString(path) {
				m.paths[path], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("model: quantize: match: %q matches no parameter", match)
		}
	}
	if op.Format().OfGGUF() {
		return m, m.checkFiles()
	}
	return m, nil
}

// inFiles tells whether a GGUF file has a parameter in a type of its own: a matrix, but not the table of positions.
func inFiles(def Definition, p Param) bool {
	return len(p.Shape) == 2 && p.Path != families[def.Kind()].Positions
}

// opOf is how the network reads a parameter. In blocks of GGUF files it is as they have it, f16 where the inputs are no whole blocks.
func (q Quantization) opOf(p Param) graph.Quantize {
	op := graph.Quantize{Mode: q.Mode, Bits: q.Bits, Group: q.Group}
	if !op.Format().OfGGUF() || len(p.Shape) != 2 {
		return op
	}
	inputs := p.Shape[1]
	if op.Down = p.InOut; op.Down {
		inputs = p.Shape[0]
	}
	if inputs%op.Group != 0 || op.Mode == "f16" {
		op.Mode, op.Down = "f16", false
	}
	return op
}

// checkFiles refuses to train for what no file would hold.
func (m quantized) checkFiles() error {
	found := false
	for _, p := range m.Params() {
		if !m.paths[p.Path] {
			continue
		}
		if !inFiles(m.Definition, p) {
			return fmt.Errorf("model: quantize: match: found %q of shape %v, wanted matrices, but no table of positions: GGUF files have no others in %s", p.Path, p.Shape, m.q.Mode)
		}
		found = found || m.ops[p.Path].Mode == m.q.Mode
	}
	if !found {
		return fmt.Errorf("model: quantize: %s: found no matrix whose inputs are whole blocks of %d: GGUF files have none in it", m.q.Mode, m.q.Group)
	}
	return nil
}

// String is "affine of 4 bits in groups of 64".
func (q Quantization) String() string {
	bits := ""
	if q.Bits > 0 {
		bits = fmt.Sprintf(" of %d bits", q.Bits)
	}
	return fmt.Sprintf("%s%s in groups of %d", q.Mode, bits, q.Group)
}

// QuantizationOf is the quantization of def, complete, and the number of parameters that it matches; the zero Quantization and 0 for none.
func QuantizationOf(def Definition) (Quantization, int) {
	m, ok := BaseOf(def).(quantized)
	if !ok {
		return Quantization{}, 0
	}
	count := 0
	for _, matched := range m.paths {
		if matched {
			count++
		}
	}
	return m.q, count
}

// Params are those of the network: of a table that is quantized more is read than rows.
func (m quantized) Params() []Param {
	params := m.Definition.Params()
	for i, p := range params {
		params[i].Table = p.Table && !m.paths[p.Path]
	}
	return params
}

// Build reads the matched parameters through graph.Quantize.
func (m quantized) Build(batch, seq int, o Options) (*Built, error) {
	o.quantized = &m
	built, err := m.Definition.Build(batch, seq, o)
	if err != nil {
		return nil, err
	}
	read := map[string]bool{}
	for _, n := range built.Graph.Nodes() {
		if _, ok := n.Op.(graph.Quantize); ok {
			if p, ok := n.Inputs[0].Node().Op.(graph.Param); ok {
				read[p.Path] = true
			}
		}
	}
	for path, matched := range m.paths {
		if matched && !read[path] {
			return nil, fmt.Errorf("model: %s: build: quantize: parameter %q is read as it is, want it read through Builder.Read", m.Kind(), path)
		}
	}
	return built, nil
}

func (m quantized) Settings() map[string]any {
	settings := m.Definition.Settings()
	settings[quantizationKey] = m.q
	return settings
}

// WithDropout is for the network within.
func (m quantized) WithDropout(p float64) (Definition, error) {
	def, err := WithDropout(m.Definition, p)
	if err != nil {
		return nil, err
	}
	m.Definition = def
	return m, nil
}

// readQuantization is def with the quantization that a config.json asks for.
func readQuantization(c *ConfigReader, def Definition) (Definition, error) {
	var q Quantization
	d := json.NewDecoder(bytes.NewReader(c.fields[quantizationKey]))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("model: config: %s: %w", quantizationKey, err)
	}
	return WithQuantization(def, q)
}
