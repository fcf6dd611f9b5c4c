package doctor

import (
	"fmt"
	"io/fs"
	"slices"

	"gputrain/model"
	"gputrain/run/data"
)

// embedCase is case.json of kind embed: vectors of queries, each of which is to be nearest to its positive.
type embedCase struct {
	objectiveCase
	Pooling     string  `json:"pooling"`
	Normalize   *bool   `json:"normalize"`
	Temperature float64 `json:"temperature"`

	rows [][]int32 // of all steps, group a row of rows.jsonl: query, positive and negatives, of which some may be missing
}

// group is how many sequences a row has.
func (e *embedCase) group() int { return e.learned.Row().Group }

func loadEmbed(c *goldenCase, dir fs.FS) (*embedCase, error) {
	e := &embedCase{}
	if err := c.decode(e); err != nil {
		return nil, err
	}
	e.head = &model.Head{Kind: model.HeadVectors, Pooling: e.Pooling}
	if err := e.open(c, dir, e); err != nil {
		return nil, err
	}
	if e.Normalize != nil && !*e.Normalize {
		return nil, fmt.Errorf("case.json: normalize: found false, wanted true: vectors have length 1")
	}
	rows, err := rowsOf[struct {
		Query     []int32   `json:"query"`
		Positive  []int32   `json:"positive"`
		Negatives [][]int32 `json:"negatives"`
	}](e.common(), dir, "rows.jsonl")
	if err != nil {
		return nil, err
	}
	most := 0
	for i, row := range rows {
		most = max(most, len(row.Negatives))
		if len(row.Query) == 0 || len(row.Positive) == 0 {
			return nil, fmt.Errorf("rows.jsonl: row %d: found a query or a positive without tokens, wanted some in both", i)
		}
		for _, negative := range row.Negatives {
			if len(negative) == 0 {
				return nil, fmt.Errorf("rows.jsonl: row %d: found a negative without tokens, wanted some", i)
			}
		}
	}
	for _, row := range rows {
		e.rows = append(append(e.rows, row.Query, row.Positive), row.Negatives...)
		e.rows = append(e.rows, make([][]int32, most-len(row.Negatives))...)
	}
	e.learned = model.Objective{Loss: "embed", Numbers: map[string]float64{"temperature": e.Temperature, "negatives": float64(most)}}
	e.Batch *= 2 + most
	e.SeqLen = longest(e.rows)
	return e, e.learned.Validate()
}

func (e *embedCase) batch(step int) data.Batch {
	return ending(e.rows[step*e.Batch:(step+1)*e.Batch], make([]int32, e.Batch), e.SeqLen)
}

// parts are two, and one for each row.
func (e *embedCase) parts() (parts []int, err error) {
	for _, n := range []int{2, e.Batch / e.group()} {
		if rows := e.Batch / e.group(); rows%n == 0 && !slices.Contains(parts, n) {
			parts = append(parts, n)
		}
	}
	return parts, nil
}

func (e *embedCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	return trainSteps(c, e, run)
}

func (e *embedCase) figures(step int, found map[string][]float32) (metrics map[string]numbers, first map[string][]float32, err error) {
	metrics, first = map[string]numbers{}, map[string][]float32{}
	vectors, there := found["vectors"]
	if !there { // means
		for _, name := range e.learned.Row().Sums {
			metrics[name] = numbers{float64(found[name][0])}
		}
		return metrics, first, nil
	}
	for name, figure := range map[string]string{"accuracy": "hits", "positive_similarity": "similarity"} {
		metrics[name] = numbers{mean(found[figure], func(i int) float64 { return float64(found[figure][i]) })}
	}
	width := len(vectors) / e.Batch
	for i := range e.Batch {
		name := [...]string{"query", "positive", "negatives"}[min(i%e.group(), 2)]
		if len(e.rows[step*e.Batch+i]) > 0 {
			first[name] = append(first[name], vectors[i*width:(i+1)*width]...)
		}
	}
	return metrics, first, nil
}
