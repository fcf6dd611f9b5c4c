package grpo

import (
	"encoding/json"
	"fmt"
	"math"

	"gputrain/run/data"
)

// format is the version of the file of a generation that this program writes and reads.
const format = 1

// A Generation is what was made together.
type Generation struct {
	Format int        `json:"format"`
	Number uint64     `json:"generation"`
	Step   int64      `json:"step"`  // of its first update
	Place  data.State `json:"place"` // of its first prompt in the shuffled order
	Next   data.State `json:"next"`  // of the first prompt of the next one
	Names  []string   `json:"rewards"`
	Groups []Group    `json:"groups"`
}

// A Group is the completions of one prompt.
type Group struct {
	Row    int64   `json:"row"` // of the text, from 0 on
	Prompt []int32 `json:"prompt"`
	Rows   []Row   `json:"completions"`
}

// Of is the generation of prompts and rows, in their order, with as many rows of each prompt.
func Of(c Config, prompts []data.Prompt, rows []Row) *Generation {
	g := &Generation{Format: format}
	for _, r := range c.Rewards {
		g.Names = append(g.Names, r.Name)
	}
	each := len(rows) / max(1, len(prompts))
	for i, p := range prompts {
		g.Groups = append(g.Groups, Group{Row: p.Row, Prompt: p.Tokens, Rows: rows[i*each : (i+1)*each]})
	}
	return g
}

// Bytes is the file of a generation.
func (g *Generation) Bytes() ([]byte, error) {
	raw, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("generation %d: %w", g.Number, err)
	}
	return append(raw, '\n'), nil
}

// Parse reads the file of a generation of so many rows.
func Parse(raw []byte, rows int) (*Generation, error) {
	var g Generation
	if err := json.Unmarshal(raw, &g); err != nil {
		return nil, err
	}
	found := 0
	for i, group := range g.Groups {
		if len(group.Prompt) == 0 {
			return nil, fmt.Errorf("group %d: found no prompt, wanted one", i)
		}
		for j, r := range group.Rows {
			group.Rows[j].Prompt = i
			if len(r.Tokens) == 0 || len(r.Sampled) != len(r.Tokens) || r.Old != nil && len(r.Old) != len(r.Tokens) || len(r.Rewards) != len(g.Names) {
				return nil, fmt.Errorf("group %d, completion %d: found %d tokens, %d and %d log-probabilities, %d rewards, wanted as many of each token, and of %d functions",
					i, j, len(r.Tokens), len(r.Sampled), len(r.Old), len(r.Rewards), len(g.Names))
			}
			found++
		}
	}
	switch {
	case g.Format != format:
		return nil, fmt.Errorf("found format %d, wanted %d", g.Format, format)
	case found != rows:
		return nil, fmt.Errorf("found %d completions, wanted %d", found, rows)
	}
	return &g, nil
}

// Prompts are those of the groups, without their columns.
func (g *Generation) Prompts() (all []data.Prompt) {
	for _, group := range g.Groups {
		all = append(all, data.Prompt{Row: group.Row, Tokens: group.Prompt})
	}
	return all
}

// Rows are all completions.
func (g *Generation) Rows() (all []Row) {
	for _, group := range g.Groups {
		all = append(all, group.Rows...)
	}
	return all
}

// Finite refuses log-probabilities that are not, which a model has that has diverged.
func Finite(rows []Row) error {
	for i, r := range rows {
		for _, of := range [][]float32{r.Sampled, r.Old} {
			for _, v := range of {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					return fmt.Errorf("completion %d: found the log-probability %v, wanted a number: the model has diverged", i, v)
				}
			}
		}
	}
	return nil
}
