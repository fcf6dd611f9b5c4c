package optim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// With eps far above the root, Adam divides by eps alone, and the corrected gradient can be read off.
func TestMarsByHand(t *testing.T) {
	const eps = 1e6
	mars := func(b1, limit float64) Transform {
		return Chain(ScaleByMars(Mars{Beta1: b1, Beta2: 0.5, Gamma: 0.25, Epsilon: eps, MaxGradNorm: &limit}, Stable), Scale(eps))
	}
	// gamma b1/(1-b1) = 1/4; the first gradient has nothing before it: c = 1.25 g.
	assert.InDelta(t, 10+1.25*4, after(t, mars(0.5, 0), 10, 4), 1e-4)
	// Then c = 2 + (2 - 4)/4 = 1.5, and mu = (1.5/2 + 5/4) over 3/4.
	assert.InDelta(t, 10+5+2/0.75, after(t, mars(0.5, 0), 10, 4, 2), 1e-4)
	// The clip is of c, the change of what came in: c = 5 -> 2; then c = 1.5.
	assert.InDelta(t, 10+2+(0.75+0.5)/0.75, after(t, mars(0.5, 2), 10, 4, 2), 1e-4)
	// Without momentum there is no correction.
	assert.InDelta(t, 10+4+2, after(t, mars(0, 0), 10, 4, 2), 1e-4)
}

// The previous gradient is the one that came in after a clip around the optimizer.
func TestMarsKeepsTheIncomingGradient(t *testing.T) {
	clip := 1.0
	tx := built(t, "mars", Options{ClipGrad: &clip}, "")
	twin, err := NewTwin(tx, []buffers.Host{vector("a", 0, 0), vector("b", 0)})
	require.NoError(t, err)
	require.NoError(t, twin.Update([]buffers.Host{vector("a", 3, 0), vector("b", 4)}))
	assert.InDeltaSlice(t, []float32{0.6, 0}, twin.State("mog")[0].Data, 1e-7)
	assert.InDeltaSlice(t, []float32{0.8}, twin.State("mog")[1].Data, 1e-7)
	// c = 1.475 g has the norm 1.475, and is clipped to 1.
	assert.InDelta(t, 0.05*0.8, twin.State("mu")[1].Data[0], 1e-6)
	assert.InDelta(t, 0.01*0.64, twin.State("nu")[1].Data[0], 1e-6)
}
