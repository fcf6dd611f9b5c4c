package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// freeze are the paths of a model's parameters that begin with one of the prefixes.
func freeze(def model.Definition, prefixes ...string) (paths []string) {
	for _, p := range def.Params() {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p.Path, prefix) }) {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// frozenParts freeze the begin of a model, so that its first stage has no backward pass; a stage in the middle, and the end, through which gradients
// flow; the tied weight alone, of which another stage has a copy; single leaves; and all but the last layer and the tied weight.
var frozenParts = [][]string{
	{"wte", "wpe", "h.0.", "h.1.", "h.2."},
	{"h.2.", "h.3."},
	{"h.3.", "h.4.", "h.5.", "ln_f"},
	{"wte"},
	{"h.0.attn", "h.5.mlp.c_fc.bias", "ln_f.weight"},
	{"wpe", "h.0.", "h.1.", "h.2.", "h.3.", "h.4."},
}

// Stages learn what one device learns beside frozen parameters, whatever stage these are on, to the bytes of the checkpoint.
func TestFrozenParametersOnStages(t *testing.T) {
	devices := fleet(t, 3)
	plain := deep(t)
	quantized, err := model.WithQuantization(plain, model.Quantization{Mode: "affine", Match: []string{"weight"}})
	require.NoError(t, err)
	for o, x := range optimizers {
		if testing.Short() && !full() && o >= len(frozenParts) {
			break // one optimizer for each of the parts; TestMatrix has all on stages
		}
		for p, prefixes := range frozenParts {
			if !full() && p != o%len(frozenParts) && (testing.Short() || p != (o+3)%len(frozenParts)) {
				continue
			}
			def := plain
			if (o+p)%5 == 2 {
				def = quantized
			}
			c := steep(def, x.name, x.parameters, 1, 1+(o+p)%3)
			c.Frozen = freeze(def, prefixes...)
			if (o+p)%3 == 1 {
				c.FrozenDType = buffers.BF16
			}
			with := batches(c, 3)
			whole, err := state.Create(t.Context(), devices[0], c)
			require.NoError(t, err)
			want, files := learn(t, whole, with), saved(t, whole, filepath.Join(t.TempDir(), "one"))
			for stages := 2; stages <= len(devices); stages++ {
				if testing.Short() && !full() && stages != 2+o%2 {
					continue // one number of stages for each optimizer
				}
				order := orders[(o+p+stages)%len(orders)]
				c := c
				c.Recompute = model.Recomputes[(o+p+stages)%3]
				t.Run(fmt.Sprint(x.label, " ", prefixes, " ", stages, " ", order.label), func(t *testing.T) {
					s := create(t, devices[:stages], pipeline.Config{
						State: c, Assignment: assignment(t, c, stages, order.chunks), Schedule: order.name, Ahead: order.ahead, Timeout: gputest.Patience,
					})
					defer s.Release()
					require.Equal(t, want, learn(t, s, with))
					require.Equal(t, files, saved(t, s, filepath.Join(t.TempDir(), "many")))
				})
			}
			whole.Release()
		}
	}
}

// What a stage with frozen parameters takes is planned to the byte, evaluation and sampling too, and nothing is made after the first step. A stage
// without anything to train has no gradients and no backward pass.
func TestPlanOfFrozenStages(t *testing.T) {
	text := tokens(t, 130).Validation
	for p, prefixes := range frozenParts {
		if testing.Short() && p%5 > 1 {
			continue // three parts, which have each schedule, each recomputation and both dtypes
		}
		t.Run(fmt.Sprint(prefixes), func(t *testing.T) {
			devices := fleet(t, 3)
			c := order(t, steep(deep(t), "adamw", `{}`, 2, 4), schedule.Names()[p%3], 3)
			without := planned(t, devices, c)
			c.State.Frozen, c.State.Recompute = freeze(c.State.Definition, prefixes...), model.Recomputes[p%3]
			if p%2 == 1 {
				c.State.FrozenDType = buffers.BF16
			}
			c.State.Evaluation, c.State.Sampling = c.State.Batch, true
			plan := planned(t, devices, c)
			s := create(t, devices, c)
			defer s.Release()
			assert.Equal(t, plan, s.Memory())
			for i := range plan {
				assert.Equal(t, without[i].Params, plan[i].Params+plan[i].Frozen*uint64(32/c.State.FrozenDType.Bits()), "stage %d", i)
				assert.Equal(t, plan[i].Params, plan[i].Gradients, "stage %d", i)
			}
			if p == 0 && c.Schedule != schedule.Interleaved {
				assert.Zero(t, plan[0].Params)
				assert.Positive(t, plan[0].Frozen)
			}
			use := user(t, s, c, devices, text)
			first := use(0)
			use(1)
			for i, last := range use(2) {
				assert.Equal(t, plan[i].Total(), last.LiveBytes, "stage %d", i)
				assert.Equal(t, []uint64{first[i].Pipelines, first[i].BindGroups, first[i].Buffers}, []uint64{last.Pipelines, last.BindGroups, last.Buffers}, "stage %d", i)
			}
		})
	}
}

// A unit takes params, the gradients of what is trained, and the optimizer's state for that.
func TestUnitsOfFrozenParameters(t *testing.T) {
	c := steep(deep(t), "adamw", `{}`, 1, 1)
	memory := func() (out []uint64) {
		built, err := c.Definition.Build(1, 4, model.Options{Loss: true})
		require.NoError(t, err)
		units, err := partition.Units(built)
		require.NoError(t, err)
		job, err := state.NewJob(c)
		require.NoError(t, err)
		tx, err := job.Transform()
		require.NoError(t, err)
		require.NoError(t, partition.AddOptimizer(units, tx, 0, c.FrozenDType, model.Specs(c.Definition), gpu.DefaultLimits()))
		for _, u := range units {
			out = append(out, u.Memory-u.Bytes)
		}
		return out
	}
	whole := memory()
	c.Frozen = freeze(c.Definition, "h.0.", "h.1.ln_1")
	part := memory()
	elements := func(prefix string) (n uint64) {
		for _, s := range model.Specs(c.Definition) {
			if strings.HasPrefix(s.Path, prefix) {
				n += uint64((buffers.Leaf{Shape: s.Shape}).Elements())
			}
		}
		return n
	}
	assert.Greater(t, whole[1], 3*4*elements("h.0."), "gradients and two moments")
	assert.Less(t, part[1], uint64(8<<10), "what a state without leaves takes")
	assert.Less(t, part[1], whole[1]-3*4*elements("h.0."))
	assert.LessOrEqual(t, part[2], whole[2]-3*4*elements("h.1.ln_1"))
	for i := range whole {
		if i != 1 && i != 2 {
			assert.Equal(t, whole[i]-8*uint64(len(c.Frozen)), part[i], "eight bytes a leaf go to a norm")
		}
	}
	var frozen []buffers.Spec
	for _, s := range model.Specs(c.Definition) {
		if strings.HasPrefix(s.Path, "h.0.") {
			frozen = append(frozen, s)
		}
	}
	for _, c.FrozenDType = range []buffers.DType{buffers.BF16, buffers.NF4} {
		layout, err := buffers.NewLayoutFor(c.FrozenDType, frozen, gpu.DefaultLimits())
		require.NoError(t, err)
		f32, err := buffers.NewLayout(frozen, gpu.DefaultLimits())
		require.NoError(t, err)
		assert.Equal(t, f32.Bytes(buffers.F32)-layout.Bytes(c.FrozenDType), part[1]-memory()[1], "%v: what is frozen counts by its type", c.FrozenDType)
	}
}

// A value with frozen parameters is divided over devices, updated there, saved loaded on one device and put together again with the bits of the whole one.
func TestPlacedValueWithFrozenParameters(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(deep(t), "quad", `{"block_size":8}`, 1, 1)
	c.Frozen = freeze(c.Definition, "wpe", "h.1.", "h.4.")
	s, err := state.Create(t.Context(), devices[0], c)
	require.NoError(t, err)
	whole, err := s.Value(t.Context())
	require.NoError(t, err)
	clone, err := whole.Clone(t.Context())
	require.NoError(t, err)
	divided := placed(t, clone, devices, []partition.Rule{{Match: `^w|^h\.[0-2]\.`, Stage: 0}, {Match: `^h\.[3-5]\.|^ln_f`, Stage: 1}})
	f, err := divided.Fields()
	require.NoError(t, err)
	var all []buffers.Host
	grads := make([]*buffers.Tree, len(f.Stages))
	for i, st := range f.Stages {
		require.NotNil(t, st.Frozen, "stage %d", i)
		var own []buffers.Host
		for _, h := range model.Init(c.Definition, 9) {
			if _, ok := st.Params.Layout().Leaf(h.Path); ok {
				own = append(own, h)
			}
		}
		grads[i], err = buffers.Upload(devices[i], "grads", own, buffers.F32)
		require.NoError(t, err)
		all = append(all, own...)
	}
	together, err := buffers.Upload(devices[0], "grads", all, buffers.F32)
	require.NoError(t, err)
	for range 2 {
		whole, err = whole.ApplyGradients(t.Context(), together)
		require.NoError(t, err)
		divided, err = divided.ApplyGradients(t.Context(), grads...)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, whole.Save(t.Context(), at("whole"), state.SaveOptions{}))
	require.NoError(t, divided.Save(t.Context(), at("placed"), state.SaveOptions{}))
	loaded, _, err := state.LoadValue(t.Context(), devices[0], at("placed"), state.LoadOptions{})
	require.NoError(t, err)
	require.NoError(t, loaded.Save(t.Context(), at("loaded"), state.SaveOptions{}))
	loaded.Release()
	gathered, err := divided.Place(t.Context(), state.Placement{Devices: devices[1:2]})
	require.NoError(t, err)
	require.NoError(t, gathered.Save(t.Context(), at("gathered"), state.SaveOptions{}))
	for _, name := range []string{"model.safetensors", "optimizer.safetensors", "state.json"} {
		want, err := os.ReadFile(filepath.Join(at("whole"), name))
		require.NoError(t, err)
		for _, other := range []string{"placed", "loaded", "gathered"} {
			got, err := os.ReadFile(filepath.Join(at(other), name))
			require.NoError(t, err)
			assert.True(t, string(want) == string(got), "%s of %s", name, other)
		}
	}
	whole.Release()
	gathered.Release()
	for _, tree := range append(grads, together) {
		tree.Release()
	}
}
