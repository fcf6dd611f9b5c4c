package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// preferenceCase is case.json of kind dpo: an adapter, or a whole model, that is trained on pairs of completions.
type preferenceCase struct {
	loraCase
	Trained        string               `json:"trained"` // adapter or whole; "": adapter
	LossType       string               `json:"loss_type"`
	LogPs          string               `json:"logps"` // sum or mean
	Beta           float64              `json:"beta"`
	LabelSmoothing float64              `json:"label_smoothing"`
	Lambda         float64              `json:"orpo_lambda"`
	Gamma          float64              `json:"simpo_gamma"`
	Alpha          float64              `json:"alpha"` // AlphaPO's
	CPOAlpha       float64              `json:"cpo_alpha"`
	Tau            float64              `json:"discopop_tau"`
	Metrics        []map[string]float64 `json:"metrics"` // of each step
	GradNorms      map[string]float64   `json:"grad_norms"`
	Tolerances     struct {
		LogPs    tolerance `json:"logps"`
		Rewards  tolerance `json:"rewards"`
		Accuracy tolerance `json:"accuracy"`
		GradNorm tolerance `json:"grad_norm"`
	} `json:"-"`

	pairs     []pair
	reference []float32 // [2*pairs] log-probabilities by the reference of a model that is trained whole
}

// pair is a row of rows.jsonl.
type pair struct {
	Prompt   []int32 `json:"prompt"`
	Chosen   []int32 `json:"chosen"`
	Rejected []int32 `json:"rejected"`
}

// rows are the pair's sequences.
func (p pair) rows() [2][]int32 {
	return [2][]int32{slices.Concat(p.Prompt, p.Chosen), slices.Concat(p.Prompt, p.Rejected)}
}

// batch lays pairs into rows of seq tokens, with the labels of their completions.
func batch(pairs []pair, seq int) data.Batch {
	var rows []completion
	for _, p := range pairs {
		rows = append(rows, completion{p.Prompt, p.Chosen}, completion{p.Prompt, p.Rejected})
	}
	return lay(rows, seq)
}

func loadPairs(c *goldenCase, dir fs.FS) (*preferenceCase, error) {
	p := &preferenceCase{}
	if err := c.decode(p); err != nil {
		return nil, err
	}
	if err := c.tolerances(&p.Tolerances); err != nil {
		return nil, err
	}
	p.learned = model.Objective{Loss: p.LossType, Numbers: map[string]float64{
		"beta": p.Beta, "label_smoothing": p.LabelSmoothing, "orpo_lambda": p.Lambda, "simpo_gamma": p.Gamma,
		"simpo_alpha": p.Alpha, "cpo_alpha": p.CPOAlpha, "discopop_tau": p.Tau,
	}}
	if err := p.learned.Validate(); err != nil {
		return nil, fmt.Errorf("case.json: %w", err)
	}
	if wanted := map[bool]string{false: "sum", true: "mean"}[p.learned.Row().Mean]; p.LogPs != wanted {
		return nil, fmt.Errorf("case.json: logps: found %q, wanted %q for loss_type %s", p.LogPs, wanted, p.LossType)
	}
	switch p.Trained {
	case "", "adapter":
		if err := p.readAdapter(dir); err != nil {
			return nil, err
		}
		return p, p.readPairs(dir)
	case "whole":
		var err error
		if p.def, p.initial, err = readModel(dir, "base", nil); err != nil {
			return nil, err
		}
		p.fix()
		if err := p.readPairs(dir); err != nil {
			return nil, err
		}
		return p, p.readReference(dir)
	}
	return nil, fmt.Errorf("case.json: trained: found %q, wanted adapter or whole", p.Trained)
}

// readReference computes, in float64, the log-probabilities of all completions by the model in reference/, or where there is none by that in base/.
func (p *preferenceCase) readReference(dir fs.FS) error {
	if !p.learned.Row().Reference {
		return nil
	}
	b := batch(p.pairs, p.SeqLen)
	var err error
	p.reference, err = p.referenceOf(dir, b)
	return err
}

// referenceOf are the log-probabilities of the labels of each row, together, as byReference has them.
func (m *modelCase) referenceOf(dir fs.FS, b data.Batch) ([]float32, error) {
	each, err := m.byReference(dir, b, 1)
	if err != nil {
		return nil, err
	}
	reference := make([]float32, b.Rows)
	for row := range reference {
		sum := 0.0
		for _, one := range each[row*m.SeqLen : (row+1)*m.SeqLen] {
			sum += one
		}
		reference[row] = float32(sum)
	}
	return reference, nil
}

