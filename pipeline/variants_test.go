package pipeline_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/state"
)

// families are the models that differ in what crosses a cut: heads that are the embedding and heads of their own, dropout, rotary tables, and parameters
// that are read in few bits, which every pass makes anew.
func families(t testing.TB) map[string]model.Definition {
	t.Helper()
	gpt2 := func(c model.GPT2Config) model.Definition {
		c.Layers, c.Heads, c.Width, c.Vocab, c.Context = tinyLayers, 2, 8, tinyVocab, 4
		d, err := model.NewGPT2(c)
		require.NoError(t, err)
		return d
	}
	llama := func(tied bool) model.Definition {
		d, err := model.NewLlama(model.LlamaConfig{Layers: tinyLayers, Heads: 2, KVHeads: 1, Width: 8, Vocab: tinyVocab, Context: 4, Intermediate: 12, Tied: tied})
		require.NoError(t, err)
		return d
	}
	quantized, err := model.WithQuantization(gpt2(model.GPT2Config{}), model.Quantization{Mode: "nvfp4", Match: []string{"weight"}})
	require.NoError(t, err)
	return map[string]model.Definition{
		"gpt2": gpt2(model.GPT2Config{}), "gpt2 untied": gpt2(model.GPT2Config{Untied: true}),
		"gpt2 dropout": gpt2(model.GPT2Config{ResidualDropout: 0.2, EmbeddingDropout: 0.2}), fewBits: quantized,
		"llama": llama(false), "llama tied": llama(true),
	}
}

// order is a pipeline.Config of a run on some stages.
func order(t testing.TB, c state.Config, name string, stages int) pipeline.Config {
	t.Helper()
	chunks := 1
	if name == schedule.Interleaved {
		chunks = 2
	}
	return pipeline.Config{State: c, Assignment: assignment(t, c, stages, chunks), Schedule: name, Timeout: gputest.Patience}
}

// Every family of models learns the same bits, with the activations kept or computed again, wherever the stages live: on devices of their
// own, all on one, neighbours on one, and in turns on two. Each two of these meet in some run; GPUTRAIN_FULL=1 takes all, -short one for
// each family, which has each home.
func TestFamilies(t *testing.T) {
	familiesOnStages(t, func(name string) bool { return name != fewBits })
}

// A network that reads its parameters in few bits, the tied head among them, too.
func TestQuantizedNetworkOnStages(t *testing.T) {
	familiesOnStages(t, func(name string) bool { return name == fewBits })
}

const fewBits = "gpt2 in few bits"

func familiesOnStages(t *testing.T, wanted func(name string) bool) {
	devices := fleet(t, 3)
	a, b, d := devices[0], devices[1], devices[2]
	homes := map[string][]*gpu.Device{"apart": {a, b, d}, "on one": {a, a, a}, "neighbours": {a, a, b}, "in turns": {a, b, a}}
	defs := families(t)
	for f, name := range slices.Sorted(maps.Keys(defs)) {
		if !wanted(name) {
			continue
		}
		c := steep(defs[name], "adamw", `{}`, 2, 5)
		with := batches(c, 3)
		want := alone(t, a, c, with)
		moved(t, c, want)
		for h, home := range slices.Sorted(maps.Keys(homes)) {
			for o, kind := range schedule.Names() {
				for r, recompute := range model.Recomputes {
					if !full() && (o != (f+h)%3 || r != (f+h/2)%3 || testing.Short() && (f+h)%4 != 1) {
						continue
					}
					p := order(t, c, kind, 3)
					p.State.Recompute = recompute
					t.Run(fmt.Sprintf("%s/%s/%s/recompute=%s", name, kind, home, recompute), func(t *testing.T) {
						sameBits(t, want, together(t, homes[home], p, with))
					})
				}
			}
		}
	}
}

// A cut may go through a layer: then several values cross in a message, and the part that makes one may need it again itself.
func TestCutsThroughLayers(t *testing.T) {
	devices := fleet(t, 3)
	c := steep(families(t)["gpt2 dropout"], "adamw", `{}`, 2, 5)
	with := batches(c, 3)
	want := alone(t, devices[0], c, with)
	a := partition.Assignment{Stages: 3, Parts: 3, Part: map[string]int{}}
	for _, p := range c.Definition.Params() {
		switch {
		case strings.HasPrefix(p.Path, "h.1.attn.c_proj"), strings.HasPrefix(p.Path, "h.1.ln_2"), strings.HasPrefix(p.Path, "h.1.mlp"):
			a.Part[p.Path] = 1 // from behind the attention of layer 1
		case strings.HasPrefix(p.Path, "h.2.mlp.c_proj"), strings.HasPrefix(p.Path, "h.3"), strings.HasPrefix(p.Path, "ln_f"):
			a.Part[p.Path] = 2 // from behind the activation of layer 2
		case strings.HasPrefix(p.Path, "h.2"):
			a.Part[p.Path] = 1
		default:
			a.Part[p.Path] = 0
		}
	}
	for k, kind := range []string{schedule.GPipe, schedule.OneForwardOneBackward} {
		for home, devices := range map[string][]*gpu.Device{"apart": devices, "on one": slices.Repeat(devices[:1], 3)} {
			if testing.Short() && (k == 0) == (home == "apart") {
				continue // one home for each schedule
			}
			for _, recompute := range model.Recomputes[k : k+2] {
				t.Run(fmt.Sprintf("%s/%s/recompute=%s", kind, home, recompute), func(t *testing.T) {
					p := pipeline.Config{State: c, Assignment: a, Schedule: kind, Timeout: gputest.Patience}
					p.State.Recompute = recompute
					sameBits(t, want, together(t, devices, p, with))
				})
			}
		}
	}
}

