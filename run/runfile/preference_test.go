package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// TestPreference has what goes with an objective on pairs, what does not, and the objective that comes of it.
func TestPreference(t *testing.T) {
	for _, row := range []struct {
		set    []string
		wanted string // "": it is valid
		prefer model.Objective
	}{
		{nil, "", model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.1, "label_smoothing": 0}}},
		{[]string{"preference.loss=simpo", "lora.rank=0", "preference.simpo_gamma=1", "preference.label_smoothing=0.2"}, "", model.Objective{Loss: "simpo", Numbers: map[string]float64{"beta": 0.1, "simpo_gamma": 1, "label_smoothing": 0.2, "simpo_alpha": 0, "cpo_alpha": 0}}},
		{[]string{"preference.loss=cpo_hinge", "lora.rank=0"}, "", model.Objective{Loss: "cpo_hinge", Numbers: map[string]float64{"beta": 0.1, "cpo_alpha": 1}}},
		{[]string{"preference.loss=cpo_hinge", "preference.cpo_alpha=0.5"}, "", model.Objective{Loss: "cpo_hinge", Numbers: map[string]float64{"beta": 0.1, "cpo_alpha": 0.5}}},
		{[]string{"preference.loss=kto", "train.batch=3", "preference.undesirable_weight=0.5"}, "", model.Objective{Loss: "kto", Numbers: map[string]float64{"beta": 0.1, "desirable_weight": 1, "undesirable_weight": 0.5}}},
		{[]string{"preference.desirable_weight=2"}, "preference.desirable_weight (--set): found 2.0, wanted nothing with preference.loss sigmoid", model.Objective{}},
		{[]string{"preference.loss=exo_pair"}, "preference.label_smoothing (default): found 0, wanted a number above 0, at most 0.5: 0.001 is usual with preference.loss exo_pair", model.Objective{}},
		{[]string{"preference.loss=robust", "preference.label_smoothing=0.5"}, "preference.label_smoothing (--set): found 0.5, wanted a number from 0 to below 0.5", model.Objective{}},
		{[]string{"preference.loss=orpo", "lora.rank=0"}, "", model.Objective{Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": 0.1}}},
		{[]string{"preference.packing=true", "train.batch=3"}, "", model.Objective{Loss: "sigmoid", Packed: true, Numbers: map[string]float64{"beta": 0.1, "label_smoothing": 0}}},
		{[]string{"preference.packing=true", "preference.loss=kto"}, "preference.packing (--set): found true, wanted nothing with preference.loss kto", model.Objective{}},
		{[]string{"preference.reference=start"}, "preference.reference (--set): found \"start\", wanted base without lora.from", model.Objective{}},
		{[]string{"preference.reference=start", "lora.rank=0", "lora.from=a", "preference.loss=orpo"}, "preference.reference (--set): found \"start\", wanted nothing with preference.loss orpo", model.Objective{}},
		{[]string{"preference.loss=none"}, "", model.Objective{}},
		{[]string{"preference.loss=none", "train.label_smoothing=0.1"}, "", model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": 0.1, "z_loss": 0}}},
		{[]string{"preference.loss=none", "train.token_accuracy=true"}, "", model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": 0, "z_loss": 0}}},
		{[]string{"train.z_loss=0.1"}, "train.z_loss (--set): found 0.1, wanted nothing with preference.loss sigmoid", model.Objective{}},
		{[]string{"preference.loss=none", "train.z_loss=0.1", "preference.label_smoothing=0.1"}, "preference.label_smoothing (--set): found 0.1, wanted nothing with preference.loss none", model.Objective{}},
		{[]string{"lora.rank=0"}, "", model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.1, "label_smoothing": 0}}},
		{[]string{"data.jsonl=[]"}, "preference.loss (--set): found sigmoid, wanted none without data.jsonl", model.Objective{}},
		{[]string{"data.field=x"}, "data.field (--set): found \"x\", wanted nothing with preference.loss sigmoid", model.Objective{}},
		{[]string{"preference.orpo_lambda=2"}, "preference.orpo_lambda (--set): found 2.0, wanted nothing with preference.loss sigmoid", model.Objective{}},
		{[]string{"preference.loss=none", "preference.beta=2"}, "preference.beta (--set): found 2.0, wanted nothing with preference.loss none", model.Objective{}},
		{[]string{"train.batch=6", "pipeline.microbatches=2"}, "train.batch (--set): found 6, wanted an even number of sequences a microbatch", model.Objective{}},
	} {
		c := New()
		for _, s := range append([]string{"model.from=a", "lora.rank=2", "data.jsonl=[a]", "preference.loss=sigmoid", "train.batch=4"}, row.set...) {
			require.NoError(t, c.Set(s))
		}
		err := c.Validate()
		if row.wanted != "" {
			require.ErrorContains(t, err, row.wanted)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, row.prefer, c.Objective())
	}
}
