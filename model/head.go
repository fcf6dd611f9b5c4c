package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/graph"
	"gputrain/internal/suggest"
)

// Head is what stands behind the last norm of a network. The zero value is that of a language model: the logits of its tokens.
type Head struct {
	Kind string `json:"kind"` // HeadScores, HeadVectors, or "": logits
	// Labels is how many scores a row has, the rows of score.weight, and Names what config.json calls them; nil: LABEL_0, LABEL_1 and so on, as Label says.
	Labels int      `json:"labels,omitempty"`
	Names  []string `json:"names,omitempty"`
	// Pooling is what of a row becomes its vector: PoolingLast, which "" is too, or PoolingMean. Scores are those of its last token.
	Pooling string `json:"pooling,omitempty"`
	// Padding is pad_token_id of scores; nil: that which config.json has. Hugging Face takes scores at the last token that is another.
	Padding *int32 `json:"padding,omitempty"`
}

// Kinds of heads.
const (
	HeadScores  = "scores"  // score.weight x, x the output of the last norm at the last token of a row
	HeadVectors = "vectors" // that output at the last token, or its mean over the tokens, divided by its length
)

// poolings are the values of Head.Pooling.
var poolings = []string{PoolingLast, PoolingMean}

// Poolings of rows.
const (
	PoolingLast = "last"
	PoolingMean = "mean"
)

// headRow is a row of headRows: what transformers calls a network that has one, and PEFT its task.
type headRow struct{ kind, says, class, task string }

var headRows = []headRow{
	{"", "logits of tokens", "ForCausalLM", "CAUSAL_LM"},
	{HeadScores, "scores", "ForSequenceClassification", "SEQ_CLS"},
	{HeadVectors, "vectors", "Model", "FEATURE_EXTRACTION"},
}

const (
	scoreWeight = "score.weight" // [Labels, width]
	headModule  = "score"
	// poolingKey is where config.json has the pooling of vectors. Other programs pass over it.
	poolingKey = "embedding_pooling"
	// unnamedLabels is how many labels a network has whose config.json names none.
	unnamedLabels = 2
)

// headed is a network with another head than logits.
type headed struct {
	Definition
	head Head
}

// WithHead is def with a head, whose parameters it has in place of those of the logits. A new score.weight begins as the embedding does.
func WithHead(def Definition, h Head) (Definition, error) {
	switch m := def.(type) {
	case nil:
		return nil, errNone
	case adapted:
		return nil, errors.New("model: head: found a network with adapters, wanted one without: they come after it")
	case quantized:
		inner, err := WithHead(m.Definition, h)
		if err != nil {
			return nil, err
		}
		return WithQuantization(inner, m.q)
	case headed:
		def = m.Definition
	}
	family, err := familyOf(def.Kind())
	switch {
	case err != nil:
		return nil, err
	case family.Head == "" || len(family.Embeddings) == 0:
		return nil, fmt.Errorf("model: head: found a network of kind %s, wanted one that reads text", def.Kind())
	case h.Kind == "":
		return def, nil
	case !slices.ContainsFunc(headRows, func(row headRow) bool { return row.kind == h.Kind }):
		return nil, fmt.Errorf("model: head: found %q, wanted %s or %s", h.Kind, HeadScores, HeadVectors)
	case h.Kind == HeadScores && (h.Labels < 1 || h.Labels > largest || h.Names != nil && len(h.Names) != h.Labels):
		return nil, fmt.Errorf("model: head: found %d labels with %d names, wanted 1 to %d, and a name for each or none", h.Labels, len(h.Names), largest)
	case h.Kind == HeadVectors && h.Pooling == "":
		h.Pooling = PoolingLast
	}
	if h.Kind == HeadVectors && !slices.Contains(poolings, h.Pooling) {
		return nil, fmt.Errorf("model: head: pooling: found %q, wanted %s%s", h.Pooling, suggest.Or(poolings), suggest.DidYouMean(h.Pooling, poolings))
	}
	return headed{Definition: def, head: h}, nil
}

// HeadOf is the head of def.
func HeadOf(def Definition) Head {
	switch m := def.(type) {
	case adapted:
		return HeadOf(m.Definition)
	case quantized:
		return HeadOf(m.Definition)
	case headed:
		return m.head
	}
	return Head{}
}

// headRowOf is the row of a kind.
func headRowOf(kind string) headRow {
	return headRows[slices.IndexFunc(headRows, func(row headRow) bool { return row.kind == kind })]
}

// Labels is how many labels a loss of def may have: its tokens, its scores, or of vectors 1, as they have none.
func Labels(def Definition) int {
	switch h := HeadOf(def); h.Kind {
	case HeadScores:
		return h.Labels
	case HeadVectors:
		return 1
	}
	return def.Vocab()
}

