package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

func TestRollouts(t *testing.T) {
	numbers := func(more map[string]float64) map[string]float64 {
		all := map[string]float64{"temperature": 1, "beta": 0, "mask_truncated_completions": 0, "on_policy": 1, "skip_flat": 1, "epsilon": 0.2, "epsilon_high": 0.2, "delta": 0}
		for name, v := range more {
			all[name] = v
		}
		return all
	}
	cispo := numbers(map[string]float64{"epsilon_high": 5})
	delete(cispo, "epsilon")
	delete(cispo, "delta")
	for _, row := range []struct {
		set   []string
		wrong string
		want  model.Objective
		scale string
		rate  float64
	}{
		{nil, "", model.Objective{Loss: "dapo", Numbers: numbers(nil)}, model.ScaleGroup, 1e-6},
		{[]string{"lora.rank=2", "rollout.beta=0.1"}, "", model.Objective{Loss: "dapo", Numbers: numbers(map[string]float64{"beta": 0.1, "skip_flat": 0})}, model.ScaleGroup, 1e-5},
		{[]string{"rollout.updates=2", "rollout.epsilon=0.1", "rollout.delta=2"}, "", model.Objective{Loss: "dapo", Numbers: numbers(map[string]float64{"on_policy": 0, "epsilon": 0.1, "epsilon_high": 0.1, "delta": 2})}, model.ScaleGroup, 1e-6},
		{[]string{"rollout.epsilon_high=0.28"}, "", model.Objective{Loss: "dapo", Numbers: numbers(map[string]float64{"epsilon_high": 0.28})}, model.ScaleGroup, 1e-6},
		{[]string{"rollout.loss=dr_grpo", "rollout.tokens=64"}, "", model.Objective{Loss: "dr_grpo", Numbers: numbers(map[string]float64{"max_completion_length": 64})}, model.ScaleNone, 1e-6},
		{[]string{"rollout.loss=dr_grpo", "rollout.scale=batch"}, "", model.Objective{Loss: "dr_grpo", Numbers: numbers(map[string]float64{"max_completion_length": 512})}, model.ScaleBatch, 1e-6},
		{[]string{"rollout.loss=gspo"}, "", model.Objective{Loss: "gspo", Numbers: numbers(map[string]float64{"epsilon": 3e-4, "epsilon_high": 4e-4})}, model.ScaleGroup, 1e-6},
		{[]string{"rollout.loss=cispo"}, "", model.Objective{Loss: "cispo", Numbers: cispo}, model.ScaleGroup, 1e-6},
		{[]string{"rollout.loss=cispo", "rollout.epsilon=0.1"}, "rollout.epsilon (--set): found 0.1, wanted nothing with rollout.loss cispo", model.Objective{}, "", 0},
		{[]string{"rollout.samples=3"}, "rollout.samples (--set): found 3, wanted a divisor of the", model.Objective{}, "", 0},
		{[]string{"rollout.samples=1"}, "rollout.samples (--set): found 1, wanted 2 to 65536", model.Objective{}, "", 0},
		{[]string{"rewards=[]"}, "rewards (--set): found none, wanted at least one with rollout.loss dapo", model.Objective{}, "", 0},
		{[]string{"data.jsonl=[]"}, "rollout.loss (--set): found dapo, wanted none without data.jsonl, the rows with completions", model.Objective{}, "", 0},
		{[]string{"rollout.aggregation=apart", "rollout.scale=batch"}, `rollout.scale (--set): found batch, wanted nothing with rollout.aggregation apart`, model.Objective{}, "", 0},
		{[]string{`rollout.stop=["a", ""]`}, `rollout.stop (--set): found ["a", ""], wanted texts that are not empty`, model.Objective{}, "", 0},
		{[]string{"rollout.delta=1"}, "rollout.delta (--set): found 1, wanted more than 1 + rollout.epsilon_high, or null", model.Objective{}, "", 0},
		{[]string{"rollout.loss=none"}, "wanted none with rollout.loss none: the model draws nothing", model.Objective{}, "", 0},
		{[]string{"preference.loss=sigmoid"}, "found \"dapo\", wanted none with preference.loss sigmoid: a run learns one of them", model.Objective{}, "", 0},
		{[]string{"data.packing=stream"}, "wanted nothing with rollout.loss dapo, whose rows have a prompt, each a sequence", model.Objective{}, "", 0},
	} {
		c, err := ReadAll(nil, nil, append([]string{
			"model.from=a", "data.jsonl=[a]", "rollout.loss=dapo", "train.batch=8", "rewards=[{kind: equal, column: b}]",
		}, row.set...))
		if row.wrong != "" {
			require.ErrorContains(t, err, row.wrong, "%v", row.set)
			continue
		}
		require.NoError(t, err, "%v", row.set)
		assert.Equal(t, row.want, c.Objective(), "%v", row.set)
		assert.Equal(t, row.scale, c.Rewarding().Scale)
		assert.InDelta(t, row.rate, c.Optimizer.LearningRate, 1e-12)
	}
}
