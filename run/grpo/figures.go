package grpo

import (
	"math"

	"gputrain/model"
)

// Figures are what there is to say of rows that were rewarded, by name. What does not exist is left out.
func (c Config) Figures(rows []Row, a model.Advantages, masks bool) map[string]float64 {
	all := map[string]float64{"reward": a.Reward, "reward_std": a.Deviation, "zero_std_share": a.FlatShare, "unrewarded_share": a.Silence}
	for f, r := range c.Rewards {
		all["rewards/"+r.Name+"/mean"], all["rewards/"+r.Name+"/std"] = a.Means[f], a.Deviations[f]
	}
	n := float64(len(rows))
	length, longest, counted, truncated := 0, 0, 0, 0
	off, most, compared := 0.0, 0.0, 0
	for _, r := range rows {
		length, longest = length+len(r.Tokens), max(longest, len(r.Tokens))
		if r.Truncated {
			truncated++
		}
		if !masks || !r.Truncated {
			counted += len(r.Tokens)
		}
		for i, old := range r.Old {
			d := math.Abs(float64(old) - float64(r.Sampled[i]))
			off, most, compared = off+d, max(most, d), compared+1
		}
	}
	all["mean_length"], all["max_length"], all["truncated_share"], all["tokens"] = float64(length)/n, float64(longest), float64(truncated)/n, float64(counted)
	if compared > 0 {
		all["sampler_difference"], all["sampler_difference_max"] = off/float64(compared), most
	}
	for name, v := range all {
		if math.IsNaN(v) {
			delete(all, name)
		}
	}
	return all
}

// A Line is a line of rollouts.jsonl: a prompt with its completions.
type Line struct {
	Step        int64        `json:"step"` // of the first update that learns from it
	Generation  uint64       `json:"generation"`
	Row         int64        `json:"row"` // its number in the text, from 1 on
	Prompt      string       `json:"prompt"`
	Completions []Completion `json:"completions"`
}

// A Completion is one of a Line.
type Completion struct {
	Text      string              `json:"text"`
	Tokens    int                 `json:"tokens"`
	Truncated bool                `json:"truncated,omitempty"`
	Rewards   map[string]*float64 `json:"rewards"` // null: the function said nothing
	Advantage float64             `json:"advantage"`
}

// Lines are the first groups of a generation for people.
func (c Config) Lines(g *Generation) (lines []Line) {
	for _, group := range g.Groups[:min(c.Shown, len(g.Groups))] {
		l := Line{Step: g.Step, Generation: g.Number, Row: group.Row + 1, Prompt: c.Text(group.Prompt)}
		for _, r := range group.Rows {
			one := Completion{Text: c.Text(r.Tokens), Tokens: len(r.Tokens), Truncated: r.Truncated, Rewards: map[string]*float64{}, Advantage: r.Advantage}
			for f, name := range g.Names {
				one.Rewards[name] = r.Rewards[f]
			}
			l.Completions = append(l.Completions, one)
		}
		lines = append(lines, l)
	}
	return lines
}
