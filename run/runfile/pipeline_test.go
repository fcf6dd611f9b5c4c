package runfile

import (
	"bytes"
	"encoding/json"
	"testing"

	"gputrain/pipeline/partition"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPipelineKeys(t *testing.T) {
	c, err := ReadAll(nil, nil, []string{
		"pipeline.stages=3", "pipeline.adapters=[0,1,2]", "pipeline.schedule=interleaved", "pipeline.microbatches=4", "train.batch=8",
		"pipeline.devices=stage",
	})
	require.NoError(t, err)
	assert.Equal(t, pipeline{
		Stages: 3, Adapters: []adapter{{anyRank, 0}, {anyRank, 1}, {anyRank, 2}}, Schedule: "interleaved", Microbatches: 4, Devices: "stage",
	}, c.Pipeline)
	assert.Equal(t, 2, c.Pipeline.PartsPerStage())
	require.NoError(t, c.Set("pipeline.chunks=3"))
	require.NoError(t, c.Validate())
	assert.Equal(t, 3, c.Pipeline.PartsPerStage())
	assert.Equal(t, 1, New().Pipeline.PartsPerStage())

	_, err = ReadAll(nil, nil, []string{"pipeline.stages=3", "pipeline.adapters=1", "pipeline.ahead=2", "pipeline.schedule=1f1b", "pipeline.chunks=1"})
	assert.NoError(t, err)
	_, err = ReadAll(nil, nil, []string{"pipeline.stages=2", "pipeline.schedule=gpipe"})
	assert.NoError(t, err)
}

// Stages are on ranks where their adapters say so, in any way of writing them, and what run.yaml records of them is read again. Numbers are
// recorded as numbers, as programs did that knew no ranks.
func TestAdaptersOfRanks(t *testing.T) {
	for _, x := range []struct {
		text  string
		ranks []int
		json  string
	}{
		{`[]`, nil, `null`},
		{`[0, 1]`, nil, `[0,1]`},
		{`["0", 1]`, nil, `[0,1]`},
		{`3`, nil, `[3]`},
		{`["0:0", "1:0"]`, []int{0, 1}, `["0:0","1:0"]`},
		{`[1:2, 0:auto]`, []int{1, 0}, `["1:2","0:auto"]`},
		{`["0:1", "0:0"]`, nil, `["0:1","0:0"]`},
		{`0:auto`, nil, `["0:auto"]`},
	} {
		c, err := ReadAll(nil, nil, []string{"pipeline.stages=2", "pipeline.adapters=" + x.text})
		require.NoError(t, err, x.text)
		assert.Equal(t, x.ranks, c.Pipeline.Ranks(), x.text)
		recorded, err := json.Marshal(c.Pipeline.Adapters)
		require.NoError(t, err)
		assert.Equal(t, x.json, string(recorded), x.text)
		for _, again := range []string{string(recorded), inline(c.Pipeline.Adapters)} {
			read := New()
			require.NoError(t, read.Parse("run.yaml", []byte("pipeline: {adapters: "+again+"}")), x.text)
			assert.Equal(t, c.Pipeline.Adapters, read.Pipeline.Adapters, x.text)
		}
	}
	assert.Equal(t, adapter{anyRank, 3}, pipeline{Adapters: []adapter{{anyRank, 3}}}.AdapterOf(1))
	assert.Nil(t, New().Pipeline.Ranks())
}

// Rules are a list of mappings, in a file and on the command line, and come back from what the template and explain print.
func TestRules(t *testing.T) {
	want := []partition.Rule{{Match: `h\.[01]\.|wte`, Stage: 0}, {Match: ".*", Stage: 1}}
	c := New()
	require.NoError(t, c.Parse("run.yaml", []byte(`
pipeline:
  stages: 2
  rules:
    - match: 'h\.[01]\.|wte'
      stage: 0
    - {match: '.*', stage: 1}
`)))
	require.NoError(t, c.Validate())
	assert.Equal(t, want, c.Pipeline.Rules)
	again := New()
	require.NoError(t, again.Set("pipeline.rules="+inline(c.Pipeline.Rules)))
	assert.Equal(t, want, again.Pipeline.Rules)
	var explained bytes.Buffer
	require.NoError(t, c.Explain(&explained))
	assert.Contains(t, explained.String(), `"stage": 1`)

	for bad, wanted := range map[string]string{
		"[{match: a}]":                       "pipeline.rules[0]: found {match: a}, wanted stage too",
		"[{mtch: a, stage: 0}]":              `pipeline.rules[0]: unknown key "mtch", wanted match, stage, did you mean "match"?`,
		"[{match: a, stage: 0, part: 1}]":    `pipeline.rules[0]: unknown key "part", wanted match, stage`,
		"[a]":                                "pipeline.rules[0]: found a, wanted {match: text, stage: a whole number}",
		"[{match: a, stage: 0.5}]":           "pipeline.rules[0].stage: found 0.5, wanted a whole number",
		"[{match: a, stage: 0}, {match: 3}]": "pipeline.rules[1].match: found 3, wanted text in quotes",
		"[{match: a, stage: null}]":          "pipeline.rules[0].stage: found null, wanted a whole number",
	} {
		assert.ErrorContains(t, New().Set("pipeline.rules="+bad), wanted, bad)
	}
}

func TestPipelineErrorsNameKeyFoundAndWanted(t *testing.T) {
	for _, f := range []struct {
		want string
		sets []string
	}{
		{"pipeline.microbatches (--set): found 3, wanted a divisor of the 4 sequences of train.batch", []string{"pipeline.microbatches=3", "train.batch=4"}},
		{"pipeline.microbatches (--set): found 4, wanted a divisor of the 2 sequences", []string{"pipeline.microbatches=4", "train.batch=2"}},
		{"pipeline.chunks (--set): found 2, wanted 1 with pipeline.schedule 1f1b", []string{"pipeline.stages=2", "pipeline.chunks=2"}},
		{"pipeline.chunks (--set): found 1, wanted 2 or more with the interleaved schedule", []string{"pipeline.chunks=1", "pipeline.schedule=interleaved"}},
		{`unknown key "pipeline.recompute": it is train.recompute now, layers for true and none for false`, []string{"pipeline.stages=2", "pipeline.recompute=true"}},
		{`unknown key "train.frozen_dtype": it is model.base now`, []string{"train.frozen_dtype=bf16"}},
		{"pipeline.ahead (--set): found 1, wanted 0 with pipeline.schedule gpipe", []string{"pipeline.ahead=1", "pipeline.schedule=gpipe"}},
		{`pipeline.schedule (--set): found "1f1", wanted one of gpipe, 1f1b, interleaved, did you mean "1f1b"?`, []string{"pipeline.schedule=1f1"}},
		{`pipeline.devices (--set): found "stages", wanted one of adapter, stage, did you mean "stage"?`, []string{"pipeline.devices=stages"}},
		{"pipeline.adapters (--set): found [0 1], wanted one adapter for the one stage", []string{"pipeline.adapters=[0,1]"}},
		{"pipeline.adapters (--set): found [0 1], wanted one for each of the 3 stages of pipeline.stages, or one for all", []string{"pipeline.adapters=[0,1]", "pipeline.stages=3"}},
		{`--set pipeline.adapters=-1: pipeline.adapters: found -1, wanted a list, each the number of an adapter, 0 or more, or "rank:adapter", such as "1:0" or "1:auto"`, []string{"pipeline.adapters=-1"}},
		{"pipeline.adapters[1]: found '0:', wanted the number of an adapter", []string{"pipeline.adapters=[0:0, '0:']"}},
		{"pipeline.adapters[0]: found auto, wanted the number of an adapter", []string{"pipeline.adapters=[auto]"}},
		{"pipeline.adapters (--set): found [0:0 1], wanted all of one form: numbers, of adapters of one process, or \"rank:adapter\", as \"0:1\" for 1", []string{"pipeline.adapters=[0:0, 1]", "pipeline.stages=2"}},
		{"pipeline.adapters (--set): found [0:0 2:0], wanted one stage or more on each of ranks 0 to 2: none is on rank 1", []string{"pipeline.adapters=[0:0, 2:0]", "pipeline.stages=2"}},
		{"pipeline.adapters (--set): found [1:auto], wanted one stage or more on each of ranks 0 to 1: none is on rank 0", []string{"pipeline.adapters=1:auto", "pipeline.stages=2"}},
		{"pipeline.adapters (--set): found [0:0 1:0], wanted one for each of the 3 stages", []string{"pipeline.adapters=[0:0, 1:0]", "pipeline.stages=3"}},
		{"pipeline.rules[1].stage (--set): found 2, wanted 0 to 1, the last of pipeline.stages", []string{"pipeline.stages=2", "pipeline.rules=[{match: a, stage: 0}, {match: b, stage: 2}]"}},
		{`pipeline.rules[0].match (--set): found "h(", wanted a regular expression: `, []string{"pipeline.rules=[{match: 'h(', stage: 0}]"}},
		{"pipeline.rules[0].match (--set): found \"\", wanted a regular expression", []string{"pipeline.rules=[{match: '', stage: 0}]"}},
		{`unknown key "pipeline.stage", did you mean "pipeline.stages"?`, []string{"pipeline.stage=2"}},
	} {
		refused(t, f.want, f.sets...)
	}
}
