package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/graph"
)

// Distill is a loss of the next token that has a teacher: the mean over labels of a divergence of the student's distribution from the teacher's, both of logits over
// temperature: KL(teacher|student) at beta 0, KL(student|teacher) at beta 1, the generalised Jensen-Shannon divergence between (Agarwal et al. 2023,
// arXiv:2306.13649). The teacher is a network of the same vocabulary in the same graph (WithTeacher), or with top_k above 0 a list of so many tokens and their
// log-probabilities for each label, beside the batch (TeacherList).
const Distill = "distill"

// Inputs of a teacher that is given as lists, f32: of batch*seq labels, top_k ids and log-probabilities each, and the log-probability of all other tokens.
const (
	InputTeacherIDs  = "teacher_ids"
	inputTeacherLogs = "teacher_logps"
	inputTeacherRest = "teacher_rest"
)

func init() {
	share := number{Name: "beta", Wanted: "a number from 0 to 1", Takes: func(v float64) bool { return v >= 0 && v <= 1 }}
	list := number{Name: "top_k", Wanted: "a whole number from 0 to 65536", Takes: func(v float64) bool { return v >= 0 && v <= 1<<16 && v == math.Trunc(v) }}
	l := nextToken
	temperature := above0("temperature")
	temperature.Default = 1
	l.Name, l.Tag, l.Numbers = Distill, "distillation", []number{share, temperature, list}
	l.Sums, l.Shown = []string{"nll"}, []string{"perplexity"}
	l.derive = func(figures map[string]float64) { figures["perplexity"] = math.Exp(figures["nll"]) }
	l.inputs = func(o Objective, rows Rows) batchInputs {
		in := nextToken.inputs(o, rows)
		in.Floats = rows.Beside
		return in
	}
	l.beside = func(o Objective, _ bool, seq int) map[string]int {
		k := int(o.Numbers["top_k"])
		if k == 0 {
			return nil
		}
		return map[string]int{InputTeacherIDs: seq * k, inputTeacherLogs: seq * k, inputTeacherRest: seq}
	}
	l.head = distilled
	losses = append(losses, l)
}

// distilled builds the loss of rows x and W.
func distilled(b *Builder, built *Built, x, head *graph.Value, limit float64) error {
	numbers, n := b.o.Objective.Numbers, b.batch*b.seq
	op := graph.HeadDivergence{Beta: numbers["beta"], Temperature: numbers["temperature"], Cap: limit, Listed: int(numbers["top_k"])}
	in := []*graph.Value{x, head, b.labels()}
	switch {
	case op.Listed > b.def.Vocab():
		return fmt.Errorf("model: %s: build: distill: top_k: found %d, wanted at most the vocabulary of %d", b.def.Kind(), op.Listed, b.def.Vocab())
	case op.Listed > 0:
		in = append(in, b.Input(InputTeacherIDs, graph.F32(n, op.Listed)), b.Input(inputTeacherLogs, graph.F32(n, op.Listed)), b.Input(inputTeacherRest, graph.F32(n)))
	case b.o.teacher == nil:
		return fmt.Errorf("model: %s: build: distill: found no teacher, wanted one, or top_k above 0", b.def.Kind())
	default:
		var teacher headEnds
		if _, err := b.o.teacher.Build(b.batch, b.seq, Options{Documents: b.o.Documents, into: b.Graph, prefix: TeacherPrefix, ends: &teacher}); err != nil {
			return fmt.Errorf("model: teacher: %w", err)
		}
		in, op.TeacherCap = append(in, teacher.x, teacher.head), teacher.limit
	}
	out := b.Append(op, in...).Outputs
	b.scaled(built, out[0])
	built.Sums = b.Reshape(b.Sum(b.Slice(out[2], 1, 0, 1)), 1)
	built.Figures = []figure{{"figures", out[2]}}
	return nil
}

// headEnds are what a network's head multiplies: rows x, W and the cap of logits.
type headEnds struct {
	x, head *graph.Value
	limit   float64
}

// TeacherPrefix begins the paths of a teacher's parameters.
const TeacherPrefix = "teacher."

// taught is a network with a teacher, whose parameters it has besides. Without a loss that reads it the teacher has no part in a graph.
type taught struct {
	Definition
	teacher Definition
	params  []Param
}

// WithTeacher is def with a teacher of the same vocabulary for Distill, which is frozen: its parameters have the prefix TeacherPrefix.
func WithTeacher(def, teacher Definition) (Definition, error) {
	if def == nil || teacher == nil {
		return nil, errNone
	}
	if found, wanted := teacher.Vocab(), def.Vocab(); found != wanted {
		return nil, fmt.Errorf("model: teacher: found a vocabulary of %d tokens, wanted the student's %d", found, wanted)
	}
	t := taught{Definition: def, teacher: teacher, params: slices.Clone(def.Params())}
	for _, p := range teacher.Params() {
		p.Path = TeacherPrefix + p.Path
		t.params = append(t.params, p)
	}
	sortParams(t.params)
	return t, nil
}

