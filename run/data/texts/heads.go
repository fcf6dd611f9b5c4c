package texts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"gputrain/internal/formats"
	"gputrain/internal/suggest"
)

// mostLabels is how many classes rows may have: a token of two bytes has room for their numbers.
const mostLabels = 1 << 15

const (
	labelKey  = "label"
	marginKey = "margin"
)

// queryKeys are the keys of a row with a query.
var queryKeys = []string{"query", "positive"}

const negativesKey = "negatives"

// ended is a document with a label behind its last token and no other label.
func (d document) ended(label uint32) document {
	for i := range d.tokens {
		d.tokens[i] |= unlabelled
	}
	d.tokens, d.masked = append(d.tokens, label), true
	return d
}

// ranked makes the two documents of a pair whose scores are compared.
func (j *jsonl) ranked(line []byte) ([]document, error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	margin := 0.0
	if raw := object[marginKey]; !none(object, marginKey) {
		if err := json.Unmarshal(raw, &margin); err != nil || math.Abs(margin) > 1e30 {
			return nil, fmt.Errorf("%s: found %s, wanted a number from -1e30 to 1e30", marginKey, short(raw))
		}
	}
	object = maps.Clone(object)
	delete(object, marginKey)
	both, err := j.pairOf(object)
	for i := range both {
		both[i] = both[i].ended(0)
		both[i].beside = float32(margin)
	}
	return both, err
}

// class makes the document of a row with a label.
func (j *jsonl) class(line []byte) ([]document, error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	if none(object, labelKey) {
		return nil, missing(object, labelKey)
	}
	label, err := j.labelOf(object[labelKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", labelKey, err)
	}
	d, err := j.input(object)
	if err != nil {
		return nil, err
	}
	return []document{d.ended(label)}, nil
}

// input is the text, the messages, the prompt with its completion, or the tokens of a row.
func (j *jsonl) input(object map[string]json.RawMessage) (d document, err error) {
	object = maps.Clone(object)
	delete(object, labelKey)
	if tokens, ok := object["tokens"]; ok && none(object, "input_ids") {
		object["input_ids"] = tokens
		delete(object, "tokens")
	}
	own := *j
	own.format, own.group = formats.Auto, group{}
	if !none(object, "prompt") && !none(object, "completion") {
		d, err = own.completion(object, "completion")
	} else {
		var line []byte
		if line, err = json.Marshal(object); err == nil {
			d, err = own.document(line)
		}
	}
	if err == nil && len(d.tokens) == 0 {
		err = errors.New("found no tokens, wanted one or more")
	}
	return d, err
}

// labelOf is the number of a label, given by its number or its name.
func (j *jsonl) labelOf(raw json.RawMessage) (uint32, error) {
	name, number, err := classOf(raw)
	switch {
	case err != nil:
		return 0, err
	case name == "" && number < j.labels:
		return uint32(number), nil
	case name == "":
		return 0, fmt.Errorf("found %d, wanted 0 to %d", number, j.labels-1)
	}
	if i := slices.Index(j.names, name); i >= 0 {
		return uint32(i), nil
	}
	if j.names == nil {
		return 0, fmt.Errorf("found %q, wanted 0 to %d: the labels of this model have no names", name, j.labels-1)
	}
	return 0, fmt.Errorf("found %q, wanted %s, or their numbers from 0 on%s", name, suggest.Or(j.names), suggest.DidYouMean(name, j.names))
}

// classOf reads a label: a name, or "" and a number.
func classOf(raw json.RawMessage) (name string, number int, err error) {
	if json.Unmarshal(raw, &name) == nil && name != "" {
		return name, 0, nil
	}
	if json.Unmarshal(raw, &number) == nil && number >= 0 && number < mostLabels && raw[0] != 'n' && raw[0] != '"' {
		return "", number, nil
	}
	return "", 0, fmt.Errorf("found %s, wanted a name, or a whole number from 0 to %d", short(raw), mostLabels-1)
}

// query makes the documents of a row with a query: the query, its positive and its negatives.
func (j *jsonl) query(line []byte) (all []document, err error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	most := j.group.size() - len(queryKeys)
	var negatives []json.RawMessage
	wanted := queryKeys
	if most > 0 {
		wanted = append(slices.Clone(queryKeys), negativesKey)
	}
	for _, key := range wanted {
		if none(object, key) {
			return nil, missing(object, wanted...)
		}
	}
	if raw := object[negativesKey]; !none(object, negativesKey) && json.Unmarshal(raw, &negatives) != nil {
		return nil, fmt.Errorf("%s: found %s, wanted a list", negativesKey, short(raw))
	}
	if len(negatives) > most {
		return nil, fmt.Errorf("%s: found %d, wanted at most %d, as head.negatives says", negativesKey, len(negatives), most)
	}
	said := []json.RawMessage{object[queryKeys[0]], object[queryKeys[1]]}
	for i, raw := range append(said, negatives...) {
		d, err := j.one(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.group.keys[i], err)
		}
		all = append(all, d.ended(0))
	}
	for len(all) < j.group.size() { // a negative that is not there, without a label
		all = append(all, document{tokens: []uint32{unlabelled, unlabelled}, masked: true})
	}
	return all, nil
}

