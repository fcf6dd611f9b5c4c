package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// stage is a part of a model's leaves, its update in pieces.
type stage struct {
	*rig
	in     func(path string) bool
	rounds map[Phase][]*gpu.Program
}

// newStages divides leaves by index of leaf: of[i] is the stage of params[i].
func newStages(t testing.TB, d *gpu.Device, tx Transform, params []buffers.Host, of []int) []*stage {
	var whole []buffers.Spec
	at := map[string]int{}
	for i, p := range params {
		whole = append(whole, buffers.Spec{Path: p.Path, Shape: p.Shape})
		at[p.Path] = of[i]
	}
	var stages []*stage
	for n := range slices.Max(of) + 1 {
		s := &stage{
			rig: &rig{t: t, dev: d, tx: tx, programs: map[Phase]*gpu.Program{}},
			in:  func(path string) bool { return at[path] == n }, rounds: map[Phase][]*gpu.Program{},
		}
		var err error
		s.params, err = buffers.Upload(d, "params", s.of(params), buffers.F32)
		require.NoError(t, err)
		s.grads, err = buffers.NewTree(d, "grads", s.params.Layout(), buffers.F32)
		require.NoError(t, err)
		s.state, err = tx.InitStage(s.params, whole)
		require.NoError(t, err)
		for _, release := range []func(){s.params.Release, s.grads.Release, s.state.Release} {
			t.Cleanup(release)
		}
		for _, phase := range s.state.Phases() {
			if phase == Collect {
				s.programs[phase] = s.record(phase)
				continue
			}
			for round := range s.state.Rounds() {
				rec := d.Record("round")
				require.NoError(t, tx.RecordRound(rec, phase, round, s.grads, s.state, s.params))
				s.rounds[phase] = append(s.rounds[phase], programOf(t, rec))
			}
		}
		stages = append(stages, s)
	}
	return stages
}

func (s *stage) of(all []buffers.Host) []buffers.Host {
	return slices.DeleteFunc(slices.Clone(all), func(h buffers.Host) bool { return !s.in(h.Path) })
}

// callStages makes one call on all stages.
func callStages(t testing.TB, stages []*stage, grads []buffers.Host) {
	var programs [][]*gpu.Program
	var states []*State
	for _, s := range stages {
		require.NoError(t, s.grads.WriteAll(s.of(grads)))
		phase, err := s.state.Prepare()
		require.NoError(t, err)
		states = append(states, s.state)
		if phase == Collect {
			require.NoError(t, s.programs[phase].Submit(t.Context()))
			continue
		}
		programs = append(programs, s.rounds[phase])
	}
	if len(programs) == 0 {
		return
	}
	for round := range states[0].Rounds() {
		for _, p := range programs {
			require.NoError(t, p[round].Submit(t.Context()))
		}
		if round+1 == states[0].Rounds() {
			return
		}
		var measured []byte
		var layouts []*buffers.Layout
		for _, s := range stages {
			from := s.state.Measured(round)
			own := make([]byte, from.Bytes)
			require.NoError(t, s.dev.Read(t.Context(), own, from))
			layouts, measured = append(layouts, s.params.Layout()), append(measured, own...)
		}
		all := make([]byte, states[0].Combined(round).Bytes)
		require.NoError(t, states[0].GatherNorms(all, layouts, measured))
		for _, s := range stages {
			require.NoError(t, s.dev.Write(s.state.Combined(round), all))
		}
	}
}

// sameAsWhole compares params, state by name and statistics.
func sameAsWhole(t testing.TB, whole *rig, stages []*stage) {
	want := map[string][]float32{}
	for _, h := range whole.download(whole.params) {
		want[h.Path] = h.Data
	}
	state := whole.tensors()
	seen := 0
	for _, s := range stages {
		for _, h := range s.download(s.params) {
			seen++
			sameBits(t, []buffers.Host{vector(h.Path, want[h.Path]...)}, []buffers.Host{vector(h.Path, h.Data...)})
		}
		for name, data := range s.tensors() {
			sameBits(t, []buffers.Host{vector(name, state[name]...)}, []buffers.Host{vector(name, data...)})
			delete(state, name)
		}
		if whole.state.Rounds() > 1 {
			require.Equal(t, fmt.Sprint(whole.statistics()), fmt.Sprint(s.statistics()), "a NaN equals itself here")
		}
		require.Equal(t, whole.state.Counts(), s.state.Counts())
	}
	require.Len(t, want, seen)
	require.Empty(t, state)
}

