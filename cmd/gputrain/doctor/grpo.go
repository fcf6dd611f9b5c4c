package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"gputrain/model"
	"gputrain/run/data"
)

// drawnCase is case.json of kind grpo: completions that were drawn, with rewards.
type drawnCase struct {
	objectiveCase
	rewarding
	LossType     string   `json:"loss_type"`
	Level        string   `json:"importance_sampling_level"` // token or sequence
	Epsilon      float64  `json:"epsilon"`
	EpsilonHigh  *float64 `json:"epsilon_high"` // null: epsilon
	Delta        *float64 `json:"delta"`        // null: no cap
	Beta         float64  `json:"beta"`
	Temperature  float64  `json:"temperature"`
	Mask         bool     `json:"mask_truncated_completions"`
	Longest      float64  `json:"max_completion_length"`
	StopIDs      []int32  `json:"stop_ids"`
	MicroBatches []int    `json:"micro_batches"` // into which an update can be cut

	rows      []drawn
	gained    []model.Advantages // of each step
	reference []float32          // of all labels, of a model that is trained whole
}

// drawn is a row of rows.jsonl.
type drawn struct {
	completion
	Rewards numbers   `json:"rewards"` // null for nothing
	Old     []float32 `json:"old_logps"`
}

func loadDrawn(c *goldenCase, dir fs.FS) (*drawnCase, error) {
	d := &drawnCase{}
	if err := d.open(c, dir, d); err != nil {
		return nil, err
	}
	if err := d.objective(); err != nil {
		return nil, fmt.Errorf("case.json: %w", err)
	}
	var err error
	if d.rows, err = rowsOf[drawn](&d.objectiveCase, dir, "rows.jsonl"); err != nil {
		return nil, err
	}
	for i, row := range d.rows {
		if err := row.check(i); err != nil {
			return nil, err
		}
		if len(row.Old) != len(row.Completion) {
			return nil, fmt.Errorf("rows.jsonl: row %d: found %d old_logps, wanted one of each of %d tokens", i, len(row.Old), len(row.Completion))
		}
		d.SeqLen = max(d.SeqLen, row.inputs())
	}
	for step := range d.Steps {
		var rewards []numbers
		for _, row := range d.rows[step*d.Batch : (step+1)*d.Batch] {
			rewards = append(rewards, row.Rewards)
		}
		gained, err := d.advantages(rewards)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		d.gained = append(d.gained, gained)
	}
	if d.Trained != "whole" || d.Beta == 0 {
		return d, nil
	}
	for step := range d.Steps {
		each, err := d.byReference(dir, d.batch(step), d.Temperature)
		if err != nil {
			return nil, err
		}
		for _, x := range each {
			d.reference = append(d.reference, float32(x))
		}
	}
	return d, nil
}

// objective sets what is learned.
func (d *drawnCase) objective() error {
	name := d.LossType
	if name == "grpo" && d.Level == "sequence" {
		name = "gspo" // as TRL has it
	}
	if wanted := map[bool]string{true: "sequence", false: "token"}[name == "gspo"]; cmp.Or(d.Level, wanted) != wanted {
		return fmt.Errorf("importance_sampling_level: found %q, wanted %q with loss_type %s", d.Level, wanted, name)
	}
	given := map[string]float64{
		"epsilon": d.Epsilon, "epsilon_high": d.Epsilon, "beta": d.Beta, "temperature": d.Temperature, "max_completion_length": d.Longest,
	}
	if d.EpsilonHigh != nil {
		given["epsilon_high"] = *d.EpsilonHigh
	}
	if d.Delta != nil {
		given["delta"] = *d.Delta
	}
	if d.Mask {
		given["mask_truncated_completions"] = 1
	}
	d.learned = model.Objective{Loss: name, Numbers: map[string]float64{}}
	for _, n := range d.learned.Row().Numbers {
		d.learned.Numbers[n.Name] = given[n.Name]
	}
	return d.learned.Validate()
}

func (d *drawnCase) of(step int) []drawn { return d.rows[step*d.Batch : (step+1)*d.Batch] }

// truncated tells whether a completion was cut off before a token that ends it.
func (d *drawnCase) truncated(row drawn) bool {
	return !slices.Contains(d.StopIDs, row.Completion[len(row.Completion)-1])
}

