package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

func TestDistil(t *testing.T) {
	of := func(beta, temperature float64) model.Objective {
		return model.Objective{Loss: model.Distill, Numbers: map[string]float64{"beta": beta, "temperature": temperature}}
	}
	for _, row := range []struct {
		set  []string
		says string
		want model.Objective
	}{
		{nil, "", of(0, 1)},
		{[]string{"distil.beta=0.5", "distil.temperature=2", "distil.fingerprint=a"}, "", of(0.5, 2)},
		{[]string{"data.jsonl=[]", "data.mixture=[{text: a, weight: 1}]"}, "", of(0, 1)},
		{[]string{"distil.teacher=a.jsonl", "distil.tail=ignore", "data.packing=stream"}, "", of(0, 1)},
		{[]string{"distil.teacher="}, "", model.Objective{}},
		{[]string{"distil.teacher=", "distil.beta=1"}, `distil.beta (--set): found 1.0, wanted nothing with distil.teacher ""`, model.Objective{}},
		{[]string{"distil.teacher=", "distil.tail=ignore"}, `distil.tail (--set): found "ignore", wanted nothing with distil.teacher ""`, model.Objective{}},
		{[]string{"distil.tail=ignore"}, "distil.tail (--set): found ignore, wanted nothing without a teacher that is a file of lists, .jsonl", model.Objective{}},
		{[]string{"distil.teacher=a.jsonl", "distil.tail=ignore", "distil.beta=0.1"}, "distil.beta (--set): found 0.1, wanted 0 with distil.tail ignore", model.Objective{}},
		{[]string{"distil.teacher=a.jsonl", "data.jsonl=[]"}, "distil.teacher (--set): found a.jsonl, wanted a model without data.jsonl: a file has a line for each of its rows", model.Objective{}},
		{[]string{"preference.loss=simpo"}, `distil.teacher (--set): found "t", wanted "" with preference.loss simpo: a run learns one of them`, model.Objective{}},
		{[]string{"train.label_smoothing=0.1"}, "train.label_smoothing (--set): found 0.1, wanted nothing with distil.teacher t", model.Objective{}},
		{[]string{"distil.beta=1.5"}, "distil.beta (--set): found 1.5, wanted 0 to 1", model.Objective{}},
		{[]string{"distil.temperature=0"}, "distil.temperature (--set): found 0, wanted more than 0, or null", model.Objective{}},
	} {
		c := New()
		for _, s := range append([]string{"data.jsonl=[a]", "distil.teacher=t"}, row.set...) {
			require.NoError(t, c.Set(s))
		}
		err := c.Validate()
		if row.says != "" {
			assert.ErrorContains(t, err, row.says)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, row.want, c.Objective(), "%v", row.set)
		assert.True(t, c.KeepsApart() == c.packsDocuments(), "rows are documents")
	}
}