// one is a text, a list of messages or a list of tokens.
func (j *jsonl) one(raw json.RawMessage) (document, error) {
	raw = bytes.TrimSpace(raw)
	key := "text"
	switch {
	case bytes.HasPrefix(raw, []byte("[")) && len(messagesOf(raw)) > 0:
		key = "messages"
	case bytes.HasPrefix(raw, []byte("[")):
		key = "input_ids"
	case !bytes.HasPrefix(raw, []byte(`"`)):
		return document{}, fmt.Errorf("found %s, wanted text, a list of messages or a list of tokens", short(raw))
	}
	return j.input(map[string]json.RawMessage{key: raw})
}

// Input is a text for a model with a head.
type Input struct {
	Key    string // what the row calls it; "": it is all of the row
	Tokens []int32
}

// Inputs reads the rows of a file, each a JSON object with a text, messages, a prompt with its completion, or tokens. A row with chosen and rejected, or with a
// query, is several inputs. take gets rows in their order.
func Inputs(ctx context.Context, c Config, name string, from io.ReaderAt, size int64, take func(number int, row json.RawMessage, inputs []Input) error) error {
	j, err := newJSONL(c)
	if err != nil {
		return err
	}
	type read struct {
		row    json.RawMessage
		inputs []Input
	}
	return useRows(ctx, name, from, size, j.limit, func(file rowFile) error {
		return eachRow(ctx, file, func(_ rowAt, row []byte) (said read, err error) {
			said.row = j.mended(row)
			said.inputs, err = j.inputs(said.row)
			for _, in := range said.inputs {
				if n := len(in.Tokens); err == nil && n > c.Context {
					err = fmt.Errorf("found %d tokens, wanted at most %d, the window", n, c.Context)
				}
			}
			return said, err
		}, func(at rowAt, said read) error { return take(at.number, said.row, said.inputs) })
	})
}

func (j *jsonl) inputs(row []byte) (all []Input, err error) {
	object, err := objectOf(row)
	if err != nil {
		return nil, err
	}
	var documents []document
	keys := []string{""}
	switch {
	case !none(object, queryKeys[0]):
		own := *j
		var negatives []json.RawMessage
		_ = json.Unmarshal(object[negativesKey], &negatives) // own.query tells what is wrong with it
		own.group = Config{Format: formats.Queries, Group: len(queryKeys) + len(negatives)}.group()
		documents, err = own.query(row)
		keys = own.group.keys
		for i, d := range documents {
			documents[i].tokens = d.tokens[:len(d.tokens)-1]
		}
	case !none(object, pairKeys[1]) && !none(object, pairKeys[2]):
		documents, err = j.pair(row)
		keys = pairKeys[1:]
	default:
		documents = make([]document, 1)
		documents[0], err = j.input(object)
	}
	for i, d := range documents {
		all = append(all, Input{keys[i], signed(d.tokens)})
	}
	return all, err
}

// LabelsOf are the labels of the rows of c.JSONL: their names, sorted, and how many there are; labels that are numbers have no names.
func LabelsOf(ctx context.Context, c Config) (names []string, count int, err error) {
	seen := map[string]bool{}
	err = eachObject(ctx, c, func(at rowAt, object map[string]json.RawMessage) error {
		if none(object, labelKey) {
			return fmt.Errorf("%v: %w", at, missing(object, labelKey))
		}
		name, number, err := classOf(object[labelKey])
		if err == nil && (name == "" && len(seen) > 0 || name != "" && count > 0) {
			err = fmt.Errorf("found %s, and names and numbers in other rows, wanted one of them", short(object[labelKey]))
		}
		switch {
		case err != nil:
			return fmt.Errorf("%v: %s: %w", at, labelKey, err)
		case name == "":
			count = max(count, number+1)
		default:
			seen[name] = true
		}
		return nil
	})
	names = slices.Sorted(maps.Keys(seen))
	if err == nil && len(names) > mostLabels {
		err = fmt.Errorf("data: jsonl %q: %s: found %d names, wanted at most %d", c.JSONL, labelKey, len(names), mostLabels)
	}
	return names, max(count, len(names)), err
}

// NegativesOf is the largest number of negatives of a row of c.JSONL.
func NegativesOf(ctx context.Context, c Config) (most int, err error) {
	err = eachObject(ctx, c, func(_ rowAt, object map[string]json.RawMessage) error {
		var all []json.RawMessage
		_ = json.Unmarshal(object[negativesKey], &all) // whatever is wrong with it is told when the row is read
		most = max(most, len(all))
		return nil
	})
	return most, err
}

// FirstOf is the first row of c.JSONL; nil: there is none.
func FirstOf(ctx context.Context, c Config) (first map[string]json.RawMessage, err error) {
	enough := errors.New("the first is there")
	err = eachObject(ctx, c, func(_ rowAt, object map[string]json.RawMessage) error {
		first = object
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return first, err
}

// eachObject takes the rows of c.JSONL.
func eachObject(ctx context.Context, c Config, take func(at rowAt, object map[string]json.RawMessage) error) error {
	r := &reading{ctx: ctx, config: c}
	files, _, _, err := r.find(c)
	if err != nil {
		return err
	}
	var texts []textFile
	for _, f := range files {
		texts = append(texts, textFile{file: f})
	}
	return r.eachFile("reading", texts, func(t textFile, from io.ReaderAt) error {
		return useRows(ctx, t.path, from, t.size, maxRow, func(file rowFile) error {
			return eachRow(ctx, file, func(_ rowAt, row []byte) (map[string]json.RawMessage, error) { return objectOf(row) }, take)
		})
	})
}
