package tests

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// The default model: B sequences of T tokens, V tokens in the vocabulary.
const defaultLayers, defaultB, defaultT, defaultV = 4, 8, 128, 256

// The dispatches of a step of the default model. Who fuses more, or less, changes them here.
const (
	// Forwards: 2 norms, 4 products, attention, and the biases: alone, with the activation, and twice with the residual. Backwards: 2 norms,
	// 4 products for what goes further back, 4 for weights, 2 of attention, the activation, 2 additions to the residual; and the sums over
	// rows, in two dispatches each, for 4 biases and twice gamma and beta.
	dispatchesOfLayer = (2 + 4 + 1 + 4) + (2 + 4 + 4 + 2 + 1 + 2 + 2*(4+2*2))
	// Tokens, positions, the last norm; logits, their loss and its gradient in place, the two products from there, the sum of the losses; the
	// last norm's gradient with gamma and beta, and those of positions and tokens.
	dispatchesOfRest = 3 + (1 + 2 + 2 + 1) + (1 + 2*2 + 1 + 1)
	// On a GPU products do what follows them: a bias, with the activation, with the residual; backwards the activation. So do the norms' gradients: the
	// additions to the residual, and of the sums for gamma and beta all but one dispatch. The products for weights make the sums for biases.
	joinedOfLayerOnGPU, joinedOfRestOnGPU = 4 + 1 + 2 + 2*3 + 2*4, 3
	// Where products are cut into slices of K, which fill a GPU, the sums of these: in a layer of one product forwards, one backwards (on a GPU
	// two) and the four for weights, in the rest of one.
	slicesOfLayer, slicesOfLayerOnGPU, slicesOfRest = 6, 7, 1
	// The sums of squares of groups in each of 1 slab, of each leaf, their total, what it is held to, and one update of each slab.
	dispatchesOfAdamW = 1 + 1 + 1 + 1 + 1
)

// TestDispatchesElsewhere counts those of forward and backward on the adapters that are not here.
func TestDispatchesElsewhere(t *testing.T) {
	t.Parallel()
	def, err := model.NewGPT2(model.GPT2Config{Layers: defaultLayers, Heads: 4, Width: 128, Vocab: defaultV, Context: defaultT})
	require.NoError(t, err)
	built, err := def.Build(defaultB, defaultT, model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	require.NoError(t, err)
	targets := []compile.Target{{Name: "loss", Value: built.LossSum}}
	for i, p := range def.Params() {
		targets = append(targets, compile.Target{Value: grads[i], Leaf: p.Path})
	}
	for software, more := range map[bool][2]int{
		false: {slicesOfLayerOnGPU - joinedOfLayerOnGPU, slicesOfRest - joinedOfRestOnGPU}, true: {slicesOfLayer, slicesOfRest},
	} {
		limits := gpu.DefaultLimits()
		limits.Software = software
		plan, err := compile.PlanNarrow(t.Context(), built.Graph, targets, nil, nil, limits)
		require.NoError(t, err)
		assert.Equal(t, defaultLayers*(dispatchesOfLayer+more[0])+dispatchesOfRest+more[1], plan.Dispatches, "software %v", software)
	}
}

// defaultState is the training state of the built-in default run, with more of these where a test wants it.
func defaultState(t *testing.T, dev *gpu.Device, layers, accumulate int) *state.TrainState {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: layers, Heads: 4, Width: 128, Vocab: defaultV, Context: defaultT})
	require.NoError(t, err)
	clip := 1.0
	s, err := state.Create(t.Context(), dev, state.Config{
		Definition: def, Batch: defaultB, Microbatches: accumulate, Seed: 42,
		Optimizer: optim.Config{Name: "adamw", Options: optim.Options{
			Schedule: optim.ScheduleConfig{Type: "cosine", LearningRate: 3e-3, LearningRateEnd: new(3e-4), WarmupSteps: 50, Steps: 600},
			ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: optim.MaskMatrices(),
		}},
	})
	require.NoError(t, err)
	t.Cleanup(s.Release)
	return s
}

func defaultBatch(accumulate int) data.Batch {
	n := defaultB * accumulate * defaultT
	b := data.Batch{Rows: defaultB * accumulate, Count: n}
	for i := range n {
		b.Tokens = append(b.Tokens, int32(i*31%defaultV))
		b.Labels = append(b.Labels, int32((i*31+31)%defaultV))
	}
	return b
}

