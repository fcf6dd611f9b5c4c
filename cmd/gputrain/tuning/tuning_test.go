package tuning

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/run/runfile"
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
		{"Llama-3.1-8B", 5.3, false, append(all, "nf4-nested"), "nf4-nested", "layers"}, // 3.9 GiB and 1.2 of activations, where nf4 takes 4.2
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
	for _, r := range []Recipe{few, some, many} {
		assert.Equal(t, 256, r.Context)
		assert.Less(t, r.Warmup, r.Steps)
		assert.GreaterOrEqual(t, r.Steps/r.Every, int64(8), "about ten evaluations")
	}
	for name, rate := range map[string]float64{"adamw": 4e-4, "lion": 8e-5, "sgd": 3e-2} {
		r := of(chats(2000, 50, 200), Wanted{Optimizer: name})
		assert.InDelta(t, rate, r.Rate, 1e-12, "4e-4 as 0.0015 is to the rate of %s", name)
		line := lineOf(t, r, "rate", "optimizer.name="+name)
		assert.Contains(t, line.Text, " with "+name+", as suits adapters on a model 1024 wide")
		assert.Equal(t, name != "adamw", strings.Contains(line.Text, " x adamw's"))
		assert.LessOrEqual(t, len(line.Text), 120)
		assert.Contains(t, line.Keys, key("optimizer.name", name))
	}
	outlier := of(append(chats(1000, 50, 200), 30_000), Wanted{})
	assert.Equal(t, 256, outlier.Context, "one that is far longer than all others does not decide")
	assert.Equal(t, 1, outlier.Cut)
	assert.Contains(t, lineOf(t, outlier, "window").Text, "cuts 1 of 1001")
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

// given is what the tests of run files tune.
var given = Given{Model: "/models/Qwen3 #1", Rows: []string{`/a b/"chats": 1.jsonl`, "/c.parquet"}, Validation: 0.05, LastOnly: true}

// lineOf is a line of the table of a recipe, with what is set over it.
func lineOf(t *testing.T, r Recipe, name string, sets ...string) Choice {
	t.Helper()
	run, err := Config(given, &r, nil, sets)
	require.NoError(t, err)
	for _, c := range r.Choices(run) {
		if strings.HasPrefix(c.Text, name+" ") {
			return c
		}
	}
	t.Fatalf("no line %s", name)
	return Choice{}
}

// TestWrite reads the run file with what reads run files.
func TestWrite(t *testing.T) {
	f := Facts{Model: models["Qwen3-0.6B"], Lengths: chats(812, 50, 900), Held: 40, Answer: 300, Machine: Machine{Bases: []string{"f32", "bf16"}}}
	r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
	require.NoError(t, err)
	r.Last(120)
	c, choices, file := written(t, r)
	assert.True(t, c.Data.LearnLast)
	assert.Equal(t, given.Model, c.Model.From)
	assert.Equal(t, given.Rows, c.Data.JSONL)
	assert.Equal(t, []any{"bf16", r.Context, 16, 32.0, []string{"all-linear"}}, []any{c.Model.Base, c.Model.Context, c.LoRA.Rank, c.LoRA.Alpha, c.LoRA.Target})
	assert.Equal(t, []any{r.Batch, r.Accumulate, "none"}, []any{c.Train.Batch, c.Train.Accumulate, c.Train.Recompute})
	assert.InDelta(t, c.Optimizer.LearningRate/10, c.Optimizer.RateEnd(), 1e-9, "the end is a tenth of the peak")
	assert.Equal(t, []any{3, int64(12), 256}, []any{c.Optimizer.Schedule.WarmupSteps, c.Train.EvalEvery, c.Train.Sample.Tokens})
	for _, choice := range choices {
		if choice.Text != "" {
			assert.LessOrEqual(t, len(choice.Text), 120)
			assert.Contains(t, file, choice.Text[12:])
		}
	}
}

// written are the choices of a recipe with what is set over it, the run file of them, and what reads it finds.
func written(t *testing.T, r Recipe, sets ...string) (*runfile.Config, []Choice, string) {
	t.Helper()
	run, err := Config(given, &r, nil, sets)
	require.NoError(t, err, "%v", sets)
	choices := r.Choices(run)
	var file strings.Builder
	require.NoError(t, Write(&file, choices))
	c := runfile.New()
	require.NoError(t, c.Parse(File, []byte(file.String())), file.String())
	require.NoError(t, c.Validate(), file.String())
	return c, choices, file.String()
}

