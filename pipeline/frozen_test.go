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
	"gputrain/checkpoint"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/schedule"
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
		for p, prefixes := range frozenParts {
			if !full() && p != o%len(frozenParts) && p != (o+3)%len(frozenParts) {
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
				order := orders[(o+p+stages)%len(orders)]
				t.Run(fmt.Sprint(x.label, " ", prefixes, " ", stages, " ", order.label), func(t *testing.T) {
					s := create(t, devices[:stages], pipeline.Config{
						State: c, Assignment: assignment(t, c, stages, order.chunks), Schedule: order.name, Ahead: order.ahead, Timeout: gputest.Patience,
						Recompute: (o+p)%2 == 1,
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
		t.Run(fmt.Sprint(prefixes), func(t *testing.T) {
			devices := fleet(t, 3)
			c := order(t, steep(deep(t), "adamw", `{}`, 2, 4), schedule.Names()[p%3], 3)
			without := planned(t, devices, c)
			c.State.Frozen, c.Recompute = freeze(c.State.Definition, prefixes...), p == 1
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
			e, err := data.NewEvaluation(text, 4, c.State.Evaluation, 0)
			require.NoError(t, err)
			dir := t.TempDir()
			use := func(step int) (now []gpu.Counters) {
				learn(t, s, []data.Batch{batch(c.State, step)})
				_, err = s.Evaluate(t.Context(), e)
				require.NoError(t, err)
				_, err = s.Logits(t.Context(), []int32{3, 1})
				require.NoError(t, err)
				_, err = s.Decode(t.Context(), 2)
				require.NoError(t, err)
				require.NoError(t, s.Save(t.Context(), filepath.Join(dir, checkpoint.DirName(s.Step())), checkpoint.Run{}))
				for _, d := range devices {
					now = append(now, d.Counters())
				}
				return now
			}
			first := use(0)
			use(1)
			for i, last := range use(2) {
				assert.Equal(t, plan[i].Total(), last.LiveBytes, "stage %d", i)
				assert.Equal(t, []uint64{first[i].Pipelines, first[i].BindGroups, first[i].Buffers}, []uint64{last.Pipelines, last.BindGroups, last.Buffers}, "stage %d", i)
			}
		})
	}
}
