package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// guardCall is a call on which something may be wrong.
type guardCall struct {
	name   string
	limits Limits
	losses []float64
	grad   float64 // added to one element
	want   Statistics
}

// guardCalls have norms of the gradient near 18.5, and of the update below 1 (see guardedChains).
func guardCalls() []guardCall {
	nan := math.NaN()
	return []guardCall{
		{name: "no limits", losses: []float64{2, 3}},
		{name: "within", limits: Limits{Loss: 5.5, GradNorm: 1e3, UpdateNorm: 1e3}, losses: []float64{2, 3}},
		{name: "loss", limits: Limits{Loss: 4.5, GradNorm: 1e3}, losses: []float64{2, 3}, want: Statistics{Spikes: SpikeLoss}},
		{name: "norm", limits: Limits{Loss: 5.5, GradNorm: 1e3}, losses: []float64{2, 3}, grad: 2e3, want: Statistics{Spikes: SpikeGradNorm}},
		{name: "update", limits: Limits{GradNorm: 1e3, UpdateNorm: 1e-6}, losses: []float64{2, 3}, want: Statistics{Spikes: SpikeUpdateNorm}},
		{name: "none again", limits: Limits{Loss: math.Inf(1), GradNorm: math.Inf(1), UpdateNorm: math.Inf(1)}, losses: []float64{2e9, 3}},
		{name: "loss not a number", losses: []float64{2, nan}, want: Statistics{NonFinite: true}},
		{name: "loss infinite", limits: Limits{Loss: 9}, losses: []float64{math.Inf(1), 1}, want: Statistics{NonFinite: true}},
		{
			name: "gradient not a number", limits: Limits{Loss: 4}, losses: []float64{2, 3}, grad: nan,
			want: Statistics{NonFinite: true, Spikes: SpikeLoss},
		},
		{name: "within again", limits: Limits{Loss: 5.5, GradNorm: 1e3, UpdateNorm: 1e3}, losses: []float64{2, 3}},
	}
}

// guardedChains end in updates of small norm, one after an operator.
func guardedChains() map[string]Transform {
	rate := ScaleByLearningRate(Constant(1e-4))
	factored := ScaleByFactoredRMS(FactoredRMSOptions{DecayRate: 0.8, MinDimSizeToFactor: 16, Eps: 1e-30})
	return map[string]Transform{
		"adam":             Chain(ClipByGlobalNorm(3), adam(func(*Adam) {}), rate),
		"behind operators": Chain(Trace(0.9, false), factored, Trace(0.5, true), rate),
	}
}

func guard(tx Transform) Transform {
	return GuardUpdates(Guard{Losses: 2, Update: true}, SkipNonFinite(tx))
}

// losses are put where an update finds them.
func setLosses(t testing.TB, s *State, dev *gpu.Device, losses []float64) {
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
				twin, err := NewTwin(guard(chain), params)
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
					if c.want != (Statistics{}) {
						left++
						sameBits(t, before, dev.download(dev.params))
					} else {
						assert.NotEqual(t, before, dev.download(dev.params), c.name)
					}
					for _, got := range []Statistics{dev.statistics(), twin.Statistics()} {
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
		raw := make([]byte, StatisticsBytes)
		require.NoError(t, d.Read(t.Context(), raw, dev.state.UpdateStatistics()))
		got, err := ParseStatistics(raw)
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
	skip := SkipNonFinite(Scale(1))
	for want, tx := range map[string]Transform{
		"found scale, wanted skip_non_finite(...)":                   GuardUpdates(Guard{Losses: 1}, Scale(1)),
		"losses: found 0, wanted 1 or more":                          GuardUpdates(Guard{}, skip),
		"found guard_updates(skip_non_finite(scale)), wanted skip_n": GuardUpdates(Guard{Losses: 1}, GuardUpdates(Guard{Losses: 1}, skip)),
		"found accumulate(skip_non_finite(scale)), wanted skip_non_": GuardUpdates(Guard{Losses: 1}, Accumulate(2, skip)),
	} {
		assert.ErrorContains(t, tx.Check(specs), want)
	}
	assert.NoError(t, Accumulate(2, GuardUpdates(Guard{Losses: 1}, skip)).Check(specs))
	assert.Equal(t, "loss, update norm", (SpikeLoss | SpikeUpdateNorm).String())
}
