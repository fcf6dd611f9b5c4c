package state

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// generating are models whose window is one piece, and several of them.
func generating(t *testing.T) map[string]model.Definition {
	t.Helper()
	must := func(def model.Definition, err error) model.Definition {
		require.NoError(t, err)
		return def
	}
	gpt2 := must(model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: testV, Context: testT}))
	return map[string]model.Definition{
		"gpt2":           gpt2,
		"llama":          must(model.NewLlama(model.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 16, HeadDim: 6, Vocab: testV, Context: 150})),
		"gpt2 quantized": must(model.WithQuantization(gpt2, model.Quantization{Mode: "affine", Bits: 4, Group: 32})),
	}
}

// families are a small model of each family, as files have them: with windows, caps, layers without positions, several rotations, joined matrices.
func families(t *testing.T) map[string]model.Definition {
	t.Helper()
	dirs, err := filepath.Glob("../model/testdata/models/*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	all := map[string]model.Definition{}
	for _, dir := range dirs {
		all[filepath.Base(dir)], err = hub.ReadConfig(dir)
		require.NoError(t, err)
	}
	return all
}

// Logits of windows that are begun and gone on with, token by token, are those of the whole window in float64, and the likeliest tokens are those
// that taking in every window anew finds.
func TestDecode(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		all := generating(t)
		if more := families(t); gputest.Again(t, dev) {
			all["gemma3"] = more["gemma3_small"]
		} else {
			maps.Copy(all, more)
		}
		// A text that the model began with has other frequencies than a longer one, so that it is for a window of its own.
		type tried struct {
			def            model.Definition
			window, prompt int // prompt is the shortest
		}
		cases := map[string]tried{}
		for name, def := range all {
			cases[name] = tried{def, def.Context(), 1}
		}
		if phi, ok := all["phi3_fused"]; ok {
			cases["phi3_fused"], cases["phi3_fused short"] = tried{phi, model.Window(phi, 33), 33}, tried{phi, model.Window(phi, 32), 1}
		}
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				def := c.def
				hosts := model.Init(def, 5)
				for _, h := range hosts { // large enough that every position counts
					for i := range h.Data {
						if len(h.Shape) > 1 {
							h.Data[i] *= 8
						}
					}
				}
				m, err := NewModel(dev, def, hosts)
				require.NoError(t, err)
				defer m.Release()
				anew, err := NewModel(dev, def, hosts)
				require.NoError(t, err)
				defer anew.Release()
				require.NoError(t, m.Narrow(c.window))
				require.NoError(t, anew.Narrow(c.window))
				require.Equal(t, c.window, m.Window())

				prompt := tinyBatch(1, 24, false).Tokens
				for _, n := range []int{3, m.Window() / 2, m.Window() - 1, 1} { // what came before leaves nothing behind
					if n < c.prompt {
						continue
					}
					window := slices.Clone(prompt[:n])
					logits, err := m.Logits(t.Context(), window)
					require.NoError(t, err)
					for range min(m.Window()-n, 9) {
						next := likeliest(logits)
						again, err := anew.Logits(t.Context(), window)
						require.NoError(t, err)
						require.Equal(t, likeliest(again), next, "after %d tokens", len(window))
						window = append(window, next)
						logits, err = m.Decode(t.Context(), next)
						require.NoError(t, err)
					}
					want := evaluated(t, def, hosts, window)
					require.Len(t, logits, def.Vocab())
					largest := max(slices.Max(want), -slices.Min(want))
					most := 1e-5 // the tolerance of package model: sums of up to a few hundred products, in f32
					if model.Recurrent(def) {
						most = 5e-5 // a state takes up the rounding of each token, and the norm behind it divides by what may be small
					}
					for i, w := range want {
						assert.InDelta(t, w, logits[i], most*float64(largest), "%d tokens, logit %d", len(window), i)
					}
				}
			})
		}
	})
}

func likeliest(logits []float32) int32 { return int32(slices.Index(logits, slices.Max(logits))) }

// evaluated are the logits behind a window in float64.
func evaluated(t *testing.T, def model.Definition, params []buffers.Host, window []int32) []float64 {
	t.Helper()
	built, err := def.Build(1, len(window), model.Options{Logits: true})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{model.InputTokens: {Shape: []int{1, len(window)}}}
	for _, token := range window {
		feeds[model.InputTokens].Data = append(feeds[model.InputTokens].Data, float64(token))
	}
	for _, h := range params {
		feeds[h.Path] = &graph.Array{Shape: h.Shape, Data: make([]float64, len(h.Data))}
		for i, x := range h.Data {
			feeds[h.Path].Data[i] = float64(x)
		}
	}
	out, err := graph.Eval(built.Graph, feeds, built.Logits)
	require.NoError(t, err)
	return out[0].Data[(len(window)-1)*def.Vocab():]
}

