package bench

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/train"
	"gputrain/state"
)

// The models of a card are of the published sizes.
func TestCardModels(t *testing.T) {
	sizes := map[string]int64{"GPT-2 124M": 124_439_808, "SmolLM2-135M": 134_515_008, "Qwen3-0.6B": 596_049_920}
	require.Len(t, FullScale().models, len(sizes)+len(tunedModels))
	for _, m := range FullScale().models[:len(sizes)] {
		st, err := m.config()
		require.NoError(t, err, m.name)
		assert.Equal(t, sizes[m.name], model.Parameters(st.Definition), m.name)
		assert.Equal(t, "adamw", st.Optimizer.Name)
		assert.Equal(t, 1024, st.Sequence)
	}
	full := FullScale()
	all := time.Duration(0)
	for _, p := range (&Meter{Scale: full}).list() {
		all += full.budget(p)
	}
	assert.LessOrEqual(t, all, 10*time.Minute)
}

// Models with adapters train these alone: on all seven projections, eight by each side of a matrix.
func TestTunedModels(t *testing.T) {
	for i, want := range []int64{30 * 8 * (6*576 + 2*192 + 3*(576+1536)), 22 * 8 * (6*2048 + 2*256 + 3*(2048+5632))} {
		st, err := tunedModels[i].config()
		require.NoError(t, err)
		assert.Equal(t, []int{1, 512}, []int{st.Batch, st.Sequence})
		trained := int64(0)
		for _, p := range model.Specs(st.Definition) {
			if !slices.Contains(st.Frozen, p.Path) {
				trained += int64(p.Shape[0] * p.Shape[1])
			}
		}
		assert.Equal(t, want, trained, tunedModels[i].name)
	}
}

// Where memory is too small for a model's batch, half of it is measured.
func TestCardModelThatDoesNotFit(t *testing.T) {
	progress, err := train.NewProgress("none", io.Discard, 0)
	require.NoError(t, err)
	var tried []int
	m := Meter{
		Adapter: gputest.Adapters(t)[0], Progress: progress, card: Card{Parts: []cardPart{{Name: "p", Budget: 3600, Of: 1}}}, begun: time.Now(),
		Predict: func(_ context.Context, c state.Config, _ *gpu.Device) (Prediction, error) {
			if tried = append(tried, c.Batch); c.Batch > 1 {
				return Prediction{}, gpu.ErrOutOfMemory
			}
			return Prediction{Seconds: 1, Speed: gpu.Speed{FLOPS: 1, BytesPerSecond: 1}}, nil
		},
	}
	c := smallModels(1, 32, 64, 32)[0]
	c.batch = 4
	require.NoError(t, m.model(t.Context(), c))
	assert.Equal(t, []int{4, 2, 1}, tried)
	require.Len(t, m.card.Models, 1)
	assert.Equal(t, 32, m.card.Models[0].Tokens)
	assert.Contains(t, m.card.Models[0].Set, "train.batch=1")
}

// What is computed in another's kernel counts there, as a profile has it.
func TestPredictedOperations(t *testing.T) {
	one := gpu.Work{Bytes: 100, FLOPs: 2}
	p := Prediction{Speed: gpu.Speed{FLOPS: 10, BytesPerSecond: 100}, Work: []compile.Work{
		{Group: compile.Rest, Kind: "elementwise", Kernels: "in matmul_nn_add", Work: one},
		{Group: compile.Products, Kind: "matmul", Kernels: "matmul_nn_add", Work: one},
		{Group: compile.Rest, Kind: "elementwise", Kernels: "elementwise_add", Work: one},
		{Group: "optimizer", Kind: "update", Kernels: "adamw", Work: one},
		{Group: compile.Rest, Kind: "gradients", Kernels: "sum", Work: one},
	}}
	found := predicted(p)
	two := operation{Predicted: 2, Executed: 4, Bytes: 200}
	assert.Equal(t, map[string]operation{compile.Products: two, "elementwise": {Predicted: 1, Executed: 2, Bytes: 100}, updating: two}, found)
	all := compared(map[string]float64{"elementwise": 3, compile.Products: 8, "rope": 1}, found)
	assert.Equal(t, []operation{
		{Name: compile.Products, Seconds: 8, Predicted: 2, Ratio: 4, Executed: 4, Bytes: 200},
		{Name: "elementwise", Seconds: 3, Predicted: 1, Ratio: 3, Executed: 2, Bytes: 100},
		{Name: "rope", Seconds: 1},
	}, all)
}

