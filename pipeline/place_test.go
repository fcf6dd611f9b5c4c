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
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// placeable has equal shapes that lie apart, a leaf that is split over slabs, and leaves of one element and none.
var placeable = []buffers.Spec{
	{Path: "a.weight", Shape: []int{40, 33}},
	{Path: "b.bias", Shape: []int{130}},
	{Path: "d.scale"},
	{Path: "e.empty", Shape: []int{0, 3}},
	{Path: "f.weight", Shape: []int{40, 33}},
	{Path: "g.tall", Shape: []int{250, 9}},
	{Path: "h.four", Shape: []int{2, 3, 4, 5}},
}

// smallBindings make several slabs of them.
var smallBindings = gputest.WithLimits(gpu.Limits{BindingBytes: 8 << 10, Workgroups: 9})

func severalDevices(t *testing.T, n int) (devices []*gpu.Device) {
	for range n {
		devices = append(devices, gputest.Device(t, smallBindings))
	}
	return devices
}

// dividing are rules that put leaf i of placeable on the stage of its digit, and what is no parameter on the last stage.
func dividing(digits string, last int) []partition.Rule {
	rules := []partition.Rule{{Match: "^running/", Stage: last}}
	for i, s := range placeable {
		rules = append(rules, partition.Rule{Match: "^" + regexp.QuoteMeta(s.Path) + "$", Stage: int(digits[i] - '0')})
	}
	return rules
}

func normal(r *rand.Rand, scale float64) (hosts []buffers.Host) {
	for _, s := range placeable {
		h := buffers.Host{Path: s.Path, Shape: s.Shape, Data: make([]float32, buffers.Leaf{Shape: s.Shape}.Elements())}
		for i := range h.Data {
			h.Data[i] = float32(scale * r.NormFloat64())
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// newPlaceable is a value of placeable that has made some updates, and their gradients' tree.
func newPlaceable(t *testing.T, dev *gpu.Device, c optim.Config, updates int) (state.Value, *buffers.Tree) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	params, err := buffers.Upload(dev, "params", normal(r, 0.3), buffers.F32)
	require.NoError(t, err)
	other, err := buffers.Upload(dev, "other", []buffers.Host{{Path: "running/mean", Shape: []int{3}, Data: []float32{1, 2, 3}}, {Path: "running/var", Shape: []int{2}, Data: []float32{4, 5}}}, buffers.BF16)
	require.NoError(t, err)
	v, err := state.New(state.Fields{Params: params, Other: other, Optimizer: c, InitOptimizer: true})
	require.NoError(t, err)
	grads, err := buffers.Upload(dev, "grads", normal(r, 0.2), buffers.F32)
	require.NoError(t, err)
	t.Cleanup(grads.Release)
	for range updates {
		v, err = v.ApplyGradients(t.Context(), grads)
		require.NoError(t, err)
	}
	return v, grads
}

// placed is a value where rules put it.
func placed(t *testing.T, v state.Value, devices []*gpu.Device, rules []partition.Rule) state.Value {
	t.Helper()
	p, err := pipeline.PlacementByRules(v, devices, rules)
	require.NoError(t, err)
	v, err = v.Place(t.Context(), p)
	require.NoError(t, err)
	return v
}

// stagesOf are the params of a divided value's stages.
func stagesOf(t *testing.T, v state.Value) (params []*buffers.Tree) {
	t.Helper()
	f, err := v.Fields()
	require.NoError(t, err)
	for _, r := range f.Stages {
		params = append(params, r.Params)
	}
	return params
}

// savedFiles are the bytes of a value's checkpoint.
func savedFiles(t *testing.T, v state.Value) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, v.Save(t.Context(), dir, state.SaveOptions{}))
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
	for o, row := range optimizers {
		t.Run(row.label, func(t *testing.T) {
			for i, digits := range []string{"2021012", "1101111"} {
				if testing.Short() && i != o%2 {
					continue // one division for each optimizer
				}
				devices := severalDevices(t, 3-i)
				clip := 0.5
				c := optim.Config{Name: row.name, Parameters: []byte(row.parameters), Options: optim.Options{
					Schedule: optim.ScheduleConfig{LearningRate: 1e-2}, ClipGrad: &clip, WeightDecay: 0.01, WeightDecayMask: optim.MaskMatrices(), AccumulationSteps: 1 + i,
				}}
				v, grads := newPlaceable(t, devices[0], c, 3)
				whole, err := v.Clone(t.Context())
				require.NoError(t, err)
				savedFiles(t, v) // from here on there is a buffer to read through
				before := devices[0].Counters().LiveBytes
				p := placed(t, v, devices, dividing(digits, len(devices)-1))
				_, err = v.Fields()
				require.ErrorIs(t, err, state.ErrSpent)
				assert.Less(t, devices[0].Counters().LiveBytes, before, "what the value took is given back")

				g, err := state.New(state.Fields{Params: grads})
				require.NoError(t, err)
				g, err = g.Clone(t.Context())
				require.NoError(t, err)
				pieces := placed(t, g, devices, dividing(digits, 0)[1:])
				defer pieces.Release()
				for range 3 {
					whole, err = whole.ApplyGradients(t.Context(), grads)
					require.NoError(t, err)
					p, err = p.ApplyGradients(t.Context(), stagesOf(t, pieces)...)
					require.NoError(t, err)
				}
				want := savedFiles(t, whole)
				require.Equal(t, want, savedFiles(t, p), digits)
				copied, err := p.Clone(t.Context())
				require.NoError(t, err)
				require.Equal(t, want, savedFiles(t, copied), digits)
				again, err := p.Place(t.Context(), state.Placement{Devices: devices[1:2]})
				require.NoError(t, err)
				require.Equal(t, want, savedFiles(t, again), digits)
				f, err := again.Fields()
				require.NoError(t, err)
				assert.Same(t, devices[1], f.Params.Device())
				assert.Equal(t, []int64{6, 3}[i], f.Step)
				for _, v := range []state.Value{again, copied, whole} {
					v.Release()
				}
			}
		})
	}
}

// Rules that do not divide a value are refused, and the value is as it was.
func TestPlacementByRulesRefuses(t *testing.T) {
	devices := severalDevices(t, 2)
	v, _ := newPlaceable(t, devices[0], optim.Config{Name: "adamw"}, 0)
	defer v.Release()
	rules := dividing("0000011", 1)
	before := devices[0].Counters().LiveBytes
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
			p, err := pipeline.PlacementByRules(v, devices, test.rules)
			if err == nil {
				_, err = v.Place(t.Context(), p)
			}
			require.ErrorContains(t, err, test.text)
			assert.Equal(t, before, devices[0].Counters().LiveBytes)
			_, err = v.Fields()
			require.NoError(t, err, "after an error it is as it was")
		})
	}
	_, err := pipeline.PlacementByRules(state.Value{}, devices, rules)
	require.ErrorIs(t, err, state.ErrSpent)
}

// Devices of several makes: what is placed on them and gathered has every bit.
func TestPlaceOnSeveralMakes(t *testing.T) {
	devices := gputest.Mixed(t)[:2]
	v, _ := newPlaceable(t, devices[0], optim.Config{Name: "skew", Parameters: []byte(`{"block_size":16,"max_size_dense":100}`), Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-2}}}, 2)
	want := savedFiles(t, v)
	v, err := placed(t, v, devices, dividing("0000011", 1)).Place(t.Context(), state.Placement{Devices: devices[:1]})
	require.NoError(t, err)
	require.Equal(t, want, savedFiles(t, v))
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
