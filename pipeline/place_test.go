package pipeline_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// dividing are rules that put the leaves of stageLocalModel as a division says, and what is no parameter on the last stage.
func dividing(division []int, last int) []partition.Rule {
	rules := []partition.Rule{{Match: "^running/", Stage: last}}
	for i, s := range stageLocalModel {
		rules = append(rules, partition.Rule{Match: "^" + regexp.QuoteMeta(s.Path) + "$", Stage: division[i]})
	}
	return rules
}

// newPlaceable is a value of stageLocalModel that has made some updates, and their gradients' tree.
func newPlaceable(t *testing.T, dev *gpu.Device, c optim.Config, updates int) (state.Value, *buffers.Tree) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	params, err := buffers.Upload(dev, "params", draw(r, 0.3), buffers.F32)
	require.NoError(t, err)
	other, err := buffers.Upload(dev, "other", []buffers.Host{{Path: "running/mean", Shape: []int{3}, Data: []float32{1, 2, 3}}, {Path: "running/var", Shape: []int{2}, Data: []float32{4, 5}}}, buffers.BF16)
	require.NoError(t, err)
	v, err := state.New(state.Fields{Params: params, Other: other, Optimizer: c, InitOptimizer: true})
	require.NoError(t, err)
	grads, err := buffers.Upload(dev, "grads", draw(r, 0.2), buffers.F32)
	require.NoError(t, err)
	t.Cleanup(grads.Release)
	for range updates {
		v, err = v.ApplyGradients(t.Context(), grads)
		require.NoError(t, err)
	}
	return v, grads
}

// savedFiles are the bytes of what save writes.
func savedFiles(t *testing.T, save func(dir string) error) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, save(dir))
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(raw)
	}
	return out
}

// A value that is divided in the middle of its updates, goes on where it lies and is put together again has every bit of one that never was,
// and so have its files, on the way and at the end.
func TestPlacedIsTheWholeValue(t *testing.T) {
	eachStageLocalOptimizer(t, func(t *testing.T, name string, parameters [2]string) {
		for i, division := range []string{"three, mixed", "one leaf of one"} {
			devices := several(t, 3)
			clip := 0.5
			c := optim.Config{Name: name, Parameters: []byte(parameters[i]), Options: optim.Options{
				Schedule: optim.ScheduleConfig{LearningRate: 1e-2}, ClipGrad: &clip, WeightDecay: 0.01, WeightDecayMask: optim.MaskMatrices(), AccumulationSteps: 1 + i,
			}}
			v, grads := newPlaceable(t, devices[0], c, 3)
			whole, err := v.Clone(t.Context())
			require.NoError(t, err)
			stages := devices[:1+max(1, 2-i)]
			savedFiles(t, func(dir string) error { return v.Save(t.Context(), dir, state.SaveOptions{}) }) // from here on there is a buffer to read through
			before := devices[0].Counters().LiveBytes
			p, err := pipeline.Place(t.Context(), v, stages, dividing(divisions[division], len(stages)-1))
			require.NoError(t, err)
			_, err = v.Fields()
			require.ErrorIs(t, err, state.ErrSpent)
			assert.Less(t, devices[0].Counters().LiveBytes, before, "what the value took is given back")

			residents, err := p.Stages()
			require.NoError(t, err)
			var pieces []*buffers.Tree
			for _, r := range residents {
				var paths []string
				for _, leaf := range r.Params.Layout().Leaves() {
					paths = append(paths, leaf.Path)
				}
				tree, err := state.CopyTree(t.Context(), r.Params.Device(), []*buffers.Tree{grads}, paths...)
				require.NoError(t, err)
				t.Cleanup(tree.Release)
				pieces = append(pieces, tree)
			}
			for range 3 {
				whole, err = whole.ApplyGradients(t.Context(), grads)
				require.NoError(t, err)
				p, err = p.ApplyGradients(t.Context(), pieces)
				require.NoError(t, err)
			}
			want := savedFiles(t, func(dir string) error { return whole.Save(t.Context(), dir, state.SaveOptions{}) })
			require.Equal(t, want, savedFiles(t, func(dir string) error { return p.Save(t.Context(), dir, state.SaveOptions{}) }), division)
			again, err := p.Gather(t.Context(), devices[1])
			require.NoError(t, err)
			require.Equal(t, want, savedFiles(t, func(dir string) error { return again.Save(t.Context(), dir, state.SaveOptions{}) }), division)
			f, err := again.Fields()
			require.NoError(t, err)
			assert.Same(t, devices[1], f.Params.Device())
			assert.Equal(t, []int64{6, 3}[i], f.Step)
			again.Release()
			whole.Release()
		}
	})
}