// A stage that runs far ahead, and a head that sends its gradient all the way home, on one device, where nothing but the room of the links
// keeps them apart: everybody comes to the end.
func TestFarAheadOnOneDevice(t *testing.T) {
	dev := gputest.Device(t)
	for stages := 3; stages <= 4; stages++ {
		c := steep(families(t)["gpt2"], "sgd", `{}`, 1, 3*stages+2)
		p := order(t, c, schedule.OneForwardOneBackward, stages)
		p.Ahead = 2 * (stages - 1)
		with := batches(c, 2)
		sameBits(t, alone(t, dev, c, with), together(t, slices.Repeat([]*gpu.Device{dev}, stages), p, with))
	}
}

// A pipeline of one stage is one device; parts that all live there hand on to themselves.
func TestOneStage(t *testing.T) {
	dev := gputest.Device(t)
	c := steep(families(t)["gpt2"], "quad", `{"block_size":8}`, 1, 3)
	with := batches(c, 3)
	want := alone(t, dev, c, with)
	for _, name := range schedule.Names() {
		t.Run(name, func(t *testing.T) { sameBits(t, want, together(t, []*gpu.Device{dev}, order(t, c, name, 1), with)) })
	}
}

// Leaves larger than a binding lie in several pieces. Devices need not cut them alike: sums are then taken in other pieces, and what is
// learnt differs by their rounding, as between kinds of adapters.
func TestLeafLargerThanABinding(t *testing.T) {
	const vocab = 100
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: vocab, Context: 4, Untied: true})
	require.NoError(t, err)
	small, other := gputest.WithLimits(gpu.Limits{BindingBytes: 4 * 16 * 32}), gputest.WithLimits(gpu.Limits{BindingBytes: 4 * 16 * 48})
	alike := fleet(t, 2, small)
	for _, optimizer := range []string{"adamw", "muon"} {
		c := steep(def, optimizer, `{}`, 1, 3)
		with := batches(c, 3)
		want := alone(t, alike[0], c, with)
		moved(t, c, want)
		p := order(t, c, schedule.OneForwardOneBackward, 2)
		sameBits(t, want, together(t, alike, p, with))

		got := together(t, []*gpu.Device{alike[0], gputest.Device(t, other)}, p, with)
		moved(t, c, got)
		// On GPUs the head's sum of vocab exponentials in two orders: each is within vocab roundings of the true one, and so is its logarithm;
		// one rounding more is that of the loss. Only the first step begins with equal parameters.
		if alike[0].Adapter().Type == "cpu" {
			assert.Equal(t, want.metrics[0].Loss, got.metrics[0].Loss)
		}
		assert.InDelta(t, want.metrics[0].Loss, got.metrics[0].Loss, 2*vocab*0x1p-24+want.metrics[0].Loss*0x1p-24)
	}
}

// What is larger than a binding lies in parts of whole rows, and is learnt from as if it were not: activations of the feed-forward part and of
// attention, weights, and the gradient of a tied head, also where that crosses from stage to stage.
func TestActivationsLargerThanABinding(t *testing.T) {
	gputest.Long(t, "TestLeafLargerThanABinding")
	const batch, context, width, vocab, binding = 6, 4, 16, 70, 4000 // the logits of a batch fit a binding, and so are one chunk of rows in both
	gpt2, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: width, Vocab: vocab, Context: context})
	require.NoError(t, err)
	llama, err := model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 2, KVHeads: 1, Width: width, Vocab: vocab, Context: context, Intermediate: 4 * width})
	require.NoError(t, err)
	for bytes := range map[int]bool{4 * batch * context * 3 * width: true, 4 * batch * context * 4 * width: true, 4 * vocab * width: true} {
		require.Greater(t, bytes, binding)
	}
	large, small := fleet(t, 2), fleet(t, 2, gputest.WithLimits(gpu.Limits{BindingBytes: binding}))
	for _, def := range []model.Definition{gpt2, llama} {
		t.Run(def.Kind(), func(t *testing.T) {
			c := steep(def, "adamw", `{}`, batch, 2)
			with := batches(c, 2)
			moved(t, c, alone(t, large[0], c, with))
			c.Optimizer.Options.ClipGrad = nil // the norm of a leaf is a sum over each of its parts
			want := withoutNorms(alone(t, large[0], c, with))
			sameBits(t, want, withoutNorms(alone(t, small[0], c, with)))
			sameBits(t, want, withoutNorms(together(t, small, order(t, c, schedule.OneForwardOneBackward, 2), with)))
		})
	}
}

