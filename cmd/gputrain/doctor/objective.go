package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// objectiveCase is case.json of a kind whose rows are lists of tokens in rows.jsonl: an adapter, or a whole model, that is trained on them by an objective.
type objectiveCase struct {
	loraCase
	Trained    string               `json:"trained"` // adapter or whole
	Metrics    []map[string]numbers `json:"metrics"` // of each step, before its update
	Tolerances struct {
		GradNorm tolerance            `json:"grad_norm"`
		Metrics  map[string]tolerance `json:"metrics"`
		First    map[string]tolerance `json:"first"` // tensors expect/0/NAME
	} `json:"-"`
}

// numbers are one, or several, or null, which is none; null among several is NaN, with which nothing is compared.
type numbers []float64

func (n *numbers) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("[")) {
		var several []*float64
		err := json.Unmarshal(raw, &several)
		*n = numbers{}
		for _, one := range several {
			if one == nil {
				nothing := math.NaN()
				one = &nothing
			}
			*n = append(*n, *one)
		}
		return err
	}
	var one *float64
	err := json.Unmarshal(raw, &one)
	if *n = nil; one != nil {
		*n = numbers{*one}
	}
	return err
}

// completion is a row of rows.jsonl, or what one has among others: tokens to be used as they are.
type completion struct {
	Prompt     []int32 `json:"prompt"`
	Completion []int32 `json:"completion"`
}

// check refuses a row without something to learn.
func (c completion) check(row int) error {
	if len(c.Prompt) == 0 || len(c.Completion) == 0 {
		return fmt.Errorf("rows.jsonl: row %d: found a prompt or a completion without tokens, wanted at least one in each", row)
	}
	return nil
}

// inputs is how many tokens the row takes: the last one is a label alone.
func (c completion) inputs() int { return len(c.Prompt) + len(c.Completion) - 1 }

// lay lays rows into a batch of seq tokens each, with the labels of their completions.
func lay(rows []completion, seq int) data.Batch {
	b := data.Batch{Rows: len(rows), Tokens: make([]int32, len(rows)*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, len(rows)*seq)}
	for i, row := range rows {
		copy(b.Tokens[i*seq:], slices.Concat(row.Prompt, row.Completion)[:row.inputs()])
		copy(b.Labels[i*seq+len(row.Prompt)-1:], row.Completion)
	}
	return b
}

// steps are what a kind makes of the rows of its cases.
type steps interface {
	trainedCase
	common() *objectiveCase
	// batch is what a step learns.
	batch(step int) data.Batch
	// figures are the metrics of a step, by the names of the case, and the tensors expect/0/NAME, of what a modelRun has found. Where it has found means
	// alone, as on stages, those that do not follow from them are left out.
	figures(step int, found map[string][]float32) (metrics map[string]numbers, first map[string][]float32, err error)
}

// cutSteps are steps whose updates can be cut into numbers of microbatches.
type cutSteps interface {
	steps
	parts() ([]int, error)
}

// cutting is a kind of such cases: with updates whole, and once more for each number of parts.
func cutting[S cutSteps](name string, load func(c *goldenCase, dir fs.FS) (S, error)) kind {
	return kind{name, func(ctx context.Context, devices []*gpu.Device, c *goldenCase, dir fs.FS) (*comparison, error) {
		seen, err := training(name, load).run(ctx, devices, c, dir)
		if err != nil {
			return nil, err
		}
		s, err := load(c, dir)
		if err != nil {
			return nil, err
		}
		parts, err := s.parts()
		if err != nil {
			return nil, err
		}
		m := s.network()
		for _, m.micro = range parts {
			if m.micro == 1 {
				continue
			}
			run, err := newStagedModel(ctx, devices, m)
			if err != nil {
				return nil, err
			}
			cut, err := s.train(c, run)
			run.release()
			if err != nil {
				return nil, fmt.Errorf("%d microbatches: %w", m.micro, err)
			}
			seen.join(fmt.Sprintf("%d microbatches: ", m.micro), cut)
		}
		return seen, nil
	}}
}

func (o *objectiveCase) common() *objectiveCase { return o }

// open decodes case.json into a case of some kind, whose common part this is, and reads the model. What is trained, learned and fed, the kind says.
func (o *objectiveCase) open(c *goldenCase, dir fs.FS, whole steps) error {
	if err := c.decode(whole); err != nil {
		return err
	}
	if err := c.tolerances(&o.Tolerances); err != nil {
		return err
	}
	if o.Steps < 1 || o.Batch < 1 || len(o.Losses) != o.Steps || len(o.Metrics) != o.Steps {
		return fmt.Errorf("case.json: %d steps of batch %d, %d losses, %d metrics: want both positive, a loss and metrics a step", o.Steps, o.Batch, len(o.Losses), len(o.Metrics))
	}
	switch o.Trained {
	case "adapter":
		return o.readAdapter(dir)
	case "whole":
		var err error
		if o.def, o.initial, err = readModel(dir, "base", o.head); err == nil {
			o.fix()
		}
		return err
	}
	return fmt.Errorf("case.json: trained: found %q, wanted adapter or whole", o.Trained)
}