func TestPlaceErrors(t *testing.T) {
	devices := several(t, 2)
	adamw := optim.Config{Name: "adamw"}
	rules := dividing(divisions["two, uneven"], 1)
	for name, test := range map[string]struct {
		rules []partition.Rule
		text  string
	}{
		"a leaf without":    {rules[:len(rules)-1], `parameter "h.four": no pattern matches it`},
		"other without":     {rules[1:], `parameter "running/mean": no pattern matches it`},
		"a stage too many":  {append([]partition.Rule{{Match: "nothing", Stage: 2}}, rules...), "found stage 2, wanted 0 to 1"},
		"matches nothing":   {append([]partition.Rule{{Match: "^zz", Stage: 1}}, rules...), `pattern "^zz" matches no parameter`},
		"two stages":        {append([]partition.Rule{{Match: "a.weight", Stage: 1}}, rules...), "wanted one stage"},
		"an empty stage":    {[]partition.Rule{{Match: ".", Stage: 0}}, "stage 1 has no parameters"},
		"only other for it": {[]partition.Rule{{Match: "^[^r]", Stage: 0}, {Match: "^running", Stage: 1}}, "stage 1 has no parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newPlaceable(t, devices[0], adamw, 0)
			defer func() { v.Release() }()
			before := devices[0].Counters().LiveBytes
			_, err := pipeline.Place(t.Context(), v, devices, test.rules)
			require.ErrorContains(t, err, test.text)
			assert.Equal(t, before, devices[0].Counters().LiveBytes)
			_, err = v.Fields()
			require.NoError(t, err, "after an error it is as it was")
		})
	}
	v, _ := newPlaceable(t, devices[0], adamw, 0)
	p, err := pipeline.Place(t.Context(), v, devices, rules)
	require.NoError(t, err)
	_, err = p.ApplyGradients(t.Context(), make([]*buffers.Tree, 1))
	require.ErrorContains(t, err, "found 1 trees, wanted one for each of 2 stages")

	// Another one to lie as the first does.
	second, _ := newPlaceable(t, devices[1], adamw, 0)
	like, err := pipeline.PlaceLike(t.Context(), second, p)
	require.NoError(t, err)
	want, err := p.Placement()
	require.NoError(t, err)
	got, err := like.Placement()
	require.NoError(t, err)
	assert.Equal(t, want.Stage, got.Stage)
	assert.Equal(t, 1, got.Stage["running/var"])
	assert.Equal(t, 0, got.Stage["a.weight"])
	params, optimizer, other := p.Size()
	assert.Positive(t, params*optimizer*other)
	assert.Contains(t, p.String(), "value at step 0 on 2 stages, params")
	narrow, err := buffers.Upload(devices[0], "params", []buffers.Host{{Path: "z", Shape: []int{1}, Data: []float32{1}}}, buffers.F32)
	require.NoError(t, err)
	third, err := state.New(state.Fields{Params: narrow})
	require.NoError(t, err)
	_, err = pipeline.PlaceLike(t.Context(), third, p)
	require.ErrorContains(t, err, `leaf "z": found no stage`)
	third.Release()
	like.Release()

	_, err = p.Gather(t.Context(), nil)
	require.ErrorContains(t, err, "device: found none")
	fourth, _ := newPlaceable(t, devices[0], adamw, 0)
	for want, list := range map[string][]*gpu.Device{"devices: found none": nil, "device of stage 1: found none": {devices[0], nil}} {
		_, err = pipeline.Place(t.Context(), fourth, list, rules)
		require.ErrorContains(t, err, want)
	}
	fourth.Release()

	next, err := p.ApplyGradients(t.Context(), make([]*buffers.Tree, 2))
	require.NoError(t, err, "absent gradients are zero")
	for _, spent := range []pipeline.Placed{p, {}} {
		_, err = spent.ApplyGradients(t.Context(), nil)
		require.ErrorIs(t, err, state.ErrSpent)
		_, err = spent.Gather(t.Context(), devices[0])
		require.ErrorIs(t, err, state.ErrSpent)
		_, err = spent.Placement()
		require.ErrorIs(t, err, state.ErrSpent)
		_, err = spent.Stages()
		require.ErrorIs(t, err, state.ErrSpent)
		_, err = spent.Step()
		require.ErrorIs(t, err, state.ErrSpent)
		require.ErrorIs(t, spent.Save(t.Context(), t.TempDir()+"/x", state.SaveOptions{}), state.ErrSpent)
		assert.Contains(t, spent.String(), "spent")
		spent.Release()
	}
	step, err := next.Step()
	require.NoError(t, err)
	assert.EqualValues(t, 1, step)
	next.Release()
}

// Devices of several makes: what is placed on them and gathered has every bit.
func TestPlaceOnSeveralMakes(t *testing.T) {
	devices := gputest.Mixed(t)[:2]
	v, _ := newPlaceable(t, devices[0], optim.Config{Name: "skew", Parameters: []byte(`{"block_size":16,"max_size_dense":100}`), Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-2}}}, 2)
	save := func(v state.Value) map[string]string {
		return savedFiles(t, func(dir string) error { return v.Save(t.Context(), dir, state.SaveOptions{}) })
	}
	want := save(v)
	p, err := pipeline.Place(t.Context(), v, devices, dividing(divisions["two, uneven"], 1))
	require.NoError(t, err)
	v, err = p.Gather(t.Context(), devices[0])
	require.NoError(t, err)
	require.Equal(t, want, save(v))
	v.Release()
}

// A run on stages has no place for variables without gradients, and does not lose them in silence.
func TestLoadOfOtherVariables(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(families(t)["gpt2"], "adamw", "{}", 1, 1)
	params, err := buffers.Upload(devices[0], "params", model.Init(c.Definition, 1), buffers.F32)
	require.NoError(t, err)
	other, err := buffers.Upload(devices[0], "other", []buffers.Host{{Path: "mean", Shape: []int{1}, Data: []float32{1}}}, buffers.F32)
	require.NoError(t, err)
	v, err := state.New(state.Fields{Definition: c.Definition, Params: params, Other: other, Optimizer: c.Optimizer, InitOptimizer: true})
	require.NoError(t, err)
	defer v.Release()
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, v.Save(t.Context(), dir, state.SaveOptions{}))
	_, _, err = pipeline.Load(t.Context(), devices, pipeline.Config{State: c}, dir)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	require.ErrorContains(t, err, "variables without gradients")
}