// byReference are the log-probabilities of all labels of a batch, 0 where there is none, by the model in reference/, or where there is none by what the case
// begins with: in float64, of logits divided by a temperature.
func (m *modelCase) byReference(dir fs.FS, b data.Batch, temperature float64) ([]float64, error) {
	def, params := m.def, m.initial
	if _, err := fs.Stat(dir, "reference/config.json"); err == nil {
		if def, params, err = readModel(dir, "reference", nil); err != nil {
			return nil, err
		}
	}
	built, err := def.Build(b.Rows, m.SeqLen, model.Options{Logits: true})
	if err != nil {
		return nil, err
	}
	feeds := map[string]*graph.Array{model.InputTokens: graph.NewArray([]int{b.Rows, m.SeqLen})}
	for i, token := range b.Tokens {
		feeds[model.InputTokens].Data[i] = float64(token)
	}
	for _, h := range params {
		feeds[h.Path] = graph.NewArray(h.Shape)
		for i, x := range h.Data {
			feeds[h.Path].Data[i] = float64(x)
		}
	}
	found, err := graph.Eval(built.Graph, feeds, built.Logits)
	if err != nil {
		return nil, err
	}
	out, vocab := make([]float64, len(b.Labels)), def.Vocab()
	for i, label := range b.Labels {
		if label == graph.IgnoreLabel {
			continue
		}
		logits := found[0].Data[i*vocab : (i+1)*vocab]
		for j := range logits {
			logits[j] /= temperature
		}
		out[i] = logProbability(logits, label)
	}
	return out, nil
}

// logProbability is log softmax of logits at id.
func logProbability(logits []float64, id int32) float64 {
	largest, sum := slices.Max(logits), 0.0
	for _, z := range logits {
		sum += math.Exp(z - largest)
	}
	return logits[id] - largest - math.Log(sum)
}

// readPairs reads rows.jsonl, and makes rows of two for each pair, as long as the longest.
func (p *preferenceCase) readPairs(dir fs.FS) error {
	raw, err := fs.ReadFile(dir, "rows.jsonl")
	if err != nil {
		return err
	}
	for in := json.NewDecoder(bytes.NewReader(raw)); ; {
		var one pair
		if err := in.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("rows.jsonl: row %d: %w", len(p.pairs), err)
		}
		if len(one.Prompt) == 0 || len(one.Chosen) == 0 || len(one.Rejected) == 0 {
			return fmt.Errorf("rows.jsonl: row %d: found a prompt or a completion without tokens, wanted at least one in each", len(p.pairs))
		}
		p.pairs = append(p.pairs, one)
		for _, row := range one.rows() {
			p.SeqLen = max(p.SeqLen, len(row)-1)
		}
	}
	if p.Steps < 1 || p.Batch < 1 || len(p.pairs) != p.Steps*p.Batch || len(p.Metrics) != p.Steps || len(p.Losses) != p.Steps || p.counted() != len(p.initial) {
		return fmt.Errorf("case.json: %d steps of batch %d, %d rows, %d metrics, %d losses, %d params: want a row for each of a batch, a metric and a loss a step, and the adapter's %d params",
			p.Steps, p.Batch, len(p.pairs), len(p.Metrics), len(p.Losses), len(p.Params), len(p.initial))
	}
	p.Batch *= 2
	return nil
}

// train makes all steps of a case and compares what is expected of the first, of the figures of each and at the end.
func (p *preferenceCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	seen := &comparison{}
	for step := range p.Steps {
		pairs := p.pairs[step*p.Batch/2 : (step+1)*p.Batch/2]
		batch := batch(pairs, p.SeqLen)
		if p.reference != nil {
			batch.Beside = map[string][]float32{model.InputReference: p.reference[step*p.Batch : (step+1)*p.Batch]}
		}
		if step == 0 {
			if err := c.firstLogits(p, seen, pairs[0], batch.Tokens, run); err != nil {
				return nil, err
			}
		}
		found, err := run.learn(batch)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		grads, err := run.gradients()
		if err != nil {
			return nil, err
		}
		if err := c.compareFigures(p, seen, step, found, grads); err != nil {
			return nil, err
		}
		if step == 0 {
			c.firstPairs(p, seen, found, grads, run)
		}
	}
	if p.Trained != "whole" {
		c.merged(&p.loraCase, seen)
	}
	c.compareTree(&p.modelCase, seen, "final params", "expect/final/params", run.params, p.Tolerance.FinalParams)
	return seen, c.err
}

