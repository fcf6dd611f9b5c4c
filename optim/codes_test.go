package optim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// codeSpecs are leaves below and above the size from which state is in codes: one that ends in a block of 174 elements, of which the last four are two,
// one of whole blocks, and one that is divided over slabs.
var codeSpecs = []buffers.Spec{
	{Path: "scalar"},
	{Path: "empty", Shape: []int{0, 3}},
	{Path: "below", Shape: []int{4095}},
	{Path: "least", Shape: []int{4096}},
	{Path: "odd", Shape: []int{70, 61}},
	{Path: "four", Shape: []int{9, 5, 10, 11}},
	{Path: "w.row", Shape: []int{1, 7}},
	{Path: "w.split", Shape: []int{300, 64}},
}

func inCodes(t testing.TB) map[string]Transform {
	const eight = `"state_dtype":"8bit"`
	clip := 0.5
	return map[string]Transform{
		"adamw": built(t, "adamw", Options{Schedule: rate(0.01), ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: MaskMatrices(), SkipNonFinite: true},
			`{`+eight+`,"nesterov":true}`),
		"lion": built(t, "lion", Options{Schedule: rate(0.01), Rates: []PathRate{{Pattern: "odd", Multiplier: 3}}}, `{`+eight+`}`),
		"mars": built(t, "mars", Options{Schedule: rate(0.01), AccumulationSteps: 2, SkipNonFinite: true}, `{`+eight+`,"max_grad_norm":2}`),
	}
}

// Codes are those of the twin, but where a number lies as near to the middle of two levels as f32 is to float64: then one apart, and all that follows of it
// for that element.
func TestCodesFollowTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, tx := range inCodes(t) {
			t.Run(name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(51, 52))
				params := randomTree(r, codeSpecs, 1)
				rig := newRig(t, d, tx, params, buffers.F32)
				require.Greater(t, len(rig.params.Layout().Slabs()), 2)
				twin, err := NewTwin(tx, params)
				require.NoError(t, err)
				apart := map[string]bool{} // elements whose codes have been
				place := func(tensor string, k int) string {
					_, path, _ := strings.Cut(tensor, "/")
					return fmt.Sprint(path, " ", k)
				}
				// within leaves out what is apart.
				within := func(got, want []buffers.Host, relative, share float64) {
					for i, h := range got {
						for k := range h.Data {
							if apart[place("/"+h.Path, k)] {
								got[i].Data[k] = want[i].Data[k]
							}
						}
					}
					near(t, "", got, want, relative, share)
				}
				for range 6 {
					grads := randomTree(r, codeSpecs, 0.1)
					for i := range grads[3].Data[256:512] {
						grads[3].Data[256+i] = 0 // a block without a gradient
					}
					rig.call(grads)
					require.NoError(t, twin.Update(grads))
					got := rig.tensors()
					for _, want := range twin.Tensors() {
						require.Len(t, got[want.Path], len(want.Data), want.Path)
						coded := got[buffers.MaximaOf(want.Path)] != nil
						assert.Equal(t, coded, len(want.Data) >= 4096 && !strings.HasPrefix(want.Path, "acc/"), want.Path)
						if !coded {
							near(t, want.Path, []buffers.Host{vector(want.Path, got[want.Path]...)}, []buffers.Host{want}, 1e-5, 2e-6)
							continue
						}
						for k, code := range want.Data {
							if diff := math.Abs(float64(got[want.Path][k] - code)); diff > 0 && !apart[place(want.Path, k)] {
								apart[place(want.Path, k)] = true
								require.LessOrEqual(t, diff, 1.0, "%s[%d]", want.Path, k)
							}
						}
					}
					within(rig.download(rig.params), twin.Params(), 2e-6, 2e-6)
				}
				t.Logf("%d elements apart", len(apart))
				assert.Less(t, len(apart), 20, "of some 32,000 with three codes each, six times")
				planned, err := tx.Bytes(rig.params.Layout(), d.Limits())
				require.NoError(t, err)
				assert.Equal(t, planned, rig.state.Bytes())
				norms := 0
				if name != "lion" { // measures no norm
					norms = len(rig.params.Layout().Slabs()) + 2
				}
				if name != "mars" {
					assert.Equal(t, len(rig.params.Layout().Slabs())+norms, rig.programs[Emit].Dispatches(), "one a slab")
				}
			})
		}
	}, small)
}

// An update that is left out leaves codes and maxima as they are, and what is saved and restored goes on alike.
func TestCodesAreKeptAndRestored(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, tx := range inCodes(t) {
			r := rand.New(rand.NewPCG(53, 54))
			first := newRig(t, d, tx, randomTree(r, codeSpecs, 1), buffers.F32)
			for range 4 {
				first.call(randomTree(r, codeSpecs, 1))
			}
			second := first.again(func(to buffers.Tensor, raw []byte) error {
				half := len(raw) / 2 / 4 * 4
				if to.WriteAt == nil || half == 0 {
					return to.Write(raw)
				}
				return errors.Join(to.WriteAt(raw[:half], 0), to.WriteAt(raw[half:], half))
			})
			for range 2 {
				grads := randomTree(r, codeSpecs, 1)
				first.call(grads)
				second.call(grads)
			}
			sameBits(t, first.download(first.params), second.download(second.params))
			sameTensors(t, first.tensors(), second.tensors())
			if name == "lion" { // takes what is not finite
				continue
			}
			before := first.tensors()
			bad := randomTree(r, codeSpecs, 1)
			bad[4].Data[4269] = float32(math.NaN())
			for range 2 {
				first.call(bad)
			}
			sameTensors(t, before, first.tensors())
		}
	}, small)
}

func sameTensors(t testing.TB, want, got map[string][]float32) {
	require.Len(t, got, len(want))
	for name, data := range want {
		sameBits(t, []buffers.Host{vector(name, data...)}, []buffers.Host{vector(name, got[name]...)})
	}
}

// What cannot be in eight bits is refused by name.
func TestCodesRefuse(t *testing.T) {
	mu := Element{
		Name: "test", Slots: []Slot{{Name: "mu", DType: buffers.U8}}, WGSL: "$mu = u;", Twin: func(c *Cell) { c.Slots[0] = c.U },
	}
	_, err := NewTwin(Route(MaskMatrices(), Elementwise(mu), Scale(1)), nil)
	assert.ErrorContains(t, err, "test: found mu in eight bits on a route, wanted f32 or bf16")
	mu.Slots[0].Initial = 1
	_, err = NewTwin(Elementwise(mu), nil)
	assert.ErrorContains(t, err, "slot mu: found the initial value 1, wanted 0 in eight bits")
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{900, 37}}}, gpu.Limits{BindingBytes: 64 << 10})
	require.NoError(t, err)
	_, err = inCodes(t)["adamw"].Bytes(layout, gpu.DefaultLimits())
	assert.ErrorContains(t, err, `leaf "w": shape [900 37] in parts that cut runs of 256 elements, wanted it in f32`)
}
