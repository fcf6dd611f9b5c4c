package runfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// adapter is that of a stage. In the run file it is a number or "rank:adapter".
type adapter struct {
	Rank  int // of the pipeline; AnyRank: the stages are all in one process
	Index int // on the machine of that process, as gputrain devices numbers them; AutoIndex: what a rank takes by itself
}

// What a run file leaves open of an adapter.
const (
	anyRank   = -1
	AutoIndex = -1
)

const autoAdapter = "auto"

// stageAdapter is "1", "0:1" or "0:auto".
var stageAdapter = regexp.MustCompile(`^(?:(0|[1-9][0-9]{0,8}):)?(0|[1-9][0-9]{0,8}|auto)$`)

// take converts what the run file has.
func (a *adapter) take(from any) bool {
	if n, ok := whole(from); ok {
		*a = adapter{anyRank, int(n)}
		return n >= 0
	}
	text, ok := from.(string)
	m := stageAdapter.FindStringSubmatch(text)
	if !ok || m == nil {
		return false
	}
	*a = adapter{anyRank, AutoIndex}
	if m[1] != "" {
		a.Rank, _ = strconv.Atoi(m[1]) // digits
	}
	if m[2] != autoAdapter {
		a.Index, _ = strconv.Atoi(m[2])
	}
	return a.Rank != anyRank || a.Index != AutoIndex
}

func (*adapter) kind() string {
	return `the number of an adapter, 0 or more, or "rank:adapter", such as "1:0" or "1:auto"`
}

func (*adapter) schema() schema {
	return schema{"anyOf": []schema{
		{"type": "integer", "minimum": 0, "maximum": math.MaxInt32},
		{"type": "string", "pattern": stageAdapter.String(), "not": schema{"const": autoAdapter}},
	}}
}

// String is what the run file has.
func (a adapter) String() string {
	index := autoAdapter
	if a.Index != AutoIndex {
		index = strconv.Itoa(a.Index)
	}
	if a.Rank == anyRank {
		return index
	}
	return fmt.Sprintf("%d:%s", a.Rank, index)
}

// MarshalJSON writes what the run file has: a number where it is one.
func (a adapter) MarshalJSON() ([]byte, error) {
	if a.Rank == anyRank {
		return json.Marshal(a.Index)
	}
	return json.Marshal(a.String())
}

// AdapterOf is the adapter of a stage, of those that there are.
func (p pipeline) AdapterOf(stage int) adapter { return p.Adapters[min(stage, len(p.Adapters)-1)] }

// Ranks is the rank of each stage, counted within a pipeline; nil: all are in one process.
func (p pipeline) Ranks() []int {
	var ranks []int
	for stage := range p.Stages {
		if len(p.Adapters) == 0 || p.AdapterOf(stage).Rank == anyRank {
			return nil
		}
		ranks = append(ranks, p.AdapterOf(stage).Rank)
	}
	if slices.Max(ranks) == 0 {
		return nil
	}
	return ranks
}

// PerReplica is how many ranks have a replica of the model between them.
func (p pipeline) PerReplica() int {
	if ranks := p.Ranks(); ranks != nil {
		return slices.Max(ranks) + 1
	}
	return 1
}

// validateAdapters wants an adapter for each stage or one for all, and one rank or more behind none.
func (c *Config) validateAdapters() error {
	p := c.Pipeline
	refused := func(wanted string, args ...any) error {
		return c.Invalid("pipeline.adapters", p.Adapters, fmt.Sprintf(wanted, args...))
	}
	if n := len(p.Adapters); n > 1 && n != p.Stages {
		if p.Stages == 1 {
			return refused("one adapter for the one stage of pipeline.stages")
		}
		return refused("one for each of the %d stages of pipeline.stages, or one for all", p.Stages)
	}
	ranked := func(a adapter) bool { return a.Rank != anyRank }
	if !slices.ContainsFunc(p.Adapters, ranked) {
		return nil
	}
	if i := slices.IndexFunc(p.Adapters, func(a adapter) bool { return !ranked(a) }); i >= 0 {
		return refused(`all of one form: numbers, of adapters of one process, or "rank:adapter", as "0:%d" for %v`, p.Adapters[i].Index, p.Adapters[i])
	}
	last := slices.MaxFunc(p.Adapters, func(a, b adapter) int { return a.Rank - b.Rank }).Rank
	for rank := range last {
		if !slices.ContainsFunc(p.Adapters, func(a adapter) bool { return a.Rank == rank }) {
			return refused("one stage or more on each of ranks 0 to %d: none is on rank %d", last, rank)
		}
	}
	return nil
}

// adaptersText is one line of YAML.
func adaptersText(all []adapter) string {
	var items []string
	for _, a := range all {
		text, _ := json.Marshal(a) // numbers and words
		items = append(items, string(text))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// validatePipeline checks what the keys below pipeline say together; each alone is in its range.
func (c *Config) validatePipeline() error {
	p := c.Pipeline
	if c.Train.Batch%p.Microbatches != 0 {
		return c.Invalid("pipeline.microbatches", p.Microbatches, fmt.Sprintf("a divisor of the %d sequences of train.batch", c.Train.Batch))
	}
	switch {
	case p.Schedule == interleaved && p.Chunks == 1:
		return c.Invalid("pipeline.chunks", p.Chunks, "2 or more with the interleaved schedule, or pipeline.schedule 1f1b")
	case p.Schedule != interleaved && p.Chunks > 1:
		return c.Invalid("pipeline.chunks", p.Chunks, fmt.Sprintf("1 with pipeline.schedule %s; several parts a stage are the interleaved schedule", p.Schedule))
	case p.Schedule != "1f1b" && p.Ahead > 0:
		return c.Invalid("pipeline.ahead", p.Ahead, fmt.Sprintf("0 with pipeline.schedule %s; only 1f1b can run ahead", p.Schedule))
	}
	if err := c.validateAdapters(); err != nil {
		return err
	}
	for i, rule := range p.Rules {
		if rule.Stage >= p.Stages {
			return c.Invalid(fmt.Sprintf("pipeline.rules[%d].stage", i), rule.Stage, fmt.Sprintf("0 to %d, the last of pipeline.stages", p.Stages-1))
		}
	}
	return nil
}
