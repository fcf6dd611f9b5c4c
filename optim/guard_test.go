package optim_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
)

// guardCall is a call on which something may be wrong.
type guardCall struct {
	name   string
	limits optim.Limits
	losses []float64
	grad   float64 // added to one element
	want   optim.Statistics
}

// guardCalls have norms of the gradient near 18.5, and of the update below 1 (see guardedChains).
func guardCalls() []guardCall {
	nan := math.NaN()
	return []guardCall{
		{name: "no limits", losses: []float64{2, 3}},
		{name: "within", limits: optim.Limits{Loss: 5.5, GradNorm: 1e3, UpdateNorm: 1e3}, losses: []float64{2, 3}},
		{name: "loss", limits: optim.Limits{Loss: 4.5, GradNorm: 1e3}, losses: []float64{2, 3}, want: optim.Statistics{Spikes: optim.SpikeLoss}},
		{name: "norm", limits: optim.Limits{Loss: 5.5, GradNorm: 1e3}, losses: []float64{2, 3}, grad: 2e3, want: optim.Statistics{Spikes: optim.SpikeGradNorm}},
		{name: "update", limits: optim.Limits{GradNorm: 1e3, UpdateNorm: 1e-6}, losses: []float64{2, 3}, want: optim.Statistics{Spikes: optim.SpikeUpdateNorm}},
		{name: "none again", limits: optim.Limits{Loss: math.Inf(1), GradNorm: math.Inf(1), UpdateNorm: math.Inf(1)}, losses: []float64{2e9, 3}},
		{name: "loss not a number", losses: []float64{2, nan}, want: optim.Statistics{NonFinite: true}},
		{name: "loss infinite", limits: optim.Limits{Loss: 9}, losses: []float64{math.Inf(1), 1}, want: optim.Statistics{NonFinite: true}},
		{
			name: "gradient not a number", limits: optim.Limits{Loss: 4}, losses: []float64{2, 3}, grad: nan,
			want: optim.Statistics{NonFinite: true, Spikes: optim.SpikeLoss},
		},
		{name: "within again", limits: optim.Limits{Loss: 5.5, GradNorm: 1e3, UpdateNorm: 1e3}, losses: []float64{2, 3}},
	}
}

// guardedChains end in updates of small norm, one after an operator.
func guardedChains() map[string]optim.Transform {
	rate := optim.ScaleByLearningRate(optim.Constant(1e-4))
	factored := optim.ScaleByFactoredRMS(optim.FactoredRMSOptions{DecayRate: 0.8, MinDimSizeToFactor: 16, Eps: 1e-30})
	return map[string]optim.Transform{
		"adam":             optim.Chain(optim.ClipByGlobalNorm(3), adam(func(*optim.Adam) {}), rate),
		"behind operators": optim.Chain(optim.Trace(0.9, false), factored, optim.Trace(0.5, true), rate),
	}
}

func guard(tx optim.Transform) optim.Transform {
	return optim.GuardUpdates(optim.Guard{Losses: 2, Update: true}, optim.SkipNonFinite(tx))
}

// losses are put where an update finds them.
func setLosses(t testing.TB, s *optim.State, dev *gpu.Device, losses []float64) {
	raw := make([]byte, 0, 8)
	for _, l := range losses {
		raw = append(raw, f32Bytes(float32(l))...)
	}
	require.NoError(t, dev.Write(s.Losses(), raw))
}

func f32Bytes(v float32) []byte {
	b := math.Float32bits(v)
	return []byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)}
}

func gradsOf(r *rand.Rand, c guardCall) []buffers.Host {
	grads := randomTree(r, oddSpecs, 0.1)
	grads[6].Data[100] += float32(c.grad)
	return grads
}

func TestGuardFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, chain := range guardedChains() {
			t.Run(name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, 7))
				params := randomTree(r, oddSpecs, 1)
				dev := newRig(t, d, guard(chain), params, buffers.F32)
				twin, err := optim.NewTwin(guard(chain), params)
				require.NoError(t, err)
				left := uint32(0)
				for _, c := range guardCalls() {
					grads := gradsOf(r, c)
					require.NoError(t, dev.state.SetLimits(c.limits))
					setLosses(t, dev.state, d, c.losses)
					twin.Guard(c.limits, c.losses...)
					before := dev.download(dev.params)
					dev.call(grads)
					require.NoError(t, twin.Update(grads))
					if c.want != (optim.Statistics{}) {
						left++
						sameBits(t, before, dev.download(dev.params))
					} else {
						assert.NotEqual(t, before, dev.download(dev.params), c.name)
					}
					for _, got := range []optim.Statistics{dev.statistics(), twin.Statistics()} {
						assert.Equal(t, c.want.NonFinite, got.NonFinite, c.name)
						assert.Equal(t, c.want.Spikes, got.Spikes, c.name)
						assert.Equal(t, left, got.Skipped, c.name)
					}
					near(t, c.name+" params", dev.download(dev.params), twin.Params(), 2e-6, 2e-6)
					for _, tree := range dev.state.Trees() {
						near(t, c.name+" "+tree.Name, dev.download(tree.Tree), twin.State(tree.Name), 5e-6, 1e-6)
					}
				}
				planned, err := guard(chain).Bytes(dev.params.Layout(), d.Limits())
				require.NoError(t, err)
				assert.Equal(t, planned, dev.state.Bytes())
			})
		}
	}, small)
}

// The norm of an update is the norm of the change of the params.
func TestNormOfAnUpdate(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		r := rand.New(rand.NewPCG(8, 8))
		zero := randomTree(r, oddSpecs, 0)
		dev := newRig(t, d, guard(guardedChains()["adam"]), zero, buffers.F32)
		dev.call(randomTree(r, oddSpecs, 1))
		sum := 0.0
		for _, h := range dev.download(dev.params) {
			for _, v := range h.Data {
				sum += float64(v) * float64(v)
			}
		}
		raw := make([]byte, optim.StatisticsBytes)
		require.NoError(t, d.Read(t.Context(), raw, dev.state.UpdateStatistics()))
		got, err := optim.ParseStatistics(raw)
		require.NoError(t, err)
		assert.InEpsilon(t, math.Sqrt(sum), float64(got.Norm), 1e-5)
	}, small)
}

// Stages that are told the same losses and limits leave out the same updates.
func TestGuardedStagesAreTheWhole(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, chain := range guardedChains() {
			r := rand.New(rand.NewPCG(9, 9))
			params := randomTree(r, oddSpecs, 1)
			whole, stages := newRig(t, d, guard(chain), params, buffers.F32), newStages(t, d, guard(chain), params, []int{2, 0, 1, 0, 2, 1, 0, 2})
			for _, c := range guardCalls() {
				for _, s := range append([]*stage{{rig: whole}}, stages...) {
					require.NoError(t, s.state.SetLimits(c.limits))
					setLosses(t, s.state, d, c.losses)
				}
				grads := gradsOf(r, c)
				whole.call(grads)
				callStages(t, stages, grads)
				sameAsWhole(t, whole, stages)
			}
		}
	}, small)
}

func TestGuardRefuses(t *testing.T) {
	specs := []buffers.Spec{{Path: "w", Shape: []int{3}}}
	skip := optim.SkipNonFinite(optim.Scale(1))
	for want, tx := range map[string]optim.Transform{
		"found scale, wanted skip_non_finite(...)":                   optim.GuardUpdates(optim.Guard{Losses: 1}, optim.Scale(1)),
		"losses: found 0, wanted 1 or more":                          optim.GuardUpdates(optim.Guard{}, skip),
		"found guard_updates(skip_non_finite(scale)), wanted skip_n": optim.GuardUpdates(optim.Guard{Losses: 1}, optim.GuardUpdates(optim.Guard{Losses: 1}, skip)),
		"found accumulate(skip_non_finite(scale)), wanted skip_non_": optim.GuardUpdates(optim.Guard{Losses: 1}, optim.Accumulate(2, skip)),
	} {
		assert.ErrorContains(t, tx.Check(specs), want)
	}
	assert.NoError(t, optim.Accumulate(2, optim.GuardUpdates(optim.Guard{Losses: 1}, skip)).Check(specs))
	assert.Equal(t, "loss, update norm", (optim.SpikeLoss | optim.SpikeUpdateNorm).String())
}