func (t taught) Params() []Param { return slices.Clone(t.params) }

// Build is that of the student, whose loss may read the teacher.
func (t taught) Build(batch, seq int, o Options) (*Built, error) {
	o.teacher = t.teacher
	built, err := t.Definition.Build(batch, seq, o)
	if err != nil {
		return nil, err
	}
	built.Params = nil
	for _, p := range t.params {
		built.Params = append(built.Params, built.Graph.Param(p.Path, p.Shape...))
	}
	return built, built.Graph.Err()
}

// WithDropout is for the student.
func (t taught) WithDropout(p float64) (Definition, error) {
	def, err := WithDropout(t.Definition, p)
	if err != nil {
		return nil, err
	}
	t.Definition = def
	return t, nil
}

// Student is def without its teacher; def itself where it has none.
func Student(def Definition) Definition {
	if t, ok := def.(taught); ok {
		return t.Definition
	}
	return def
}

// Teaches tells whether a path is that of a teacher's parameter.
func Teaches(path string) bool { return strings.HasPrefix(path, TeacherPrefix) }

// TeacherList is what a teacher says of the labels of a row: for each the same number of tokens, and their log-probabilities over the whole vocabulary.
type TeacherList struct {
	IDs      [][]int32   `json:"ids"`
	LogProbs [][]float64 `json:"logprobs"`
}

// unlisted is the log-probability of all other tokens where they have none.
const unlisted = -1e30

// Fill writes the lists into the inputs of the labels of a row [seq], which have room for k tokens each. With bucket the tokens that are not listed are a category of
// their own; without, the listed ones share the whole of the teacher's probability. Where a list has the whole vocabulary, or no less than all probability, the
// listed ones do so too.
func (l TeacherList) Fill(into map[string][]float32, first int, labels []int32, vocab int, bucket bool) error {
	k, next := len(into[InputTeacherIDs])/len(into[inputTeacherRest]), 0
	if len(l.IDs) != len(l.LogProbs) {
		return fmt.Errorf("found ids of %d tokens and log-probabilities of %d, wanted as many", len(l.IDs), len(l.LogProbs))
	}
	for i, label := range labels {
		if label == graph.IgnoreLabel {
			continue
		}
		if next == len(l.IDs) {
			return fmt.Errorf("found lists of %d tokens, wanted one for each of the completion", len(l.IDs))
		}
		ids, logs := l.IDs[next], l.LogProbs[next]
		next++
		if len(ids) != k || len(logs) != k {
			return fmt.Errorf("token %d: found %d ids and %d log-probabilities, wanted %d of each", next-1, len(ids), len(logs), k)
		}
		sum, seen := 0.0, map[int32]bool{}
		for j, id := range ids {
			if id < 0 || int(id) >= vocab || seen[id] {
				return fmt.Errorf("token %d: found id %d, wanted each once, from 0 to %d", next-1, id, vocab-1)
			}
			if !(logs[j] <= 1e-3) || math.IsInf(logs[j], 0) {
				return fmt.Errorf("token %d: found the log-probability %v, wanted a finite one, not above 0", next-1, logs[j])
			}
			seen[id] = true
			sum += math.Exp(logs[j])
		}
		if !(sum > 0 && sum < 1.01) {
			return fmt.Errorf("token %d: found probabilities that add up to %v, wanted at most 1", next-1, sum)
		}
		at, shift, rest := first+i, 0.0, float64(unlisted)
		if bucket && k < vocab && sum < 1 {
			rest = math.Log(1 - sum)
		} else {
			shift = math.Log(sum)
		}
		into[inputTeacherRest][at] = float32(rest)
		for j := range ids {
			into[InputTeacherIDs][at*k+j], into[inputTeacherLogs][at*k+j] = float32(ids[j]), float32(logs[j]-shift)
		}
	}
	if next < len(l.IDs) {
		return fmt.Errorf("found lists of %d tokens, wanted %d, one for each of the completion", len(l.IDs), next)
	}
	return nil
}

// TeacherInputs is room for the lists of so many labels.
func TeacherInputs(labels, k int) map[string][]float32 {
	return map[string][]float32{
		InputTeacherIDs: make([]float32, labels*k), inputTeacherLogs: make([]float32, labels*k), inputTeacherRest: make([]float32, labels),
	}
}
