package pipeline_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
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