// work is what the device has been asked for between two moments.
func work(before, after gpu.Counters) gpu.Counters {
	return gpu.Counters{
		Pipelines: after.Pipelines - before.Pipelines, BindGroups: after.BindGroups - before.BindGroups, Buffers: after.Buffers - before.Buffers,
		Dispatches: after.Dispatches - before.Dispatches, Submits: after.Submits - before.Submits, Readbacks: after.Readbacks - before.Readbacks,
		WrittenBytes: after.WrittenBytes - before.WrittenBytes, ReadBytes: after.ReadBytes - before.ReadBytes,
		Refreshes: after.Refreshes - before.Refreshes, RefreshedBytes: after.RefreshedBytes - before.RefreshedBytes,
	}
}

// A step of the default model, after the first, makes nothing on the device and asks for exactly this much.
func TestStepOfTheDefaultModel(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestDispatchesElsewhere counts without a device")
	layers := uint64(defaultLayers)
	for _, c := range []struct {
		layers, accumulate uint64
		texels             gpu.TexelUse
	}{{layers, 1, gpu.TexelsAll}, {layers / 2, 2, gpu.TexelsOff}} {
		t.Run(fmt.Sprintf("%d layers, accumulate %d, texels %s", c.layers, c.accumulate, c.texels), func(t *testing.T) {
			accumulate := c.accumulate
			adapter := gputest.Adapters(t)[0].Limits
			texels := adapter.TexelBindings > 0
			dev := gputest.Device(t, func(o *gpu.Options) {
				if texels {
					o.Texels = c.texels
				}
			})
			s := defaultState(t, dev, int(c.layers), int(accumulate))
			require.Len(t, s.Params().Layout().Slabs(), 1)
			batch := defaultBatch(int(accumulate))
			// Results are read as soon as they are there, beside the steps; so each step here waits for its own.
			step := func() gpu.Counters {
				before := dev.Counters()
				late, err := s.TrainStep(t.Context(), batch)
				require.NoError(t, err)
				assert.Empty(t, late, "no step waits for its metrics")
				read, err := s.Drain(t.Context())
				require.NoError(t, err)
				assert.Len(t, read, 1)
				after := dev.Counters()
				assert.Equal(t, before.LiveBytes, after.LiveBytes)
				assert.Equal(t, before.LiveBuffers, after.LiveBuffers)
				return work(before, after)
			}
			first := step()
			assert.Zero(t, first.Pipelines+first.BindGroups+first.Buffers, "all is made before the first step")
			layer, rest := uint64(dispatchesOfLayer), uint64(dispatchesOfRest)
			switch {
			case !adapter.Software:
				layer, rest = layer+slicesOfLayerOnGPU-joinedOfLayerOnGPU, rest+slicesOfRest
			case !texels:
				layer, rest = layer+slicesOfLayer, rest+slicesOfRest
			}
			assert.Equal(t, texels && c.texels == gpu.TexelsAll, first.Refreshes > 0)
			want := gpu.Counters{
				Dispatches: accumulate*(c.layers*layer+rest) + accumulate - 1 + dispatchesOfAdamW, // behind the second batch the sum of two
				Refreshes:  first.Refreshes, RefreshedBytes: first.RefreshedBytes,                 // as many in every step
				Submits:   accumulate, // one a batch
				Readbacks: 1,          // loss and norm, together
				// In: tokens and labels of B x T; for the gradient of the embedding, the places of the tokens in the order of their ids, B x T, and
				// where each of V ids begins there, V+1; the scale of the loss, 1; each of 4 bytes an element and up to 16 in all. Once a step, 128
				// bytes of scalars for the optimizer.
				WrittenBytes: accumulate*(3*4*defaultB*defaultT+4*(defaultV+4)+16) + 128,
				// Out: a loss for each batch, 4 bytes, up to 16; the optimizer's statistics, 16.
				ReadBytes: 16 + 16,
			}
			for range 3 {
				assert.Equal(t, want, step())
			}
			// The staging buffer that saving takes is planned too.
			require.NoError(t, s.Save(t.Context(), filepath.Join(t.TempDir(), checkpoint.DirName(s.Step())), checkpoint.Run{}))
			assert.InEpsilon(t, s.Memory()[0].Total(), dev.Counters().LiveBytes, 0.05, "planned and taken: %v", s.Memory()[0])
		})
	}
}
