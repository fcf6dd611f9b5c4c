package partition

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stages writes an assignment as the units of each part, in order.
func partsText(a Assignment, units []Unit) string {
	text := []string{}
	for _, part := range a.Units(units) {
		text = append(text, fmt.Sprint(unitNames(part)))
	}
	return fmt.Sprint(text)
}

func TestRulesCutWhereTheyChange(t *testing.T) {
	units := unitsOf(t, gpt2(t, 4, false))
	for _, c := range []struct {
		name           string
		rules          []Rule
		stages, chunks int
		want           string
	}{
		{"one stage", []Rule{{".", 0}}, 1, 1, "[[embedding h.0 h.1 h.2 h.3 head]]"},
		{"two stages", []Rule{{`^w[tp]e`, 0}, {`^h\.[01]\.`, 0}, {`^h\.[23]\.`, 1}, {`^ln_f`, 1}}, 2, 1, "[[embedding h.0 h.1] [h.2 h.3 head]]"},
		{"rules in any order", []Rule{{`^ln_f|^h\.3`, 2}, {`^h\.[012]\.`, 1}, {`^w[tp]e`, 0}}, 3, 1, "[[embedding] [h.0 h.1 h.2] [h.3 head]]"},
		{"two patterns of one stage", []Rule{{`^w|^h\.0`, 0}, {`wte`, 0}, {`^h\.[123]|ln_f`, 1}}, 2, 1, "[[embedding h.0] [h.1 h.2 h.3 head]]"},
		{"chunks", []Rule{{`^w|^h\.[02]`, 0}, {`^h\.[13]|^ln_f`, 1}}, 2, 2, "[[embedding h.0] [h.1] [h.2] [h.3 head]]"},
	} {
		a, err := ByRules(units, c.rules, c.stages, c.chunks)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, partsText(a, units), c.name)
		assert.Equal(t, c.stages, a.Stages)
		assert.Equal(t, c.stages*c.chunks, a.Parts)
	}
	// The tied weight is where it is used first.
	a, err := ByRules(units, []Rule{{`^w|^h\.[01]`, 0}, {`^h\.[23]|ln_f`, 1}}, 2, 1)
	require.NoError(t, err)
	assert.Equal(t, 0, a.Part["wte.weight"])
	assert.Equal(t, 1, a.Part["ln_f.bias"])
	assert.Len(t, a.Part, 4*12+4)
}

func TestRulesThatDoNotCutAModel(t *testing.T) {
	units := unitsOf(t, gpt2(t, 3, false))
	for _, c := range []struct {
		want           string
		rules          []Rule
		stages, chunks int
	}{
		{`6 stages: the model has 5 pieces to give away (embedding, h.0, h.1, h.2, head), wanted at least 6: lower pipeline.stages`, []Rule{{".", 0}}, 6, 1},
		{`3 stages of 2 parts: the model has 5 pieces`, []Rule{{".", 0}}, 3, 2},
		{`0 stages of 1 parts: wanted at least 1`, nil, 0, 1},
		{`parameter "h.2.ln_1.weight": no pattern matches it, wanted a stage for each: add a rule`, []Rule{{`^w|h\.0`, 0}, {`h\.1|ln_f`, 1}}, 2, 1},
		{`parameter "h.1.ln_1.weight": pattern "^w|h\\.[01]" puts it on stage 0, pattern "h\\.[12]|ln_f" on stage 1, wanted one stage`, []Rule{{`^w|h\.[01]`, 0}, {`h\.[12]|ln_f`, 1}}, 2, 1},
		{`pattern "lm_head" matches no parameter, wanted one such as "wte.weight"`, []Rule{{`^w|h\.[01]`, 0}, {`h\.2|ln_f`, 1}, {"lm_head", 1}}, 2, 1},
		{`pattern "ln_f": found stage 2, wanted 0 to 1`, []Rule{{`^w|h\.`, 0}, {`ln_f`, 2}}, 2, 1},
		{`pattern "ln_f": found stage -1, wanted 0 to 1`, []Rule{{`^w|h\.`, 0}, {`ln_f`, -1}}, 2, 1},
		{`pattern "h(": error parsing regexp`, []Rule{{`h(`, 0}}, 2, 1},
		{`stage 0 has no parameters, wanted some on each of 2 stages: add a rule, or lower pipeline.stages`, []Rule{{`.`, 1}}, 2, 1},
		{`stage 1 has no parameters, wanted some on each of 3 stages: add a rule, or lower pipeline.stages`, []Rule{{`^w|h\.`, 0}, {`ln_f`, 2}}, 3, 1},
		{
			`parameter "h.1.ln_2.weight" is on stage 1, "h.1.ln_1.weight" on stage 0, wanted one stage: both are of "h.1", which is not cut`,
			[]Rule{{`^w|h\.0|h\.1\.ln_1|h\.1\.attn`, 0}, {`h\.1\.ln_2|h\.1\.mlp|h\.2|ln_f`, 1}},
			2, 1,
		},
		{`parameter "wpe.weight" is on stage 1, "wte.weight" on stage 0`, []Rule{{`wte|h\.0`, 0}, {`wpe|h\.[12]|ln_f`, 1}}, 2, 1},
		{`"embedding", where the forward pass begins, is on stage 1, wanted stage 0`, []Rule{{`^w|h\.0`, 1}, {`h\.[12]|ln_f`, 0}}, 2, 1},
		{
			`"h.1" on stage 0 comes back behind "h.0" on stage 1, wanted one run of units a stage: move one of them, or raise pipeline.chunks`,
			[]Rule{{`^w|h\.1`, 0}, {`h\.0|h\.2|ln_f`, 1}},
			2, 1,
		},
		{`"h.0" is on stage 2 behind "embedding" on stage 0, wanted stage 0 or 1: stages follow the forward pass`, []Rule{{`^w`, 0}, {`h\.0`, 2}, {`h\.[12]|ln_f`, 1}}, 3, 1},
		{`found 2 parts, wanted 4 (2 stages, 2 runs of units a stage)`, []Rule{{`^w|h\.[01]`, 0}, {`h\.2|ln_f`, 1}}, 2, 2},
	} {
		_, err := ByRules(units, c.rules, c.stages, c.chunks)
		require.ErrorContains(t, err, c.want)
		assert.ErrorContains(t, err, "pipeline: ")
	}
	_, err := ByRules(unitsOf(t, gpt2(t, 12, false)), nil, 20, 1)
	assert.ErrorContains(t, err, "20 stages: the model has 14 pieces to give away (embedding, h.0, h.1, ..., h.11, head)")
}