// Gaps are named with what to try, the largest first.
func TestGaps(t *testing.T) {
	m := CardModel{
		Name: "m", Seconds: 10, Profiled: 10, Planned: 100 << 20, Taken: 111 << 20, SubmitLimit: 0.5, LongestSubmit: 0.6,
		Operations: []operation{
			{Name: compile.Products, Seconds: 5, Predicted: 2, Ratio: 2.5},
			{Name: compile.Attention, Seconds: 1.4, Predicted: 1, Ratio: 1.4},
			{Name: "rope", Seconds: 0.4, Predicted: 0.01, Ratio: 40},
			{Name: updating, Seconds: 2, Predicted: 0.5, Ratio: 4},
		},
	}
	c := Card{Models: []CardModel{m, m}}
	c.Parts = []cardPart{{Name: "products", Figures: []Figure{{Bench: "matmul a", Value: 10}, {Bench: "matmul b", Value: 4}}}}
	var texts []string
	for _, g := range gaps(c) {
		texts = append(texts, g.What)
	}
	assert.Equal(t, []string{
		"m: a submit takes 0.60 s, more than device.submit_limit", "m: took 111.0 MiB of memory, planned 100.0 MiB",
		"m: a submit takes 0.60 s, more than device.submit_limit", "m: took 111.0 MiB of memory, planned 100.0 MiB",
		"m: products: 2.5 times what the limits of the adapter allow, 50 % of a step",
		"m: update and sums: 4.0 times what the limits of the adapter allow, 20 % of a step",
		"m: 12 % of a step is between passes",
		"products b (0.40 of the best) are slow",
	}, texts)
	c.Models[0].Taken, c.Models = 110<<20, c.Models[:1]
	assert.False(t, slices.ContainsFunc(gaps(c), func(g gap) bool { return g.What == "m: took 110.0 MiB of memory, planned 100.0 MiB" }))
}

// Of a profile that has an operation move more than memory can, nothing is concluded. What fits a cache may be faster.
func TestTimesThatCannotBe(t *testing.T) {
	m := CardModel{Name: "m", Seconds: 0.1, Profiled: 0.1, Operations: []operation{
		{Name: "norm", Seconds: 0.001, Bytes: 5e9, Dispatches: 100}, {Name: updating, Seconds: 0.00504, Bytes: 19.07e9, Dispatches: 7},
	}}
	c := Card{Models: []CardModel{m}, Parts: []cardPart{{Name: "copy and optimizers", Figures: []Figure{{Bench: "copy", Value: 3080, Unit: "GB/s"}}}}}
	require.Len(t, gaps(c), 1)
	assert.Equal(t, "m: update and sums moves 3784 GB/s by its profile, of 3080 that this memory can: the time is wrong", gaps(c)[0].What)
	assert.Contains(t, c.Page(), "\n**update and sums moves 3784 GB/s")
	m.Operations[1].Seconds /= 0.77
	assert.NotContains(t, gaps(c)[0].What, "wrong")
	assert.NotContains(t, c.Page(), "**update")
}

// A part ends when it has had its time, and says what is missing.
func TestPartBudget(t *testing.T) {
	progress, err := train.NewProgress("none", io.Discard, 0)
	require.NoError(t, err)
	m := Meter{Progress: progress, card: Card{Parts: []cardPart{{Name: "p", Budget: 3600, Of: 3}}}, begun: time.Now()}
	add := func(*Card, *cardPart) {}
	require.NoError(t, m.done(t.Context(), add))
	m.begun = time.Now().Add(-2 * time.Hour)
	err = m.done(t.Context(), add)
	require.ErrorIs(t, err, errBudget)
	m.end(err)
	assert.Equal(t, "2 of 3 done in the 3600 s of this part", m.card.Parts[0].Short)
	require.NoError(t, m.done(t.Context(), add), "nothing is missing")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.done(ctx, add), context.Canceled)
}