// plain are the options of what def is for: the loss of its tokens, or what another head gives.
func plain(def Definition) Options {
	text := HeadOf(def).Kind == ""
	return Options{Loss: text, Logits: !text}
}

// MayLack matches the parameters of BaseOf(def) that its files need not have, as the adapters have them whole: the head.
func MayLack(def Definition) []*regexp.Regexp {
	if m, ok := def.(adapted); ok && m.copies[scoreWeight] != "" {
		return []*regexp.Regexp{regexp.MustCompile("^" + regexp.QuoteMeta(scoreWeight) + "$")}
	}
	return nil
}

// Params are those of the network, with those of its head.
func (m headed) Params() []Param {
	family := families[m.Kind()]
	params := slices.DeleteFunc(m.Definition.Params(), func(p Param) bool { return p.Path == family.Head })
	if m.head.Kind == HeadScores {
		i := slices.IndexFunc(params, func(p Param) bool { return p.Path == family.Embeddings[0] })
		params = append(params, Param{Path: scoreWeight, Shape: []int{m.head.Labels, params[i].Shape[1]}, Std: params[i].Std})
	}
	return sortParams(params)
}

func (m headed) Build(batch, seq int, o Options) (*Built, error) {
	o.headed = &m
	return m.Definition.Build(batch, seq, o)
}

// WithDropout is for the network within.
func (m headed) WithDropout(p float64) (Definition, error) {
	def, err := WithDropout(m.Definition, p)
	m.Definition = def
	return m, err
}

// finishHeaded puts a head other than logits on x [N, width]: Built.Logits are its scores [batch, Labels], or the vectors [batch, width].
func (b *Builder) finishHeaded(x *graph.Value) (*Built, error) {
	built, h := &Built{Graph: b.Graph}, b.o.headed.head
	y := b.pooled(x, h.Pooling)
	if h.Kind == HeadScores {
		y = b.MatMul(y, b.Read(scoreWeight), false, true)
	} else {
		length := b.Apply("max", b.Sum(b.Apply("square", y), 1), b.Constant(1e-24))
		y = b.Mul(y, b.Reshape(b.Apply("rsqrt", length), b.batch, 1))
	}
	b.KeepF32(y)
	if b.o.Loss {
		if err := b.o.Objective.Row().build(b, built, y); err != nil {
			return nil, err
		}
	}
	if b.o.Logits {
		built.Logits = y
	}
	return b.end(built)
}

// pooled is x [batch*seq, width] at the last token of each row, or its mean over the tokens.
func (b *Builder) pooled(x *graph.Value, pooling string) *graph.Value {
	if pooling != PoolingMean {
		return b.Embedding(x, b.ints(InputRows, b.batch))
	}
	parts := b.Mul(b.sequences(x, x.Shape()[1]), b.Reshape(b.Input(inputParts, graph.F32(b.batch*b.seq)), b.batch, b.seq, 1))
	return b.Sum(parts, 1)
}

// inputParts is f32 [batch*seq], the share of each token in the mean of its row.
const inputParts = "parts"

// ended are rows that a head gives something of. The one label of a row stands at its last token: its class, or 0 where rows have none.
type ended struct {
	ends   []int32 // of each row, its last token's index in the batch; its first where the row has no label
	labels []int32 // of each row; graph.IgnoreLabel where it has none
}

// ends finds the last tokens of rows, and puts what finds them into in.
func (rows Rows) ends(in *batchInputs) (e ended) {
	seq := len(rows.Tokens) / max(1, rows.Count)
	parts := make([]float32, len(rows.Tokens))
	for row := range rows.Count {
		end, label, found := int32(row*seq), int32(graph.IgnoreLabel), 0
		for i := row * seq; i < (row+1)*seq; i++ {
			if rows.Labels[i] != graph.IgnoreLabel {
				end, label, found = int32(i), rows.Labels[i], found+1
			}
		}
		if found > 1 && in.Lacking == nil {
			in.Lacking = fmt.Errorf("batch: row %d: found %d labels, wanted one, at its last token", row, found)
		}
		for i := row * seq; found > 0 && i <= int(end); i++ {
			parts[i] = float32(1 / float64(int(end)-row*seq+1))
		}
		e.ends, e.labels = append(e.ends, end), append(e.labels, label)
	}
	in.Tokens, in.Labels, in.Ends, in.Floats = rows.Tokens, rows.Labels, e.ends, map[string][]float32{inputParts: parts}
	return e
}

// Ends are the inputs by which a head finds the last tokens of rows: those with a label.
func Ends(rows Rows) (in batchInputs) {
	rows.ends(&in)
	return in
}