// firstLogits compares the logits of the first pair.
func (c *goldenCase) firstLogits(p *preferenceCase, seen *comparison, first pair, tokens []int32, run modelRun) error {
	got, err := run.logits(tokens)
	if err != nil {
		return err
	}
	vocab := p.def.Vocab()
	for row, side := range []string{"chosen", "rejected"} {
		want := c.floats("expect/0/logits/" + side)
		length := len(first.rows()[row]) - 1
		from := row * p.SeqLen * vocab
		seen.tensor("step 0 logits "+side, got[from:from+length*vocab], want, p.Tolerance.Logits)
	}
	return nil
}

// firstPairs compares what is expected of each pair of the first step, and of its gradients.
func (c *goldenCase) firstPairs(p *preferenceCase, seen *comparison, found map[string][]float32, grads []buffers.Host, run modelRun) {
	for _, t := range []struct{ name, figure string }{
		{"logps/chosen", "logps_chosen"},
		{"logps/rejected", "logps_rejected"},
		{"reference_logps/chosen", "reference_chosen"},
		{"reference_logps/rejected", "reference_rejected"},
	} {
		got, there := found[t.figure]
		if _, means := found["accuracy"]; means || !there {
			continue
		}
		seen.tensor("step 0 "+t.name, got, c.floats("expect/0/"+t.name), p.Tolerances.LogPs)
	}
	for _, g := range grads {
		if want, ok := p.GradNorms[g.Path]; ok {
			seen.near("step 0 gradient norm of "+g.Path, norm([]buffers.Host{g}), want, p.Tolerances.GradNorm)
		}
	}
	c.compareTree(&p.modelCase, seen, "step 0 grads", "expect/0/grads", run.gradients, p.Tolerance.Grads)
}

// compareFigures compares the means over the pairs of a step, its loss and the length of its gradient.
func (c *goldenCase) compareFigures(p *preferenceCase, seen *comparison, step int, found map[string][]float32, grads []buffers.Host) error {
	got := map[string]float64{"grad_norm": norm(grads)}
	for name, values := range found {
		got[name] = mean(values, func(i int) float64 { return float64(values[i]) })
	}
	got["nll"] /= float64(p.Batch / 2) // a share of the sum over the pairs
	chosen, rejected := found["rewards_chosen"], found["rewards_rejected"]
	got["margin"] = got["rewards_chosen"] - got["rewards_rejected"]
	_, means := found["accuracy"]
	if !means {
		got["accuracy"] = mean(chosen, func(i int) float64 {
			if chosen[i] > rejected[i] {
				return 1
			}
			return 0
		})
	}
	if odds, there := found["log_odds"]; there {
		got["log_odds_ratio"] = mean(odds, func(i int) float64 { return -math.Log1p(math.Exp(-float64(odds[i]))) })
	}
	l := p.Tolerances
	within := map[string]tolerance{
		"loss": p.Tolerance.Loss, "rewards_chosen": l.Rewards, "rewards_rejected": l.Rewards, "margin": l.Rewards, "accuracy": l.Accuracy,
		"logps_chosen": l.LogPs, "logps_rejected": l.LogPs, "grad_norm": l.GradNorm,
	}
	for _, name := range []string{"nll", "log_odds", "log_odds_ratio"} {
		if _, there := p.Metrics[step][name]; there && !means {
			within[name] = p.Tolerance.Loss
		}
	}
	for _, name := range slices.Sorted(maps.Keys(within)) {
		want, there := p.Metrics[step][name]
		if !there {
			return fmt.Errorf("case.json: metrics: step %d: found no %q, wanted one", step, name)
		}
		seen.near(fmt.Sprintf("step %d %s", step, name), got[name], want, within[name])
	}
	seen.near(fmt.Sprintf("step %d loss of losses", step), got["loss"], p.Losses[step], p.Tolerance.Loss)
	return nil
}

func mean(of []float32, value func(i int) float64) float64 {
	sum := 0.0
	for i := range of {
		sum += value(i)
	}
	return sum / float64(len(of))
}

// norm is the Euclidean length of all arrays together.
func norm(of []buffers.Host) float64 {
	sum := 0.0
	for _, h := range of {
		for _, x := range h.Data {
			sum += float64(x) * float64(x)
		}
	}
	return math.Sqrt(sum)
}