// rowsOf reads rows.jsonl, or another file of JSON lines: batch rows a step.
func rowsOf[R any](o *objectiveCase, dir fs.FS, name string) (rows []R, err error) {
	raw, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(raw)); ; {
		var one R
		if err := in.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", name, len(rows), err)
		}
		rows = append(rows, one)
	}
	if len(rows) != o.Steps*o.Batch {
		return nil, fmt.Errorf("%s: found %d rows, wanted %d steps of %d", name, len(rows), o.Steps, o.Batch)
	}
	return rows, nil
}

// trainSteps makes all steps of a case, and compares what is expected of the first, of the metrics of each and at the end.
func trainSteps(c *goldenCase, s steps, run modelRun) (*comparison, error) {
	o, seen := s.common(), &comparison{}
	_, means := run.(*stagedModel)
	for step := range o.Steps {
		found, err := run.learn(s.batch(step))
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		grads, err := run.gradients()
		if err != nil {
			return nil, err
		}
		metrics, first, err := s.figures(step, found)
		if err != nil {
			return nil, err
		}
		metrics["loss"], metrics["grad_norm"] = numbers{float64(found["loss"][0])}, numbers{norm(grads)}
		if err := o.compareMetrics(seen, step, metrics, means); err != nil {
			return nil, err
		}
		seen.near(fmt.Sprintf("step %d loss of losses", step), metrics["loss"][0], o.Losses[step], o.Tolerance.Loss)
		if step > 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(o.Tolerances.First)) {
			if got, there := first[name]; there {
				seen.tensor("step 0 "+name, got, c.floats("expect/0/"+name), o.Tolerances.First[name])
			} else if !means {
				return nil, fmt.Errorf("case.json: tolerance: first: found %q, wanted a tensor that the kind has", name)
			}
		}
		c.compareTree(&o.modelCase, seen, "step 0 grads", "expect/0/grads", func() ([]buffers.Host, error) { return grads, nil }, o.Tolerance.Grads)
	}
	if o.Trained == "adapter" {
		c.merged(&o.loraCase, seen)
	}
	c.compareTree(&o.modelCase, seen, "final params", "expect/final/params", run.params, o.Tolerance.FinalParams)
	return seen, c.err
}

// ahead lays beside a batch what the objective finds of it before the backward pass, by a forward pass that look makes.
func (m *modelCase) ahead(b data.Batch, look func(o model.Objective, b data.Batch) ([]float32, error)) (data.Batch, error) {
	a := m.learned.Row().Ahead
	if a == nil {
		return b, nil
	}
	rows, err := a.Rows(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows, Beside: b.Beside}, nil)
	if err != nil {
		return b, err
	}
	o, _ := m.learned.Ahead()
	found, err := look(o, data.Batch{Rows: rows.Count, Tokens: rows.Tokens, Labels: rows.Labels, Beside: rows.Beside})
	if err != nil {
		return b, err
	}
	seen := model.Seen{Counts: slices.Repeat([]bool{true}, b.Rows), Learning: true}
	seen.Rows = slices.Collect(slices.Chunk(found, len(found)/b.Rows))
	laid, memory := a.Lay(m.learned.Numbers, seen, m.memory)
	maps.Copy(laid, b.Beside)
	b.Beside, m.memory = laid, memory
	return b, nil
}

func (o *objectiveCase) compareMetrics(seen *comparison, step int, got map[string]numbers, means bool) error {
	for _, name := range slices.Sorted(maps.Keys(o.Metrics[step])) {
		want := o.Metrics[step][name]
		if want == nil {
			continue
		}
		within, there := o.Tolerances.Metrics[name]
		switch name {
		case "loss":
			within, there = o.Tolerance.Loss, true
		case "grad_norm":
			within, there = o.Tolerances.GradNorm, true
		}
		found, known := got[name]
		switch {
		case !known && means:
			continue
		case !known || !there || len(found) != len(want):
			return fmt.Errorf("case.json: metrics: step %d: %s: found %d numbers, wanted %d of a name that the kind has, and a tolerance", step, name, len(want), len(found))
		}
		for i := range want {
			if !math.IsNaN(want[i]) {
				seen.near(fmt.Sprintf("step %d %s", step, name), found[i], want[i], within)
			}
		}
	}
	return nil
}
