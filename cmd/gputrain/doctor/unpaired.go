package doctor

import (
	"fmt"
	"io/fs"

	"gputrain/model"
	"gputrain/run/data"
)

// unpairedCase is case.json of kind kto: completions that are good or bad.
type unpairedCase struct {
	objectiveCase
	LossType    string   `json:"loss_type"`
	Beta        float64  `json:"beta"`
	Desirable   *float64 `json:"desirable_weight"` // null: 1
	Undesirable *float64 `json:"undesirable_weight"`

	rows      []unpairedRow
	reference map[string][]float32 // log-probabilities by the reference of a model that is trained whole, of all rows and of their mismatches
}

// unpairedRow is a row of rows.jsonl.
type unpairedRow struct {
	completion
	Label any `json:"label"` // true, false, 1 or 0
}

func (r unpairedRow) good() (float32, error) {
	switch r.Label {
	case true, 1.0:
		return 1, nil
	case false, 0.0:
		return 0, nil
	}
	return 0, fmt.Errorf("label: found %v, wanted true, false, 1 or 0", r.Label)
}

func loadKTO(c *goldenCase, dir fs.FS) (*unpairedCase, error) {
	u := &unpairedCase{}
	if err := u.open(c, dir, u); err != nil {
		return nil, err
	}
	numbers := map[string]float64{"beta": u.Beta, "desirable_weight": 1, "undesirable_weight": 1}
	for name, given := range map[string]*float64{"desirable_weight": u.Desirable, "undesirable_weight": u.Undesirable} {
		if given != nil {
			numbers[name] = *given
		}
	}
	u.learned = model.Objective{Loss: u.LossType, Numbers: numbers}
	if err := u.learned.Validate(); err != nil {
		return nil, fmt.Errorf("case.json: %w", err)
	}
	var err error
	if u.rows, err = rowsOf[unpairedRow](&u.objectiveCase, dir, "rows.jsonl"); err != nil {
		return nil, err
	}
	for i, row := range u.rows {
		if _, err := row.good(); err != nil {
			return nil, fmt.Errorf("rows.jsonl: row %d: %w", i, err)
		}
		if err := row.check(i); err != nil {
			return nil, err
		}
		before := i - 1 // of its update
		if i%u.Batch == 0 {
			before = i + u.Batch - 1
		}
		u.SeqLen = max(u.SeqLen, len(row.Prompt)+max(len(row.Completion), len(u.rows[before].Completion))-1)
	}
	if u.Trained == "whole" {
		return u, u.readReference(dir)
	}
	return u, nil
}

// readReference computes, in float64, the log-probabilities of all completions, as they are and mismatched, by the model in reference/ or base/.
func (u *unpairedCase) readReference(dir fs.FS) error {
	u.reference = map[string][]float32{}
	a := model.Objective{Loss: "kto"}.Row().Ahead
	for step := range u.Steps {
		b := u.batch(step)
		plain := model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows}
		mismatched, err := a.Rows(plain, nil)
		if err != nil {
			return err
		}
		for name, rows := range map[string]model.Rows{model.InputReference: plain, model.InputMismatched: mismatched} {
			values, err := u.referenceOf(dir, data.Batch{Tokens: rows.Tokens, Labels: rows.Labels, Rows: rows.Count})
			if err != nil {
				return err
			}
			u.reference[name] = append(u.reference[name], values...)
		}
	}
	return nil
}

func (u *unpairedCase) batch(step int) data.Batch {
	first := step * u.Batch
	var rows []completion
	for _, row := range u.rows[first:][:u.Batch] {
		rows = append(rows, row.completion)
	}
	b := lay(rows, u.SeqLen)
	for i, row := range u.rows[first:][:u.Batch] {
		good, _ := row.good()
		b.SetBeside(model.InputGood, i, good)
	}
	for name, values := range u.reference {
		if len(values) >= first+u.Batch {
			b.Beside[name] = values[first:][:u.Batch]
		}
	}
	return b
}

func (u *unpairedCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	u.memory = nil
	return trainSteps(c, u, run)
}

func (u *unpairedCase) figures(_ int, found map[string][]float32) (metrics map[string]numbers, first map[string][]float32, err error) {
	metrics = map[string]numbers{}
	rewards, rows := found["rewards"]
	if !rows { // means
		for name, values := range found {
			metrics[name] = numbers{float64(values[0])}
		}
		return metrics, nil, nil
	}
	good, logps := found[model.InputGood], found["logps"]
	for value, class := range []string{"rejected", "chosen"} {
		var reward, logp, n float64
		for i := range good {
			if good[i] == float32(value) {
				reward, logp, n = reward+float64(rewards[i]), logp+float64(logps[i]), n+1
			}
		}
		metrics["rewards_"+class], metrics["logps_"+class] = numbers{reward / n}, numbers{logp / n}
	}
	metrics["margin"] = numbers{metrics["rewards_chosen"][0] - metrics["rewards_rejected"][0]}
	for _, name := range []string{"kl", "delta"} {
		if values, there := found[name]; there {
			metrics[name] = numbers{float64(values[0])}
		}
	}
	return metrics, map[string][]float32{"logps": logps, "reference_logps": found["reference_logps"]}, nil
}