// A token makes nothing on the device, is one submit and one read-back, and costs as many dispatches as a forward pass of one row and one more a
// layer; what all of it takes is planned, to the byte but for the uniform buffers.
func TestDecodeDoesWhatItMust(t *testing.T) {
	for name, def := range generating(t) {
		t.Run(name, func(t *testing.T) {
			dev := gputest.Device(t)
			c := Config{Definition: def, Optimizer: tinyOptimizer(), Batch: 2, Sequence: 12}
			without := create(t, dev, c)
			begin := dev.Counters().LiveBytes
			c.Sampling = true
			s := create(t, dev, c)
			taken := dev.Counters().LiveBytes - begin
			begin = dev.Counters().LiveBytes
			again := create(t, dev, without.Config())
			taken -= dev.Counters().LiveBytes - begin
			again.Release()
			g := s.passes.(*onDevice).generator
			require.NotNil(t, g, "made before the first step")
			assert.Equal(t, taken-g.programs[prefillPass].run.UniformBytes()-g.programs[decodePass].run.UniformBytes(), s.Memory()[0].Sampling)

			_, err := s.Logits(t.Context(), []int32{1, 2})
			require.NoError(t, err)
			row, err := def.Build(1, 1, model.Options{Logits: true})
			require.NoError(t, err)
			plan, err := compile.PlanNarrow(t.Context(), row.Graph, []compile.Target{{Name: "logits", Value: row.Logits}}, nil, nil, dev.Limits())
			require.NoError(t, err)
			layers := len(g.caches)
			for i := range 10 {
				before := dev.Counters()
				_, err := s.Decode(t.Context(), int32(i))
				require.NoError(t, err)
				after := dev.Counters()
				assert.Equal(t, []uint64{before.Pipelines, before.BindGroups, before.Buffers, before.LiveBytes, before.Submits + 1, before.Readbacks + 1},
					[]uint64{after.Pipelines, after.BindGroups, after.Buffers, after.LiveBytes, after.Submits, after.Readbacks})
				most := plan.Dispatches + layers
				if def.Kind() == "gpt2" {
					most++ // a row of the positions is looked up instead of bound
				}
				assert.LessOrEqual(t, after.Dispatches-before.Dispatches, uint64(most))
				assert.EqualValues(t, 4*testV, after.ReadBytes-before.ReadBytes)
				assert.EqualValues(t, 2*16, after.WrittenBytes-before.WrittenBytes, "a token and its position")
			}
			_, err = s.Decode(t.Context(), 0)
			assert.ErrorContains(t, err, "window: full with 12 tokens")
		})
	}
}

// Nor does a token of each of several rows, or a pass over their prompts, make anything; it is planned to the byte, too.
func TestStepDoesWhatItMust(t *testing.T) {
	dev := gputest.Device(t)
	c := Config{Definition: generating(t)["llama"], Optimizer: tinyOptimizer(), Batch: 2, Sequence: 40}
	without := create(t, dev, c)
	begin := dev.Counters().LiveBytes
	c.Rows = 5
	s := create(t, dev, c)
	taken := dev.Counters().LiveBytes - begin
	begin = dev.Counters().LiveBytes
	again := create(t, dev, without.Config())
	taken -= dev.Counters().LiveBytes - begin
	again.Release()
	g := s.passes.(*onDevice).generator
	for _, name := range continuing[1] {
		taken -= g.programs[name].run.UniformBytes()
	}
	assert.Equal(t, taken, s.Memory()[0].Sampling)
	require.Equal(t, Paging{Rows: 5, Blocks: 15, Size: 16, Entries: 3, Fill: 64}, s.Paging())
	places := func(n int) Places {
		return Places{Tokens: make([]int32, n), Rows: slices.Repeat([]int32{-1}, n), Positions: make([]int32, n), Table: make([]int32, 15)}
	}
	fill, step := places(64), places(5)
	for i := range 15 {
		fill.Table[i], step.Table[i] = int32(14-i), int32(14-i)
	}
	for i := range int32(20) {
		fill.Tokens[i], fill.Rows[i], fill.Positions[i] = i, i%5, i/5
	}
	for i := range int32(10) {
		before := dev.Counters()
		require.NoError(t, s.Fill(t.Context(), fill))
		step.Rows[i%5], step.Positions[i%5] = i%5, 4
		logits, err := s.Advance(t.Context(), step)
		require.NoError(t, err)
		require.Len(t, logits, 5*testV)
		step.Uniforms, step.Temperatures = []float32{0, .2, .4, .6, .8}, make([]float32, 5)
		tokens, logProbs, err := s.Draw(t.Context(), step)
		require.NoError(t, err)
		require.Len(t, logProbs, 5)
		for row, token := range tokens {
			require.Equal(t, likeliest(logits[row*testV:][:testV]), token)
			require.Less(t, logProbs[row], float32(0))
		}
		after := dev.Counters()
		assert.Equal(t, []uint64{before.Pipelines, before.BindGroups, before.Buffers, before.LiveBytes, before.Submits + 3, before.Readbacks + 3},
			[]uint64{after.Pipelines, after.BindGroups, after.Buffers, after.LiveBytes, after.Submits, after.Readbacks})
		assert.EqualValues(t, 4*testV*(1+5)+4*2*5, after.ReadBytes-before.ReadBytes, "of each row a token and its log-probability")
	}
	_, err := s.Advance(t.Context(), fill)
	require.ErrorContains(t, err, "state: advance: 64 tokens")
	step.Table[0] = 15
	_, err = s.Advance(t.Context(), step)
	require.ErrorContains(t, err, "block")
	_, err = without.Advance(t.Context(), step)
	require.ErrorContains(t, err, "state: advance: 5 tokens, a table of 15, want 0")
}

