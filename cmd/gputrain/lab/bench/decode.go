package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/gpu"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/state"
)

// decodedTexts are continued at once, each behind decodedTokens, or so many of each prompt.
const decodedTexts, decodedTokens, decodedSamples = 64, 128, 8

// decodedModels have about ten million parameters, with few and with all heads of keys, or the shape of Qwen 3 0.6B.
func decodedModels(hardware bool) []model.LlamaConfig {
	if hardware {
		return []model.LlamaConfig{{
			Layers: 28, Heads: 16, KVHeads: 8, HeadDim: 128, Width: 1024, Intermediate: 3072, Vocab: 151936, Context: 512, Tied: true,
		}}
	}
	few := model.LlamaConfig{Layers: 6, Heads: 6, KVHeads: 2, Width: 384, Vocab: 256, Context: 256}
	all := few
	all.KVHeads = all.Heads
	return []model.LlamaConfig{few, all}
}

// decodeFigures are tokens of one text, and of several at once, beside as many of a prompt, all behind as many others.
func decodeFigures(ctx context.Context, dev *gpu.Device, report func(Figure) error) error {
	for _, c := range decodedModels(dev.Adapter().Hardware()) {
		if err := decodeOf(ctx, dev, c, report); err != nil {
			return err
		}
	}
	return nil
}

// decodeOf are those of a model. What is timed takes turns, so that what disturbs the machine disturbs all alike, and a ratio is the median of those of
// turns.
func decodeOf(ctx context.Context, dev *gpu.Device, c model.LlamaConfig, report func(Figure) error) error {
	def, err := model.NewLlama(c)
	if err != nil {
		return err
	}
	m, err := state.NewModel(dev, def, model.Init(def, 1))
	if err != nil {
		return err
	}
	defer m.Release()
	if err := m.Widen(decodedTexts); err != nil {
		return err
	}
	paging := m.Paging()
	p := state.Places{
		Tokens: make([]int32, decodedTexts), Rows: make([]int32, decodedTexts), Positions: slices.Repeat([]int32{decodedTokens}, decodedTexts),
		Table: make([]int32, paging.Rows*paging.Entries), Uniforms: make([]float32, decodedTexts), Temperatures: slices.Repeat([]float32{1}, decodedTexts),
	}
	for i := range p.Rows {
		p.Rows[i] = int32(i)
	}
	for i := range p.Table {
		p.Table[i] = int32(i)
	}
	shared := p // the prompt's blocks are those of the first row of a group
	shared.Table = slices.Clone(p.Table)
	for row := range decodedTexts {
		first := row / decodedSamples * decodedSamples
		copy(shared.Table[row*paging.Entries:], p.Table[first*paging.Entries:][:decodedTokens/paging.Size])
	}
	behind := make([]int32, decodedTokens+64)
	passes := []struct {
		name string
		run  func() error
	}{
		{"64 tokens of a prompt", func() error {
			_, _, err := m.Extend(ctx, behind)
			return err
		}},
		{"token of one text", func() error {
			_, err := m.Decode(ctx, 1)
			return err
		}},
		{"tokens of 64 texts", func() error {
			_, err := m.Advance(ctx, p)
			return err
		}},
		{"tokens of 64 texts of 8 prompts", func() error {
			_, err := m.Advance(ctx, shared)
			return err
		}},
		{"tokens of 64 texts, drawn there", func() error {
			_, _, err := m.Draw(ctx, p)
			return err
		}},
	}
	const warm, rounds = 2, 21
	times := make([][]time.Duration, len(passes))
	for round := range warm + rounds {
		for i, pass := range passes {
			if i < 2 {
				if _, err := m.Logits(ctx, behind[:decodedTokens]); err != nil {
					return err
				}
			}
			took := system.Stopwatch()
			if err := pass.run(); err != nil {
				return fmt.Errorf("%s: %w", pass.name, err)
			}
			if round >= warm {
				times[i] = append(times[i], took())
			}
		}
	}
	median := func(of func(round int) float64) float64 {
		var all []float64
		for round := range rounds {
			all = append(all, of(round))
		}
		slices.Sort(all)
		return all[rounds/2]
	}
	for i, pass := range passes {
		texts := 64.0
		if i == 1 {
			texts = 1
		}
		seconds := median(func(round int) float64 { return times[i][round].Seconds() })
		name := fmt.Sprintf("%s, %d heads of keys", pass.name, c.KVHeads)
		f := Figure{Bench: name, Value: texts / seconds, Unit: "tokens/s", Millis: seconds * 1e3}
		if i > 0 {
			f.Of, f.Ratio = passes[0].name, median(func(round int) float64 { return times[0][round].Seconds() / times[i][round].Seconds() })*texts/64
		}
		if err := report(f); err != nil {
			return err
		}
	}
	return nil
}
