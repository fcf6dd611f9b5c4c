package optim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// frozenSpecs are leaves of every kind on both sides.
var frozenSpecs = append([]buffers.Spec{
	{Path: "a.frozen", Shape: []int{40, 24}},
	{Path: "m.frozen", Shape: []int{310, 9}},
	{Path: "v.frozen", Shape: []int{33}},
}, everySpecs...)

func isFrozen(path string) bool { return strings.HasSuffix(path, "frozen") }

// split divides leaves into those that are trained and those that are frozen.
func split(all []buffers.Host) (trained []buffers.Host, frozen []buffers.Spec) {
	for _, h := range all {
		if isFrozen(h.Path) {
			frozen = append(frozen, buffers.Spec{Path: h.Path, Shape: h.Shape})
		} else {
			trained = append(trained, h)
		}
	}
	return trained, frozen
}

// unclipped are the parameters of an optimizer's row without a norm of all leaves.
func unclipped(t testing.TB, name string) string {
	if name == "mars" {
		return `{"max_grad_norm":null}`
	}
	return smallOf(t, name)
}

// Beside frozen leaves the others have the bits of a run in which those have a rate of 0, whatever the optimizer; and on stages, of which one has
// nothing to train.
func TestFrozenLeavesLeaveTheOthersTheirBits(t *testing.T) {
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		options := Options{
			Schedule: rate(0.01), WeightDecay: 0.1, SkipNonFinite: true,
			Rates: []PathRate{{Pattern: "frozen$", Multiplier: 0}, {Pattern: "^w", Multiplier: 0.5}},
		}
		r := rand.New(rand.NewPCG(51, 52))
		all := randomTree(r, frozenSpecs, 1)
		trained, frozen := split(all)
		tx := built(t, name, options, unclipped(t, name))
		whole, part := newRig(t, d, tx, all, buffers.F32), newRig(t, d, Freeze(frozen, tx), trained, buffers.F32)
		stages := newStages(t, d, Freeze(frozen, tx), trained, []int{0, 0, 2, 0, 2, 0, 0, 2})
		for range 3 {
			grads := randomTree(r, frozenSpecs, 1)
			whole.call(grads)
			trained, _ := split(grads)
			part.call(trained)
			callStages(t, stages, trained)
		}
		want, _ := split(whole.download(whole.params))
		sameBits(t, want, part.download(part.params))
		sameAsWhole(t, part, stages)
		before := whole.tensors()
		for tensor, got := range part.tensors() {
			assert.False(t, isFrozen(tensor), tensor)
			if !strings.HasPrefix(tensor, "dense/") { // a stack of other blocks
				sameBits(t, []buffers.Host{vector(tensor, before[tensor]...)}, []buffers.Host{vector(tensor, got...)})
			}
		}
		for _, tensor := range part.state.Tensors() {
			assert.Nil(t, tensor.Rows, "%s is whole", tensor.Name)
		}
		assert.Less(t, part.state.Bytes(), whole.state.Bytes())
	})
}

func TestFreezeCountsOnlyWhatIsTrained(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		all := randomTree(rand.New(rand.NewPCG(53, 54)), frozenSpecs, 1)
		trained, frozen := split(all)
		tx := Chain(globalNorm(), ScaleByLearningRate(Constant(0.1)))
		part, alone := newRig(t, d, Freeze(frozen, tx), trained, buffers.F32), newRig(t, d, tx, trained, buffers.F32)
		part.call(trained)
		alone.call(trained)
		assert.Equal(t, alone.statistics(), part.statistics(), "the norm is that of the trained leaves")
		assert.Equal(t, len(trained), part.state.ModelLeaves())
	}, small)
}

func TestFreezeRefuses(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	all := randomTree(rand.New(rand.NewPCG(55, 56)), frozenSpecs, 1)
	_, frozen := split(all)
	tx := Freeze(frozen, ScaleByLearningRate(Constant(1), PathRate{Pattern: "^a.frozen", Multiplier: 2}))
	params, err := buffers.Upload(d, "params", all, buffers.F32)
	require.NoError(t, err)
	_, err = tx.Init(params)
	assert.ErrorContains(t, err, `leaf "a.frozen"`)
	require.NoError(t, tx.Check(slices.Clone(everySpecs)), "a rule may name a frozen leaf")
	assert.ErrorContains(t, Chain(tx).Check(everySpecs), "inside a chain")
	assert.ErrorContains(t, Route(MaskMatrices(), tx, tx).Check(everySpecs), "inside a route")
}
