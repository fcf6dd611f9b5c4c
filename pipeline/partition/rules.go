package partition

import (
	"fmt"
	"regexp"

	"gputrain/model"
)

// Rule puts the parameters whose paths match a regular expression, anywhere in the path, on a stage. The tags are those of package
// train/runfile.
type Rule struct {
	Match string `yaml:"match" json:"match" range:"pattern" doc:"regular expression on parameter paths"`
	Stage int    `yaml:"stage" json:"stage" range:"0.." doc:"from 0"`
}

// Assignment says which part each parameter lives in; part p lives on stage p mod Stages. A tied parameter lives in the part of its first
// use.
type Assignment struct {
	Stages, Parts int
	Part          map[string]int // by path
}

// Units lists the units of each part, in order.
func (a Assignment) Units(units []Unit) [][]Unit {
	parts := make([][]Unit, a.Parts)
	for _, u := range units {
		p := a.Part[u.Params[0]]
		parts[p] = append(parts[p], u)
	}
	return parts
}

// ByRules cuts a model where its rules change from stage to stage: the runs of units of one stage, in the order of the forward pass,
// are the parts. Every parameter has rules for exactly one stage, every rule matches a parameter, the runs go round the stages in order
// chunks times. Errors name the parameter or the pattern, and what to change.
func ByRules(units []Unit, rules []Rule, stages, chunks int) (Assignment, error) {
	if err := enough(units, stages, chunks); err != nil {
		return Assignment{}, err
	}
	stageOf, err := Match(units, rules, stages)
	if err != nil {
		return Assignment{}, fmt.Errorf("pipeline: rules: %w", err)
	}
	if err := occupied(stageOf, stages); err != nil {
		return Assignment{}, fmt.Errorf("pipeline: rules: %w", err)
	}
	ends := []int{}
	for i := range units {
		if i > 0 && stageOf[i] == stageOf[i-1] {
			ends[len(ends)-1]++
			continue
		}
		part := len(ends)
		switch {
		case part == 0 && stageOf[0] != 0:
			return Assignment{}, fmt.Errorf("pipeline: rules: %q, where the forward pass begins, is on stage %d, wanted stage 0", units[0].Name, stageOf[0])
		case part >= stages*chunks:
			return Assignment{}, fmt.Errorf("pipeline: rules: %q on stage %d comes back behind %q on stage %d, wanted %s: move one of them, or raise pipeline.chunks",
				units[i].Name, stageOf[i], units[i-1].Name, stageOf[i-1], rounds(chunks))
		case stageOf[i] != part%stages:
			return Assignment{}, fmt.Errorf("pipeline: rules: %q is on stage %d behind %q on stage %d, wanted stage %d or %d: stages follow the forward pass",
				units[i].Name, stageOf[i], units[i-1].Name, stageOf[i-1], stageOf[i-1], part%stages)
		}
		ends = append(ends, i+1)
	}
	if len(ends) != stages*chunks {
		return Assignment{}, fmt.Errorf("pipeline: rules: found %d parts, wanted %d (%d stages, %s)", len(ends), stages*chunks, stages, rounds(chunks))
	}
	return assignment(units, ends, stages), nil
}

func rounds(chunks int) string {
	if chunks == 1 {
		return "one run of units a stage"
	}
	return fmt.Sprintf("%d runs of units a stage", chunks)
}

// Match finds the stage of each unit. An adapter is where the parameter that it belongs to is.
func Match(units []Unit, rules []Rule, stages int) ([]int, error) {
	patterns := make([]*regexp.Regexp, len(rules))
	used := make([]bool, len(rules))
	for i, r := range rules {
		var err error
		if patterns[i], err = regexp.Compile(r.Match); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", r.Match, err)
		}
		if r.Stage < 0 || r.Stage >= stages {
			return nil, fmt.Errorf("pattern %q: found stage %d, wanted 0 to %d", r.Match, r.Stage, stages-1)
		}
	}
	stageOf := make([]int, len(units))
	for i, u := range units {
		for j, path := range u.Params {
			by := -1
			for k, r := range rules {
				if !patterns[k].MatchString(model.Adapts(path)) {
					continue
				}
				used[k] = true
				if by >= 0 && rules[by].Stage != r.Stage {
					return nil, fmt.Errorf("parameter %q: pattern %q puts it on stage %d, pattern %q on stage %d, wanted one stage: make one of the patterns narrower",
						path, rules[by].Match, rules[by].Stage, r.Match, r.Stage)
				}
				by = k
			}
			switch {
			case by < 0:
				return nil, fmt.Errorf("parameter %q: no pattern matches it, wanted a stage for each: add a rule", path)
			case j > 0 && rules[by].Stage != stageOf[i]:
				return nil, fmt.Errorf("parameter %q is on stage %d, %q on stage %d, wanted one stage: both are of %q, which is not cut",
					path, rules[by].Stage, u.Params[0], stageOf[i], u.Name)
			}
			stageOf[i] = rules[by].Stage
		}
	}
	for k, r := range rules {
		if !used[k] {
			return nil, fmt.Errorf("pattern %q matches no parameter, wanted one such as %q: drop the rule or mend it", r.Match, units[0].Params[0])
		}
	}
	return stageOf, nil
}

// occupied refuses a stage without units.
func occupied(stageOf []int, stages int) error {
	has := make([]bool, stages)
	for _, s := range stageOf {
		has[s] = true
	}
	for s, ok := range has {
		if !ok {
			return fmt.Errorf("stage %d has no parameters, wanted some on each of %d stages: add a rule, or lower pipeline.stages", s, stages)
		}
	}
	return nil
}

// enough refuses more parts than there are units.
func enough(units []Unit, stages, chunks int) error {
	if stages < 1 || chunks < 1 {
		return fmt.Errorf("pipeline: %d stages of %d parts: wanted at least 1 of each", stages, chunks)
	}
	if parts := stages * chunks; parts > len(units) {
		what := fmt.Sprintf("%d stages", stages)
		if chunks > 1 {
			what = fmt.Sprintf("%d stages of %d parts", stages, chunks)
		}
		return fmt.Errorf("pipeline: %s: the model has %d pieces to give away (%s), wanted at least %d: lower pipeline.stages or pipeline.chunks, or deepen the model",
			what, len(units), names(units), parts)
	}
	return nil
}

// assignment gives part p the units from ends[p-1] on to before ends[p].
func assignment(units []Unit, ends []int, stages int) Assignment {
	a := Assignment{Stages: stages, Parts: len(ends), Part: map[string]int{}}
	part := 0
	for i, u := range units {
		if i == ends[part] {
			part++
		}
		for _, path := range u.Params {
			a.Part[path] = part
		}
	}
	return a
}
