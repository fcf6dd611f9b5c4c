package doctor

import (
	"fmt"
	"io/fs"
	"math"
	"slices"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// rewardCase is case.json of kind reward: scores of rows, which are pairs, or have classes.
type rewardCase struct {
	objectiveCase
	Objective string  `json:"objective"` // pairs or classes
	Labels    int     `json:"num_labels"`
	Centering float64 `json:"center_rewards_coefficient"`

	rows   [][]int32 // of all steps: two of a pair
	labels []int32   // of each row; 0 of pairs
	margin []float32 // of each row
}

// rewardRow is a row of rows.jsonl.
type rewardRow struct {
	Prompt   []int32 `json:"prompt"`
	Chosen   []int32 `json:"chosen"`
	Rejected []int32 `json:"rejected"`
	Margin   float64 `json:"margin"`
	Tokens   []int32 `json:"tokens"`
	Label    int32   `json:"label"`
}

func loadReward(c *goldenCase, dir fs.FS) (*rewardCase, error) {
	r := &rewardCase{}
	if err := r.open(c, dir, r); err != nil {
		return nil, err
	}
	if found := model.HeadOf(r.def); found.Kind != model.HeadScores || found.Labels != r.Labels {
		return nil, fmt.Errorf("case.json: num_labels: found %d, wanted the %d of the model", r.Labels, found.Labels)
	}
	rows, err := rowsOf[rewardRow](r.common(), dir, "rows.jsonl")
	if err != nil {
		return nil, err
	}
	switch r.Objective {
	case "pairs":
		r.learned = model.Objective{Loss: "reward", Numbers: map[string]float64{"center_rewards_coefficient": r.Centering}}
		for _, row := range rows {
			r.rows = append(r.rows, slices.Concat(row.Prompt, row.Chosen), slices.Concat(row.Prompt, row.Rejected))
			r.labels, r.margin = append(r.labels, 0, 0), append(r.margin, float32(row.Margin), float32(row.Margin))
		}
		r.Batch *= 2
	case "classes":
		r.learned = model.Objective{Loss: "classes"}
		for _, row := range rows {
			r.rows, r.labels = append(r.rows, row.Tokens), append(r.labels, row.Label)
			if row.Label < 0 || int(row.Label) >= r.Labels {
				return nil, fmt.Errorf("rows.jsonl: row %d: label: found %d, wanted 0 to %d", len(r.rows)-1, row.Label, r.Labels-1)
			}
		}
	default:
		return nil, fmt.Errorf("case.json: objective: found %q, wanted pairs or classes", r.Objective)
	}
	for i, row := range r.rows {
		if len(row) == 0 {
			return nil, fmt.Errorf("rows.jsonl: sequence %d: found no tokens, wanted some", i)
		}
	}
	r.SeqLen = longest(r.rows)
	for step := range r.Steps {
		b := r.batch(step)
		if err := model.CheckEnds(r.def, model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows}); err != nil {
			return nil, fmt.Errorf("rows.jsonl: step %d: %w", step, err)
		}
	}
	return r, nil
}

func longest(rows [][]int32) (n int) {
	for _, row := range rows {
		n = max(n, len(row))
	}
	return n
}

// ending lays rows into a batch of seq tokens each, with the label of each at its last token; a row without tokens has none.
func ending(rows [][]int32, labels []int32, seq int) data.Batch {
	b := data.Batch{Rows: len(rows), Tokens: make([]int32, len(rows)*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, len(rows)*seq)}
	for i, row := range rows {
		copy(b.Tokens[i*seq:], row)
		if len(row) > 0 {
			b.Labels[i*seq+len(row)-1] = labels[i]
		}
	}
	return b
}

func (r *rewardCase) batch(step int) data.Batch {
	from, to := step*r.Batch, (step+1)*r.Batch
	b := ending(r.rows[from:to], r.labels[from:to], r.SeqLen)
	if r.margin != nil {
		b.Beside = map[string][]float32{model.InputMargin: r.margin[from:to]}
	}
	return b
}

func (r *rewardCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	return trainSteps(c, r, run)
}

func (r *rewardCase) figures(_ int, found map[string][]float32) (metrics map[string]numbers, first map[string][]float32, err error) {
	metrics, first = map[string]numbers{}, map[string][]float32{}
	scores, there := found["scores"]
	switch {
	case !there: // means
		for _, name := range r.learned.Row().Sums {
			metrics[name] = numbers{float64(found[name][0])}
		}
		return metrics, first, nil
	case r.Objective == "classes":
		first["scores"] = scores
		metrics["accuracy"] = numbers{mean(found["hits"], func(i int) float64 { return float64(found["hits"][i]) })}
		return metrics, first, nil
	}
	var sides [2][]float32
	for i, s := range scores {
		sides[i%2] = append(sides[i%2], s)
	}
	first["scores"] = slices.Concat(sides[0], sides[1])
	apart := func(i int) float64 { return float64(sides[0][i]) - float64(sides[1][i]) }
	metrics["min_reward"], metrics["max_reward"] = numbers{float64(slices.Min(scores))}, numbers{float64(slices.Max(scores))}
	metrics["mean_reward"] = numbers{mean(scores, func(i int) float64 { return float64(scores[i]) })}
	metrics["margin"] = numbers{mean(sides[0], apart)}
	metrics["accuracy"] = numbers{mean(sides[0], func(i int) float64 { return math.Ceil(math.Max(0, math.Min(1, apart(i)))) })}
	return metrics, first, nil
}