// batch lays out the rows of a step, with what their loss reads beside them.
func (d *drawnCase) batch(step int) data.Batch {
	n := d.Batch * d.SeqLen
	var rows []completion
	for _, row := range d.of(step) {
		rows = append(rows, row.completion)
	}
	b := lay(rows, d.SeqLen)
	advantages, old, truncated := make([]float32, d.Batch), make([]float32, n), make([]float32, d.Batch)
	for i, row := range d.of(step) {
		copy(old[i*d.SeqLen+len(row.Prompt)-1:], row.Old)
		advantages[i] = float32(d.gained[step].Of[i])
		if d.truncated(row) {
			truncated[i] = 1
		}
	}
	b.Beside = map[string][]float32{model.InputAdvantages: advantages, model.InputOld: old, model.BesideTruncated: truncated}
	if d.reference != nil {
		b.Beside[model.InputReference] = d.reference[step*n : (step+1)*n]
	}
	return b
}

// figures are the metrics of a step: those of its rows, and what was found.
func (d *drawnCase) figures(step int, found map[string][]float32) (metrics map[string]numbers, first map[string][]float32, err error) {
	metrics, first = figuresOf(d.gained[step]), map[string][]float32{}
	counts, rows, length, cut := d.counted(step), float64(d.Batch), 0.0, 0.0
	tokens := 0.0
	for i, row := range d.of(step) {
		tokens += counts[i]
		length += float64(len(row.Completion))
		if d.truncated(row) {
			cut++
		}
		first["advantages"] = append(first["advantages"], float32(d.gained[step].Of[i]))
	}
	metrics["mean_length"], metrics["truncated_share"], metrics["tokens"] = numbers{length / rows}, numbers{cut / rows}, numbers{tokens}
	if len(found["entropy"]) <= 1 { // means
		for name, values := range found {
			metrics[name] = numbers{float64(values[0])}
		}
		return metrics, first, nil
	}
	for _, name := range []string{"logps", "reference_logps"} {
		for i, row := range d.of(step) {
			if values, there := found[name]; there {
				from := i*d.SeqLen + len(row.Prompt) - 1
				first[name] = append(first[name], values[from:from+len(row.Completion)]...)
			}
		}
	}
	low, high := math.Inf(1), 0.0
	for _, name := range []string{"entropy", "kl", "clip_low", "clip_high", "cispo_clip"} {
		values, there := found[name]
		if !there {
			continue
		}
		sum := 0.0
		for i, row := range d.of(step) {
			share, n := 0.0, counts[i]
			if len(values) == d.Batch { // of a row
				share, n = float64(values[i]), 1
			} else {
				from := i*d.SeqLen + len(row.Prompt) - 1
				for _, x := range values[from : from+int(n)] {
					share += float64(x)
				}
			}
			sum += share
			switch {
			case n == 0: // it has none
			case name == "clip_low":
				low = min(low, share/n)
			case name == "clip_high":
				high = max(high, share/n)
			}
		}
		metrics[name] = numbers{sum / tokens}
		if len(values) == d.Batch {
			metrics[name] = numbers{sum / rows}
		}
	}
	if clipped, there := metrics["clip_low"]; there {
		metrics["clip_region"] = numbers{clipped[0] + metrics["clip_high"][0]}
		metrics["clip_low_min"], metrics["clip_high_max"] = numbers{low}, numbers{high}
	}
	return metrics, first, nil
}

// counted are the tokens that count of each row of a step.
func (d *drawnCase) counted(step int) []float64 {
	counts := make([]float64, d.Batch)
	for i, row := range d.of(step) {
		if !d.Mask || !d.truncated(row) {
			counts[i] = float64(len(row.Completion))
		}
	}
	return counts
}

func (d *drawnCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	return trainSteps(c, d, run)
}

// parts are those that the case says.
func (d *drawnCase) parts() ([]int, error) {
	for _, micro := range d.MicroBatches {
		if micro < 1 || d.Batch%micro != 0 {
			return nil, fmt.Errorf("case.json: micro_batches: found %d, wanted what divides %d rows", micro, d.Batch)
		}
	}
	return d.MicroBatches, nil
}
