package tuning

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/train/runfile"
)

const gib = 1 << 30

// Sizes are those of the models' config.json files.
var models = map[string]Model{
	"SmolLM2-135M": {Parameters: 134_515_008, Width: 576, Side: 192, Context: 8192, Stored: "bf16"},
	"Qwen3-0.6B":   {Parameters: 596_049_920, Width: 1024, Side: 1024, Context: 40_960, Stored: "bf16"},
	"Llama-3.2-1B": {Parameters: 1_235_814_400, Width: 2048, Side: 512, Context: 131_072, Stored: "bf16"},
	"Llama-3.1-8B": {Parameters: 8_030_261_248, Width: 4096, Side: 1024, Context: 131_072, Stored: "bf16"},
}

// chats are n conversations between least and most tokens.
func chats(n, least, most int) (all []int) {
	for i := range n {
		all = append(all, least+(most-least)*i/max(n-1, 1))
	}
	return all
}

// plan stands for the plan of a run: the base, and for each token, layer and number of its width 34 activations, or fewer where some are computed again.
func plan(memory uint64) func(Recipe) (bool, error) {
	return func(r Recipe) (bool, error) {
		m := r.facts.Model
		layers := float64(m.Parameters) / float64(m.Width) / float64(m.Width) / 12
		kept := map[string]float64{"none": 34, "attention": 20, "layers": 2}[r.Recompute]
		taken := float64(r.kept()) + kept*4*layers*float64(r.Batch*r.Context*m.Width)
		return taken <= float64(memory), nil
	}
}

func TestChoose(t *testing.T) {
	all := []string{"f32", "bf16", "nf4"}
	for _, c := range []struct {
		model    string
		memory   float64 // GiB
		software bool
		bases    []string
		base     string // "": nothing fits
		again    string
	}{
		{"SmolLM2-135M", 2, false, all, "bf16", "attention"},
		{"SmolLM2-135M", 8, true, all, "f32", "none"},
		{"Qwen3-0.6B", 2, false, all, "bf16", "layers"},
		{"Qwen3-0.6B", 1, false, all, "nf4", "layers"},
		{"Qwen3-0.6B", 24, false, all, "bf16", "none"},
		{"Qwen3-0.6B", 24, true, all, "f32", "none"},
		{"Llama-3.2-1B", 3, false, all, "bf16", "layers"},
		{"Llama-3.2-1B", 2, false, all, "nf4", "layers"},
		{"Llama-3.2-1B", 2, false, all[:2], "", ""},
		{"Llama-3.2-1B", 24, false, all, "bf16", "none"},
		{"Llama-3.1-8B", 24, false, all, "bf16", "layers"},
		{"Llama-3.1-8B", 8, false, all, "nf4", "layers"},
		{"Llama-3.1-8B", 8, false, all[:2], "", ""},
		{"Llama-3.1-8B", 2, false, all, "", ""},
	} {
		memory := uint64(c.memory * gib)
		asked := []Recipe{}
		f := Facts{Model: models[c.model], Lengths: chats(1000, 60, 1000), Held: 50, Answer: 40, Machine: Machine{memory, c.software, c.bases}}
		r, err := Choose(f, func(r Recipe) (bool, error) {
			asked = append(asked, r)
			return plan(memory)(r)
		})
		for _, a := range asked {
			assert.LessOrEqual(t, a.kept(), memory, "%+v: a base that is too large alone is not planned", c)
		}
		if c.base == "" {
			var large *TooLargeError
			require.ErrorAs(t, err, &large, "%+v", c)
			require.ErrorIs(t, err, gpu.ErrOutOfMemory)
			assert.Equal(t, c.bases[len(c.bases)-1], large.Least.Base)
			assert.Equal(t, 1, large.Least.Batch)
			assert.ErrorContains(t, err, gpu.SizeText(memory))
			continue
		}
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, []string{c.base, c.again}, []string{r.Base, r.Recompute}, "%+v", c)
		fits, _ := plan(memory)(r)
		assert.True(t, fits)
		assert.Equal(t, 1024, r.Context, "holds the longest")
		assert.Zero(t, r.Cut)
		assert.Equal(t, 16, r.Rank)
		if c.software {
			assert.LessOrEqual(t, r.Batch*r.Context, 2048)
		}
	}
}

// TestStepsDown: with less memory a choice never takes more, whatever it falls to, and conversations are cut last.
func TestStepsDown(t *testing.T) {
	f := Facts{Model: models["Llama-3.2-1B"], Lengths: chats(300, 500, 4000), Machine: Machine{Bases: []string{"f32", "bf16", "nf4"}}}
	last := Recipe{Context: 1 << 30}
	cut := false
	for gibs := 24.0; gibs > 1.7; gibs /= 1.3 {
		f.Machine.Memory = uint64(gibs * gib)
		r, err := Choose(f, plan(f.Machine.Memory))
		require.NoError(t, err, "%v GiB", gibs)
		assert.LessOrEqual(t, r.Context, last.Context)
		if r.Cut > 0 {
			cut = true
			assert.Equal(t, "nf4", r.Base, "what is not rounded is not cut")
		}
		last = r
	}
	assert.True(t, cut, "some are cut with the least memory")
}

