package runfile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/data"
	"gputrain/shaders/suggest"
)

// Validate checks what can be checked without data or device; an error names
// the key, where its value came from, what was found and what was wanted.
func (c *Config) Validate() error {
	whole := []struct {
		key        string
		value, min int
	}{
		{"model.layers", c.Model.Layers, 1},
		{"model.heads", c.Model.Heads, 1},
		{"model.width", c.Model.Width, 1},
		{"model.kv_heads", c.Model.KVHeads, 0},
		{"model.intermediate", c.Model.Intermediate, 0},
		{"model.context", c.Model.Context, 1},
		{"model.vocab", c.Model.Vocab, 0},
		{"data.epochs", c.Data.Epochs, 0},
		{"data.prefetch", c.Data.Prefetch, 0},
		{"optimizer.schedule.warmup_steps", c.Optimizer.Schedule.WarmupSteps, -1},
		{"optimizer.schedule.steps", c.Optimizer.Schedule.Steps, 0},
		{"train.steps", c.Train.Steps, 1},
		{"train.batch", c.Train.Batch, 1},
		{"train.accumulate", c.Train.Accumulate, 1},
		{"train.eval_every", c.Train.EvalEvery, 0},
		{"train.eval_tokens", c.Train.EvalTokens, 0},
		{"train.keep", c.Train.Keep, 1},
		{"train.keep_best", c.Train.KeepBest, 1},
		{"train.sample_every", c.Train.SampleEvery, 0},
		{"train.sample_tokens", c.Train.SampleTokens, 0},
		{"train.top_k", c.Train.TopK, 0},
		{"train.histogram_every", c.Train.HistogramEvery, 0},
		{"train.log_every", c.Train.LogEvery, 1},
		{"train.nan_patience", c.Train.NaNPatience, 1},
		{"train.spike_window", c.Train.SpikeWindow, 2},
		{"train.spike_patience", c.Train.SpikePatience, 1},
		{"pipeline.stages", c.Pipeline.Stages, 1},
		{"pipeline.microbatches", c.Pipeline.Microbatches, 1},
		{"pipeline.chunks", c.Pipeline.Chunks, 0},
		{"pipeline.ahead", c.Pipeline.Ahead, 0},
	}
	for _, w := range whole {
		if w.value < w.min {
			return c.invalid(w.key, w.value, fmt.Sprintf("%d or more", w.min))
		}
	}
	numbers := []struct {
		key        string
		value, max float64
	}{
		{"model.dropout", c.Model.Dropout, 0.999},
		{"data.validation", c.Data.Validation, 0.9},
		{"optimizer.learning_rate", c.Optimizer.LearningRate, 1e6},
		{"optimizer.weight_decay", c.Optimizer.WeightDecay, 1e6},
		{"optimizer.schedule.learning_rate_end", c.Optimizer.Schedule.LearningRateEnd, 1e6},
		{"optimizer.schedule.exponent", c.Optimizer.Schedule.Exponent, 100},
		{"train.temperature", c.Train.Temperature, 100},
		{"train.spike_loss", c.Train.SpikeLoss, 1e6},
		{"train.spike_grad_norm", c.Train.SpikeGradNorm, 1e6},
		{"train.spike_update_norm", c.Train.SpikeUpdateNorm, 1e6},
		{"model.rope_theta", c.Model.RopeTheta, math.MaxFloat64},
	}
	for _, n := range numbers {
		if !(n.value >= 0 && n.value <= n.max) {
			return c.invalid(n.key, n.value, fmt.Sprintf("0 to %g", n.max))
		}
	}
	names := []struct {
		key, value string
		known      []string
	}{
		{"model.kind", c.Model.Kind, []string{"gpt2", "llama"}},
		{"data.tokens", c.Data.Tokens, []string{"bytes", "u16", "u32"}},
		{"data.mixture_end", c.Data.MixtureEnd, data.Ends},
		{"data.packing", c.Data.Packing, data.Packings},
		{"data.long", c.Data.Long, data.Longs},
		{"optimizer.numerics", c.Optimizer.Numerics, []string{"stable", "eformer"}},
		{"pipeline.schedule", c.Pipeline.Schedule, []string{"gpipe", "1f1b", Interleaved}},
		{"pipeline.devices", c.Pipeline.Devices, []string{"adapter", "stage"}},
	}
	for _, n := range names {
		if !slices.Contains(n.known, n.value) {
			want := "one of " + strings.Join(n.known, ", ")
			return c.invalid(n.key, strconv.Quote(n.value), want+suggest.DidYouMean(n.value, n.known))
		}
	}
	if c.Optimizer.ClipGrad != nil && !(*c.Optimizer.ClipGrad > 0) {
		return c.invalid("optimizer.clip_grad", *c.Optimizer.ClipGrad, "more than 0, or null for no clipping")
	}
	if err := c.validatePipeline(); err != nil {
		return err
	}
	if err := c.validateData(); err != nil {
		return err
	}
	if _, err := ParseBytes(c.Train.MemoryLimit); err != nil {
		return c.invalid("train.memory_limit", strconv.Quote(c.Train.MemoryLimit), "bytes such as 800MB or 6GiB")
	}
	for _, match := range c.Train.HistogramMatch {
		if _, err := regexp.Compile(match); err != nil {
			return c.invalid("train.histogram_match", strconv.Quote(match), fmt.Sprintf("a regular expression: %v", err))
		}
	}
	if err := c.Train.SaveEvery.validate(); err != nil {
		return c.invalid("train.save_every", c.Train.SaveEvery, err.Error())
	}
	for _, t := range []struct{ key, text string }{{"train.save_interval", c.Train.SaveInterval}, {"train.time_limit", c.Train.TimeLimit}} {
		if _, err := ParseDuration(t.text); err != nil {
			return c.invalid(t.key, strconv.Quote(t.text), "a time such as 90s, 15m or 1d2h30m")
		}
	}
	return nil
}

func (c *Config) invalid(key string, found any, wanted string) error {
	return fmt.Errorf("run file: %s (%s): found %v, wanted %s", key, c.Origin(key), found, wanted)
}

// ParseBytes reads a size such as "800MB", "6GiB" or "123456"; "" is 0.
func ParseBytes(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	units := []struct {
		suffix string
		factor float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v*u.factor < 1<<63) {
			return 0, fmt.Errorf("found %q, wanted a number with B, kB, MB, GB, KiB, MiB or GiB", s)
		}
		return uint64(v * u.factor), nil
	}
	return 0, fmt.Errorf("found %q, wanted a size", s)
}