func withoutNorms(l learnt) learnt {
	for i := range l.metrics {
		l.metrics[i].GradNorm = 0
	}
	return l
}

// The gradient of a tied head crosses in one buffer: where no buffer of a device holds it, nothing is taken.
func TestTiedHeadLargerThanABuffer(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: 100, Context: 4})
	require.NoError(t, err)
	devices := fleet(t, 2, gputest.WithLimits(gpu.Limits{BufferBytes: 4 * 16 * 64}))
	_, err = pipeline.Create(t.Context(), devices, order(t, steep(def, "adamw", `{}`, 1, 3), schedule.OneForwardOneBackward, 2), nil)
	var limit *gpu.LimitError
	require.ErrorAs(t, err, &limit)
	assert.EqualValues(t, 4*16*100, limit.Bytes)
	assert.ErrorContains(t, err, "wte")
	for _, d := range devices {
		assert.Zero(t, d.Counters().LiveBytes)
	}
}

// Microbatches whose labels are all, hardly any or none at all weigh by what counts.
func TestLabelsThatDoNotCount(t *testing.T) {
	devices := fleet(t, 3)
	c := steep(families(t)["llama tied"], "adamw", `{}`, 2, 4)
	with := batches(c, 4)
	for i, b := range with {
		for j := range b.Labels {
			m := j / (2 * 4) // the microbatch
			if (m+i)%4 == 1 || (m+i)%4 == 2 && j%8 != 3 {
				b.Labels[j] = graph.IgnoreLabel
			}
		}
	}
	want := alone(t, devices[0], c, with)
	for _, name := range schedule.Names() {
		t.Run(name, func(t *testing.T) { sameBits(t, want, together(t, devices, order(t, c, name, 3), with)) })
	}
}

// A token whose embedding is not a number spoils the steps that one of its microbatches meets it in: all stages leave these updates out, alike, and go
// on with the next.
func TestUpdatesThatAreNotFinite(t *testing.T) {
	const spoilt = 11
	devices := fleet(t, 3)
	for i, name := range []string{"gpt2 untied", "llama"} {
		for j, optimizer := range []string{"adamw", "mars", "quad", "muon"} {
			if testing.Short() && !full() && (i+j)%2 == 1 {
				continue // two optimizers for each model
			}
			c := steep(families(t)[name], optimizer, `{}`, 2, 3)
			with := batches(c, 5)
			for i := range with {
				avoid(with[i], spoilt)
				if i%2 == 1 {
					with[i].Tokens[8+3] = spoilt // in the second microbatch
				}
			}
			params := model.Init(c.Definition, c.Seed)
			for _, h := range params {
				if h.Path == "wte.weight" || h.Path == "model.embed_tokens.weight" {
					h.Data[spoilt*8+2] = float32(math.NaN())
				}
			}
			job, err := state.NewJob(c)
			require.NoError(t, err)
			whole, err := state.CreateFrom(t.Context(), devices[0], job, params)
			require.NoError(t, err)
			want := learnt{learn(t, whole, with), paramsOf(t, whole)}
			whole.Release()
			for i, m := range want.metrics {
				require.Equal(t, i%2 == 0, m.Finite, "step %d", m.Step)
			}
			require.EqualValues(t, 2, want.metrics[4].Skipped)
			for o, kind := range schedule.Names() {
				if !full() && o != (i+j)%3 {
					continue
				}
				t.Run(name+"/"+optimizer+"/"+kind, func(t *testing.T) {
					s, err := pipeline.Create(t.Context(), devices, order(t, c, kind, 3), params)
					require.NoError(t, err)
					defer s.Release()
					got := learnt{metrics: learn(t, s, with)}
					got.params = readParams(t, s)
					sameBits(t, want, got)
					assert.EqualValues(t, 2, s.Skipped())
					assert.EqualValues(t, 5, s.Step())
				})
			}
		}
	}
}

// avoid replaces a token.
func avoid(b data.Batch, token int32) {
	for i, found := range b.Tokens {
		if found == token {
			b.Tokens[i] = token + 1
		}
	}
}