// CheckEnds refuses a row whose last token is the one that config.json pads rows with: Hugging Face takes a row's scores at the last token that is not.
func CheckEnds(def Definition, rows Rows) error {
	if HeadOf(def).Kind != HeadScores {
		return nil
	}
	pad, there := Padding(def)
	if !there {
		return nil
	}
	var in batchInputs
	e := rows.ends(&in)
	for row, end := range e.ends {
		if e.labels[row] != graph.IgnoreLabel && rows.Tokens[end] == pad {
			return fmt.Errorf("batch: row %d: found the padding %d as its last token, wanted another: Hugging Face would take its scores one token earlier; "+
				"end rows in another token, or choose another pad_token_id", row, pad)
		}
	}
	return nil
}

// Padding is pad_token_id of def.
func Padding(def Definition) (id int32, there bool) {
	raw, err := json.Marshal(def.Settings()["pad_token_id"])
	if err != nil || string(raw) == "null" {
		return 0, false
	}
	return id, json.Unmarshal(raw, &id) == nil
}

// Settings are those of the network, with its head as transformers tells of it.
func (m headed) Settings() map[string]any {
	settings := m.Definition.Settings()
	if headOfClass(settings["architectures"]) != m.head.Kind {
		settings["architectures"] = []string{families[m.Kind()].class() + headRowOf(m.head.Kind).class}
	}
	if m.head.Kind == HeadVectors {
		settings[poolingKey] = m.head.Pooling
		return settings
	}
	if m.head.Padding != nil {
		settings["pad_token_id"] = *m.head.Padding
	}
	if _, there := settings["id2label"]; there {
		c := newConfigReader(asFields(settings))
		if h := c.scores(); len(c.errs) == 0 && h.Labels == m.head.Labels && (m.head.Names == nil || slices.Equal(h.Names, m.head.Names)) {
			return settings
		}
	} else if m.head.Labels == unnamedLabels && m.head.Names == nil {
		return settings
	}
	delete(settings, "num_labels")
	names, ids := map[string]string{}, map[string]int{}
	for i := range m.head.Labels {
		name := m.head.Label(i)
		names[strconv.Itoa(i)], ids[name] = name, i
	}
	settings["id2label"], settings["label2id"] = names, ids
	return settings
}

// Label is what label i is called.
func (h Head) Label(i int) string {
	if h.Names == nil {
		return unnamed(i)
	}
	return h.Names[i]
}

// unnamed is what a label is called that has no name.
func unnamed(i int) string { return fmt.Sprintf("LABEL_%d", i) }

// asFields are settings as a file has them.
func asFields(settings map[string]any) map[string]json.RawMessage {
	raw, _ := json.Marshal(settings) // a config.json can be written
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &fields)
	return fields
}

// headOfClass is the kind of head that a value of architectures tells of.
func headOfClass(architectures any) string {
	raw, _ := json.Marshal(architectures)
	var names []string
	if json.Unmarshal(raw, &names) != nil || len(names) == 0 || strings.HasSuffix(names[0], "LMHeadModel") {
		return ""
	}
	for _, row := range headRows {
		if strings.HasSuffix(names[0], row.class) {
			return row.kind
		}
	}
	return ""
}

// class is what transformers calls networks of the family, without what it calls their heads.
func (f Family) class() string { return cmp.Or(f.Class, strings.ToUpper(f.Kind[:1])+f.Kind[1:]) }

// head is def with the head that config.json tells of. A network without one whose logits its embedding makes may be used as a language model.
func (c *ConfigReader) head(def Definition) (Definition, error) {
	h := Head{Kind: headOfClass(c.fields["architectures"])}
	if pooling := c.text(poolingKey, ""); pooling != "" {
		h.Kind, h.Pooling = HeadVectors, pooling
	} else if h.Kind == HeadVectors && families[def.Kind()].tied(def) {
		h.Kind = ""
	}
	if h.Kind == HeadScores {
		h = c.scores()
	}
	if h.Kind == "" || len(c.errs) > 0 {
		return def, errors.Join(c.errs...)
	}
	return WithHead(def, h)
}

// scores is a head of as many labels as id2label has or, without it, num_labels says.
func (c *ConfigReader) scores() Head {
	h := Head{Kind: HeadScores, Labels: c.optionalSize("num_labels", unnamedLabels)}
	if !c.has("id2label") {
		return h
	}
	var names map[string]string
	_ = json.Unmarshal(c.fields["id2label"], &names) // none where it is no such object
	for range names {
		if name, there := names[strconv.Itoa(len(h.Names))]; there {
			h.Names = append(h.Names, name)
		}
	}
	if h.Labels = len(h.Names); h.Labels == 0 || h.Labels != len(names) {
		c.wrong("id2label", "an object of names by whole numbers from 0 on")
	}
	named := false
	for i, name := range h.Names {
		named = named || name != unnamed(i)
	}
	if !named {
		h.Names = nil
	}
	return h
}