// Every value that is set is in the run file and in a line, and no line says another one.
func TestSetIsInForce(t *testing.T) {
	f := Facts{Model: models["Qwen3-0.6B"], Lengths: append(chats(99, 50, 200), 3000), Held: 11, Answer: 30, Machine: Machine{Bases: []string{"f32", "bf16", "nf4"}}} // 162 steps: 55 windows of 256, 2 an update, 6 times
	rows := []struct{ set, line, want string }{
		{"lora.rank=3", "adapters", "rank 3, alpha 6 on all linear layers, as wanted"},
		{"lora.alpha=5", "adapters", "rank 8, alpha 5 on"},
		{"lora.target=[q_proj, v_proj]", "adapters", "on q_proj, v_proj, for 100"},
		{"lora.layers=[0, 2]", "adapters", "all linear layers of layers 0, 2,"},
		{"lora.from=/runs/a", "adapters", "those of /runs/a"},
		{"model.base=nf4-nested", "base", "nf4-nested: as wanted"},
		{"model.context=128", "window", "128 tokens, which cuts"},
		{"data.long=keep_end", "window", "cuts the beginning of 1 of 100"},
		{"data.long=split", "window", "divides 1 of 100"},
		{"data.packing=stream", "window", "conversations fill one after the other"},
		{"train.batch=5", "batch", "5 x "},
		{"train.accumulate=7", "batch", " x 7 windows"},
		{"data.packing=none", "batch", "4 x 1 windows, about 4 conversations"},
		{"train.recompute=layers", "batch", "layers are computed again"},
		{"optimizer.name=lion", "rate", "8e-05 with lion"},
		{"optimizer.learning_rate=0", "rate", "0 with adamw, as wanted"},
		{"optimizer.weight_decay=0.25", "rate", "weight decay 0.25"},
		{"optimizer.schedule.type=constant", "schedule", "constant, after "},
		{"optimizer.schedule.type=linear", "schedule", "linear, down to 4e-05"},
		{"optimizer.schedule.warmup_steps=9", "schedule", "after 9 steps"},
		{"optimizer.schedule.learning_rate_end=0.0001", "schedule", "down to 0.0001"},
		{"optimizer.schedule.learning_rate_end_ratio=0.5", "schedule", "down to 0.0002"},
		{"optimizer.schedule.steps=11", "besides", "optimizer.schedule.steps 11"},
		{"train.steps=30", "steps", "30: as wanted"},
		{"data.epochs=0", "steps", "1600: as wanted"},
		{"data.epochs=1", "steps", ": the conversations once"},
		{"data.epochs=6", "steps", ": the conversations 6 times"},
		{"train.eval_every=5", "held out", "evaluated every 5 steps; the best"},
		{"train.eval_every=0", "held out", "evaluated at the end, saved every 17 steps"},
		{"train.patience=7", "early stop", "after 7 evaluations in a row without a lower loss"},
		{"train.patience=0", "early stop", "never"},
		{"train.eval_every=1", "early stop", "after 65 evaluations in a row"}, // two fifths of all
		{"train.eval_every=20", "early stop", "after 4 evaluations in a row"},
		{"train.save_every=9", "held out", "evaluated every 17 steps, saved every 9 steps"},
		{"train.save_every=0", "held out", "evaluated every 17 steps, saved at the end"},
		{"train.save_every=[{every: 2, until: 8}, {every: 50}]", "held out", "saved [{every: 2, until: 8}, {every: 50}]"},
		{"train.sample_tokens=0", "answers", "none are shown"},
		{"train.sample_tokens=12", "answers", "at most 12 tokens"},
		{"train.temperature=0.7", "answers", "at temperature 0.7"},
		{"train.ask=[who, what]", "answers", "to --ask (2)"},
		{"data.learn_last=false", "", ""},
		{"data.validation=0.2", "", ""}, // whose conversations are counted: Facts.Held
		{"lora.dropout=0.1", "besides", "lora.dropout 0.1, as wanted"},
		{"train.seed=18446744073709551615", "besides", "train.seed 18446744073709551615"},
		{"optimizer.parameters={b1: 0.5, b2: 0.75}", "besides", "optimizer.parameters.b2 0.75"},
		{"optimizer.clip_grad=null", "besides", "optimizer.clip_grad null"},
		{"optimizer.rates=[{match: 'q_proj', multiplier: 0.5}]", "besides", "optimizer.rates "},
		{"train.memory_limit=6GiB", "besides", `train.memory_limit "6GiB"`},
		{"data.template=other.jinja", "besides", "/tuning/other.jinja\""},
		{"pipeline.adapters=[1]", "besides", "pipeline.adapters [1]"},
	}
	tried := map[string]bool{"model.from": true, "data.jsonl": true} // which are arguments
	for _, of := range []string{"loss", "beta", "desirable_weight", "undesirable_weight"} {
		tried["preference."+of] = true // of rows of another form: see TestTuneChoosesTheMethod
	}
	for _, l := range lines {
		for _, k := range l.keys {
			if strings.HasPrefix(k, "rollout.") || strings.HasPrefix(k, "head.") || k == "rewards" {
				tried[k] = true // of other methods: see TestMethodLines
			}
		}
	}
	for _, row := range rows {
		name, _, _ := strings.Cut(row.set, "=")
		tried[name] = true
		begun, err := Config(given, nil, nil, []string{row.set})
		require.NoError(t, err, row.set)
		f.Wanted = WantedOf(begun)
		r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
		require.NoError(t, err)
		r.Last(r.Steps)
		read, choices, file := written(t, r, row.set)
		run, err := Config(given, &r, nil, []string{row.set})
		require.NoError(t, err)
		for key, value := range run.Values() {
			if key != "data.template" { // which the file has from anywhere
				assert.Equal(t, value, valueOf(read, key), "%s: %s\n%s", row.set, key, file)
			}
		}
		var text []string
		for _, c := range choices {
			if row.line != "" && strings.HasPrefix(c.Text, row.line+" ") {
				text = append(text, c.Text)
			}
		}
		assert.Contains(t, strings.Join(text, "\n"), row.want, row.set)
	}
	r, err := Choose(f, func(Recipe) (bool, error) { return true, nil })
	require.NoError(t, err)
	for _, k := range append(given.keys(), r.keys()...) {
		assert.True(t, tried[k.Name], k.Name)
	}
	for _, l := range lines {
		for _, k := range l.keys {
			assert.True(t, tried[k], k)
		}
	}
}

// valueOf is the value of a key.
func valueOf(c *runfile.Config, key string) (out any) {
	for k, v := range c.Values() {
		if k == key {
			out = v
		}
	}
	return out
}