// Stages whose norms are gathered are the whole model in every bit, wherever norms stand in the chain.
func TestStagesAreTheWhole(t *testing.T) {
	clip := 0.5
	by := ScaleByLearningRate(Constant(0.05))
	limit := 1.0
	mars := ScaleByMars(Mars{Beta1: 0.95, Beta2: 0.99, Gamma: 0.025, Epsilon: 1e-8, MaxGradNorm: &limit}, Stable)
	for name, tx := range map[string]Transform{
		"in eight bits": inCodes(t)["adamw"],
		"adamw": built(t, "adamw", Options{
			Schedule: rate(0.1), ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: MaskPatterns("split", "scalar"), SkipNonFinite: true,
		}, `{"mu_dtype":"bf16"}`),
		"norms in a row":        Accumulate(2, SkipNonFinite(Chain(ClipByGlobalNorm(3), mars, by))),
		"norms of leaves first": Chain(normalizeByLeaf(1e-6), ClipByGlobalNorm(1), ClipByLeafRMS(0.01), ClipStageLocal(0.5), by),
		"behind an operator": Chain(ScaleByFactoredRMS(FactoredRMSOptions{DecayRate: 0.8, MinDimSizeToFactor: 16, Eps: 1e-30}),
			ClipByGlobalNorm(2), by),
	} {
		t.Run(name, func(t *testing.T) {
			gputest.Each(t, func(t *testing.T, d *gpu.Device) {
				for _, of := range gputest.Some(t, d, [][]int{{2, 0, 1, 0, 2, 1, 0, 2}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 1, 1, 1}, {1, 0, 0, 0, 0, 0, 0, 0}}) {
					r := rand.New(rand.NewPCG(12, 12))
					specs := oddSpecs
					if name == "in eight bits" {
						specs = codeSpecs
					}
					params := randomTree(r, specs, 1)
					whole, stages := newRig(t, d, tx, params, buffers.F32), newStages(t, d, tx, params, of)
					for range 4 {
						grads := randomTree(r, specs, 1)
						whole.call(grads)
						callStages(t, stages, grads)
						sameAsWhole(t, whole, stages)
					}
					bad := randomTree(r, specs, 1)
					bad[7].Data[256] = float32(math.NaN())
					for range 2 {
						whole.call(bad)
						callStages(t, stages, bad)
					}
					sameAsWhole(t, whole, stages)
				}
			}, small)
		})
	}
}

func TestGatherNormsRefuses(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	tx := ClipByGlobalNorm(1)
	whole := []buffers.Spec{{Path: "b"}, {Path: "c"}, {Path: "a"}}
	layout := func(paths ...string) *buffers.Layout {
		var specs []buffers.Spec
		for _, p := range paths {
			specs = append(specs, buffers.Spec{Path: p})
		}
		layout, err := buffers.NewLayout(specs, d.Limits())
		require.NoError(t, err)
		return layout
	}
	params, err := buffers.NewTree(d, "params", layout("b"), buffers.F32)
	require.NoError(t, err)
	state, err := tx.InitStage(params, whole)
	require.NoError(t, err)
	dst, pairs := make([]byte, 24), []byte("bbbbbbbbaaaaaaaacccccccc")
	require.NoError(t, state.GatherNorms(dst, []*buffers.Layout{layout("b"), layout(), layout("c", "a")}, pairs))
	assert.Equal(t, "aaaaaaaabbbbbbbbcccccccc", string(dst), "in the order of the whole model's paths")
	for want, err := range map[string]error{
		`leaf "b": found it in none of 1 places`:           state.GatherNorms(dst, []*buffers.Layout{layout("a", "c")}, pairs),
		`place 1: leaf "a": found it twice or not`:         state.GatherNorms(dst, []*buffers.Layout{layout("a"), layout("a", "b")}, pairs),
		`place 0: leaf "d": found it twice or not`:         state.GatherNorms(dst, []*buffers.Layout{layout("d", "b")}, pairs),
		"found 24 bytes and room for 16, wanted 24":        state.GatherNorms(dst[:16], []*buffers.Layout{layout("a", "b", "c")}, pairs),
		"found 23 bytes and room for 24, wanted 24: 8 for": state.GatherNorms(dst, []*buffers.Layout{layout("a", "b", "c")}, pairs[1:]),
	} {
		assert.ErrorContains(t, err, want)
	}
}

// More leaves than a workgroup has invocations, and more groups of one leaf: the norm is theirs all, and one number that is not finite is
// found wherever it stands.
func TestNormOfManyLeavesAndGroups(t *testing.T) {
	specs := []buffers.Spec{{Path: "large", Shape: []int{140, 8192}}}
	for i := range 150 {
		specs = append(specs, buffers.Spec{Path: fmt.Sprintf("l%03d", i), Shape: []int{1 + i%7}})
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		r := rand.New(rand.NewPCG(3, 3))
		grads := randomTree(r, specs, 1)
		rig := newRig(t, d, globalNorm(), grads, buffers.F32)
		rig.call(grads)
		sum := 0.0
		for _, h := range grads {
			for _, v := range h.Data {
				sum += float64(v) * float64(v)
			}
		}
		assert.InEpsilon(t, math.Sqrt(sum), rig.statistics().Norm, 2e-6, "sums over a million squares in f32")
		assert.False(t, rig.statistics().NonFinite)
		for _, at := range [][2]int{{0, 0}, {0, 70 * 8192}, {0, 140*8192 - 1}, {1, 0}, {75, 0}, {150, 0}} {
			leaf := &grads[at[0]].Data[at[1]]
			was := *leaf
			*leaf = float32(math.Inf(-1))
			rig.call(grads)
			assert.True(t, rig.statistics().NonFinite, at)
			*leaf = was
		}
		rig.call(grads)
		assert.False(t, rig.statistics().NonFinite)
	})
}
