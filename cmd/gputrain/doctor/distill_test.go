package doctor

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
)

func openDistill(t *testing.T) (*goldenCase, *distillCase) {
	return opened(t, "distill", "distill_llama_jsd", loadDistill)
}

// TestDistillFollowsItsCase has the case in float64, and what it must catch.
func TestDistillFollowsItsCase(t *testing.T) {
	for _, row := range []struct {
		what  string
		spoil func(d *distillCase)
	}{
		{"", func(*distillCase) {}},
		{"another beta", func(d *distillCase) { d.learned.Numbers["beta"] = 0.49 }},
		{"forward", func(d *distillCase) { d.learned.Numbers["beta"] = 0 }},
		{"no temperature", func(d *distillCase) { d.learned.Numbers["temperature"] = 1 }},
		{"the prompt's tokens", func(d *distillCase) {
			for i, r := range d.rows {
				if len(r.Prompt) > 1 {
					d.rows[i] = completion{r.Prompt[:1], append(append([]int32{}, r.Prompt[1:]...), r.Completion...)}
				}
			}
		}},
		{"another teacher", func(d *distillCase) {
			for _, h := range d.frozen {
				if h.Path == model.TeacherPrefix+"model.norm.weight" {
					h.Data[3] *= 1.1
				}
			}
		}},
		{"an nll", func(d *distillCase) { d.Metrics[1]["nll"][0] += 0.001 }},
		{"a count", func(d *distillCase) { d.Metrics[2]["tokens"][0]++ }},
	} {
		t.Run(row.what, func(t *testing.T) {
			c, d := openDistill(t)
			row.spoil(d)
			seen, err := d.train(c, newTwinModel(t, &d.modelCase))
			require.NoError(t, err)
			assertPassed(t, row.what == "", seen)
		})
	}
}

// TestDistillOfLists has a teacher's lists on a device and on two stages as in float64.
func TestDistillOfLists(t *testing.T) {
	devices := gputest.Several(t, 2)
	_, d := openDistill(t)
	d.initial, d.frozen = nil, nil // the student alone
	require.NoError(t, d.readAdapter(folder(filepath.Join(families, "distill", "distill_llama_jsd"))))
	const k = 5
	for _, o := range []struct {
		beta   float64
		bucket bool
	}{{0, true}, {0, false}, {0.3, true}, {1, true}} {
		d.learned.Numbers["beta"], d.learned.Numbers["top_k"] = o.beta, k
		b := d.laid(1)
		b.Beside = model.TeacherInputs(len(b.Labels), k)
		for row := range b.Rows {
			first := row * d.SeqLen
			var l model.TeacherList
			for i, label := range b.Labels[first : first+d.SeqLen] {
				if label != graph.IgnoreLabel {
					id := int32(3*i + 7*row)
					l.IDs = append(l.IDs, []int32{id % 64, (id + 11) % 64, (id + 1) % 64, (id + 40) % 64, (id + 23) % 64})
					l.LogProbs = append(l.LogProbs, []float64{-0.9, -1.8, -2.5, -3, -3.1})
				}
			}
			require.NoError(t, l.Fill(b.Beside, first, b.Labels[first:first+d.SeqLen], 64, o.bucket))
		}
		twin := newTwinModel(t, &d.modelCase)
		want, err := twin.learn(b)
		require.NoError(t, err)
		wanted, err := twin.gradients()
		require.NoError(t, err)
		for stages := 1; stages <= 2; stages++ {
			run, err := newModelRun(t.Context(), devices[:stages], &d.modelCase)
			require.NoError(t, err)
			found, err := run.learn(b)
			require.NoError(t, err)
			assert.InEpsilon(t, want["loss"][0], found["loss"][0], 1e-5)
			grads, err := run.gradients()
			require.NoError(t, err)
			seen := &comparison{}
			seen.leaves("grads", grads, wanted, tolerance{RTol: 1e-4, ATolRelMax: 1e-4})
			assert.False(t, seen.failed, seen.where)
			run.release()
		}
	}
}