func TestChoicesOfData(t *testing.T) {
	of := func(lengths []int, w Wanted) Recipe {
		f := Facts{Model: models["Qwen3-0.6B"], Lengths: lengths, Machine: Machine{Bases: []string{"f32", "bf16"}}, Wanted: w}
		r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
		require.NoError(t, err)
		return r
	}
	few, some, many := of(chats(40, 50, 200), Wanted{}), of(chats(2000, 50, 200), Wanted{}), of(chats(30_000, 50, 200), Wanted{})
	assert.Equal(t, []int{8, 16, 32}, []int{few.Rank, some.Rank, many.Rank})
	assert.Equal(t, []int{3, 1}, []int{some.Epochs, many.Epochs})
	assert.Greater(t, few.Epochs, 3, "few conversations are seen more often")
	assert.InDelta(t, 4e-4, few.Rate, 1e-12, "2e-4 * sqrt(4096/1024)")
	assert.InDelta(t, 4e-5, few.RateEnd(), 1e-12)
	for _, r := range []Recipe{few, some, many} {
		assert.Equal(t, 256, r.Context)
		assert.Less(t, r.Warmup, r.Steps)
		assert.GreaterOrEqual(t, r.Steps/r.Every, int64(8), "about ten evaluations")
	}
	for name, rate := range map[string]float64{"adamw": 4e-4, "lion": 8e-5, "sgd": 3e-2} {
		r := of(chats(2000, 50, 200), Wanted{Optimizer: name})
		assert.InDelta(t, rate, r.Rate, 1e-12, "4e-4 as 0.0015 is to the rate of %s", name)
		assert.Equal(t, name == "adamw", !strings.Contains(r.Choices()[4].Text, "with "+name), "%s", r.Choices()[4].Text)
		assert.LessOrEqual(t, len(r.Choices()[4].Text), 120)
		assert.Contains(t, r.Choices()[4].Keys, key("optimizer.name", name))
	}
	outlier := of(append(chats(1000, 50, 200), 30_000), Wanted{})
	assert.Equal(t, 256, outlier.Context, "one that is far longer than all others does not decide")
	assert.Equal(t, 1, outlier.Cut)
	assert.Contains(t, outlier.Choices()[2].Text, "cuts 1 of 1001")
	assert.Equal(t, 40_960, of([]int{50_000, 60_000}, Wanted{}).Context, "no more than the model has")

	w := of(chats(2000, 50, 200), Wanted{Rank: 3, Context: 100, Batch: 5, Accumulate: 2, Epochs: 7, Base: "f32", Recompute: "layers", Rate: 0.1})
	assert.Equal(t, []int{3, 100, 5, 2, 7}, []int{w.Rank, w.Context, w.Batch, w.Accumulate, w.Epochs})
	assert.Equal(t, []string{"f32", "layers"}, []string{w.Base, w.Recompute})
	assert.InDelta(t, 0.1, w.Rate, 1e-12)

	w = of(chats(2000, 50, 200), Wanted{Steps: 30})
	assert.Equal(t, []any{0, int64(30), int64(3)}, []any{w.Epochs, w.Steps, w.Every})

	small := 0
	_, err := Choose(some.facts, func(r Recipe) (bool, error) {
		if r.Batch*r.Context < 1024 {
			small++
			assert.Equal(t, "layers", r.Recompute, "an adapter is rather kept busy than that nothing is computed again: %d x %d", r.Batch, r.Context)
		}
		return false, nil
	})
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.Positive(t, small)

	_, err = Choose(Facts{}, nil)
	require.ErrorContains(t, err, "found none to train on")
	broken := errors.New("broken")
	_, err = Choose(few.facts, func(Recipe) (bool, error) { return false, broken })
	require.ErrorIs(t, err, broken)
}

func TestShare(t *testing.T) {
	for n, held := range map[int]int{2: 1, 9: 1, 10: 1, 40: 4, 157: 15, 5000: 100, 1_000_000: 100} {
		share, err := Share(n)
		require.NoError(t, err)
		assert.InDelta(t, held, int(float64(n)*share), 0.02*float64(held)+0.5, "%d conversations", n)
	}
	_, err := Share(1)
	require.ErrorContains(t, err, "found 1, wanted 2 or more")
}

// TestWrite reads the run file with what reads run files.
func TestWrite(t *testing.T) {
	f := Facts{Model: models["Qwen3-0.6B"], Lengths: chats(812, 50, 900), Held: 40, Answer: 300, Machine: Machine{Bases: []string{"f32", "bf16"}}}
	r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
	require.NoError(t, err)
	r.Last(120)
	var file bytes.Buffer
	rows := []string{`/a b/"chats": 1.jsonl`, "/c.parquet"}
	require.NoError(t, r.Write(&file, Given{"/models/Qwen3 #1", rows, 0.05, true}))
	c := runfile.New()
	require.NoError(t, c.Parse("tune.yaml", file.Bytes()), file.String())
	require.NoError(t, c.Validate(), file.String())
	assert.True(t, c.Data.LearnLast)
	assert.Equal(t, "/models/Qwen3 #1", c.Model.From)
	assert.Equal(t, rows, c.Data.JSONL)
	assert.Equal(t, []any{"bf16", r.Context, 16, 32.0, []string{"all-linear"}}, []any{c.Model.Base, c.Model.Context, c.LoRA.Rank, c.LoRA.Alpha, c.LoRA.Target})
	assert.Equal(t, []any{r.Batch, r.Accumulate, "none"}, []any{c.Train.Batch, c.Train.Accumulate, c.Train.Recompute})
	assert.InDelta(t, c.Optimizer.LearningRate/10, c.Optimizer.RateEnd(), 1e-9, "the end is a tenth of the peak")
	assert.Equal(t, []any{3, int64(12), 256}, []any{c.Optimizer.Schedule.WarmupSteps, c.Train.EvalEvery, c.Train.Sample.Tokens})
	for _, choice := range r.Choices() {
		assert.LessOrEqual(t, len(choice.Text), 120)
		assert.Contains(t, file.String(), choice.Text[12:])
	}
}