// Where memory is short, the pool is, and only then.
func TestPoolsFit(t *testing.T) {
	c := plannedConfig(t)
	c.Rows, c.Recompute = 24, model.RecomputeLayers
	off := func(o *gpu.Options) { o.Texels = gpu.TexelsOff }
	whole, err := Plan(t.Context(), jobOf(t, c), gputest.Device(t, off).Limits())
	require.NoError(t, err)
	blocks := uint64(3 * 2 * 64 * 4 * blockSize) // of all layers
	for short, want := range map[uint64]int{0: 96, 1: 48, 48 * blocks: 48, 49 * blocks: 24, 80 * blocks: 12} {
		dev := gputest.Device(t, gputest.WithMemoryLimit(whole.Total()-short), off)
		s, err := Create(t.Context(), dev, c)
		require.NoError(t, err, "%d bytes less", short)
		assert.Equal(t, want, s.Paging().Blocks)
		s.Release()
	}
	c.Blocks = 3
	require.ErrorContains(t, c.Validate(), "blocks for one row, 4")
}

// Extend takes in only what follows the tokens that the caches have, and gives the logits of the whole window.
func TestExtend(t *testing.T) {
	dev := gputest.Device(t)
	def := generating(t)["llama"]
	hosts := model.Init(def, 5)
	m, err := NewModel(dev, def, hosts)
	require.NoError(t, err)
	defer m.Release()
	text := tinyBatch(1, 24, false).Tokens
	window := slices.Clone(text[:100])
	_, kept, err := m.Extend(t.Context(), window)
	require.NoError(t, err)
	require.Zero(t, kept, "the caches have nothing yet")
	_, err = m.Decode(t.Context(), text[100])
	require.NoError(t, err)
	other := slices.Clone(text[:140])
	other[110] = (other[110] + 1) % testV
	for _, c := range []struct {
		window        []int32
		kept, submits int
	}{
		{text[:130], 101, 1}, // what was decoded counts too
		{text[:130], 129, 1}, // all but the token whose logits they are
		{other, 110, 1},
		{text[:60], 59, 1},
		{text[:140], 60, 2},
		{text[1:100], 0, 2},
	} {
		before := dev.Counters().Submits
		logits, kept, err := m.Extend(t.Context(), c.window)
		require.NoError(t, err)
		assert.Equal(t, c.kept, kept)
		if kept > 0 {
			assert.EqualValues(t, c.submits, dev.Counters().Submits-before)
		}
		want := evaluated(t, def, hosts, c.window)
		largest := max(slices.Max(want), -slices.Min(want))
		for i, w := range want { // the tolerance of TestDecode
			require.InDelta(t, w, logits[i], 1e-5*largest, "%d tokens, logit %d", len(c.window), i)
		}
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	_, _, err = m.Extend(over, text[1:130])
	require.ErrorIs(t, err, context.Canceled)
	_, kept, err = m.Extend(t.Context(), text[1:140])
	require.NoError(t, err)
	assert.Equal(t, 99, kept, "what was taken in before stays")
	for says, window := range map[string][]int32{"window: found 0 tokens": {}, "token id at position 1": {text[1], testV}, "window: found 151 tokens": make([]int32, 151)} {
		_, _, err := m.Extend(t.Context(), window)
		require.ErrorContains(t, err, says)
	}
}

// Sampling between steps leaves no trace in what is trained; a step ends the window.
func TestDecodeBesideTraining(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	c.Sampling = true
	alone, sampled := create(t, dev, c), create(t, dev, c)
	want := train(t, alone, 3)
	_, err := sampled.Decode(t.Context(), 1)
	require.ErrorIs(t, err, ErrNoWindow)
	var got []Metrics
	for step := range int64(3) {
		_, err := sampled.Logits(t.Context(), []int32{3, 1})
		require.NoError(t, err)
		_, err = sampled.Decode(t.Context(), 4)
		require.NoError(t, err)
		got = append(got, train(t, sampled, step+1)...)
		_, err = sampled.Decode(t.Context(), 5)
		require.ErrorIs(t, err, ErrNoWindow)
	}
	assert.Equal(t, want, got)
	for _, path := range []string{"wte.weight", "h.1.attn.c_attn.weight"} {
		a, err := alone.Params().Read(t.Context(), path)
		require.NoError(t, err)
		b, err := sampled.Params().Read(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, a, b)
	}
	_, err = sampled.Logits(t.Context(), []int32{1})
	require.NoError(t, err)
	_, err = sampled.Decode(t.Context(), testV)
	require.ErrorContains(t, err, "token id")
	_, err = sampled.Decode(t.Context(), 2)
	require.NoError(t, err, "a token that there is none of has changed nothing")
}

// A window is cut into runs that end with it.
func TestPieces(t *testing.T) {
	for _, c := range []struct {
		window, from, rows int
		first              []int
		row                int
	}{
		{1, 0, 4, []int{0}, 0},
		{3, 0, 4, []int{0}, 2},
		{4, 0, 4, []int{0}, 3},
		{5, 0, 4, []int{0, 1}, 3},
		{8, 0, 4, []int{0, 4}, 3},
		{9, 0, 4, []int{0, 4, 5}, 3},
		{3, 0, 1, []int{0, 1, 2}, 0},
		{3, 2, 4, []int{0}, 2},
		{9, 2, 4, []int{2, 5}, 3},
		{9, 5, 4, []int{5}, 3},
		{9, 8, 4, []int{5}, 3},
		{3, 1, 1, []int{1, 2}, 0},
	} {
		window := tinyBatch(0, 1, false).Tokens[:c.window]
		pieces := pieces(window, c.from, c.rows)
		require.Len(t, pieces, len(c.first))
		for i, p := range pieces {
			require.Len(t, p.tokens, c.rows)
			for j := range c.rows {
				at := c.first[i] + j
				assert.EqualValues(t, at, p.positions[j])
				if at < len(window) {
					assert.Equal(t, window[at], p.tokens[j])
				}
			}
		}
		assert.Equal(t, c.row, pieces[len(pieces)-1].row, "%+v", c)
	}
}

// BenchmarkToken is a token of the default model, with a cache, and by a pass over the whole window.
func BenchmarkToken(b *testing.B) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	require.NoError(b, err)
	m, err := NewModel(gputest.Device(b), def, model.Init(def, 1))
	require.NoError(b, err)
	defer m.Release()
	window := make([]int32, def.Context())
	built, err := def.Build(1, len(window), model.Options{Logits: true, Rows: 1})
	require.NoError(b, err)
	whole, err := m.passes.compile(b.Context(), logitsTarget, 1, built.Graph, built.Logits, compile.Options{Label: "whole"})
	require.NoError(b, err)
	defer whole.release()
	_, err = m.Logits(b.Context(), window[:1])
	require.NoError(b, err)
	b.Run("window", func(b *testing.B) {
		for b.Loop() {
			_, err := whole.once(b.Context(), Piece{tokens: window, row: 5}.Feed())
			require.NoError(b, err)
		}
		b.ReportMetric(float64(whole.run.Dispatches()), "dispatches")
	})
	b.Run("cache", func(b *testing.B) {
		for b.Loop() {
			if len(m.held) == len(window) {
				m.held = m.held[:1]
			}
			_, err := m.Decode(b.Context(), 3)
			require.NoError(b, err)
		}
		b.ReportMetric(float64(m.passes.generator.programs[decodePass].run.Dispatches()), "dispatches")
	})
}

// TestTextOutlivesRowsThatFail: rows for which there is no memory leave the text that was begun as it is.
func TestTextOutlivesRowsThatFail(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: testV, Context: 64})
	require.NoError(t, err)
	m, err := NewModel(gputest.Device(t), def, model.Init(def, 1))
	require.NoError(t, err)
	defer m.Release()
	text := []int32{1, 2, 3, 4, 5}
	whole, err := m.Logits(t.Context(), text)
	require.NoError(t, err)
	_, err = m.Logits(t.Context(), text[:4])
	require.NoError(t, err)
	require.NoError(t, m.Widen(1<<20))
	p := m.Paging()
	places := Places{Tokens: make([]int32, p.Fill), Rows: make([]int32, p.Fill), Positions: make([]int32, p.Fill), Table: make([]int32, p.Rows*p.Entries)}
	require.Error(t, m.Fill(t.Context(), places))
	next, err := m.Decode(t.Context(), text[4])
	require.NoError(t, err)
	for i, want := range whole {
		require.InDelta(t, want, next[i], 1e-5)
	}
}
