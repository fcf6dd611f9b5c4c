package optim

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestRMSByHand(t *testing.T) {
	for name, c := range map[string]struct {
		o     RMSProp
		grads []float32
		want  float64 // of a param that began at 10
	}{
		"first":           {RMSProp{Decay: 0.75}, []float32{3}, 12},                             // nu = 9/4
		"eps inside":      {RMSProp{Decay: 0.75, Eps: 6.75, EpsInSqrt: true}, []float32{3}, 11}, // sqrt(2.25 + 6.75)
		"eps outside":     {RMSProp{Decay: 0.75, Eps: 1.5}, []float32{3}, 11},                   // 1.5 + 1.5
		"initial":         {RMSProp{Decay: 0.75, InitialScale: 9}, []float32{3}, 11},            // nu = 9
		"second":          {RMSProp{Decay: 0.75}, []float32{2, 2}, 10 + 2 + 2/math.Sqrt(1.75)},
		"corrected":       {RMSProp{Decay: 0.75, BiasCorrection: true}, []float32{2, -2}, 10},
		"centered":        {RMSProp{Decay: 0.75, Centered: true}, []float32{4}, 10 + 4/math.Sqrt(4-1)},
		"centered, first": {RMSProp{Decay: 0.75, Eps: 4, EpsInSqrt: true, Centered: true, BiasCorrection: true}, []float32{4}, 12}, // no deviation yet
	} {
		assert.InDelta(t, c.want, after(t, ScaleByRMS(c.o), 10, c.grads...), 2e-6, name)
	}
}

// Rounding makes nu fall below the squared mean of a constant gradient: no root of a negative number.
func TestCenteredOfConstantGradients(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := ScaleByRMS(RMSProp{Decay: 0.9, Eps: 1e-12, EpsInSqrt: true, Centered: true, BiasCorrection: true})
		data := make([]float32, 1000)
		for i := range data {
			data[i] = float32(math.Sqrt(float64(i + 2)))
		}
		zero := []buffers.Host{vector("w", make([]float32, len(data))...)}
		dev := newRig(t, d, tx, zero, buffers.F32)
		for range 4 {
			dev.call([]buffers.Host{vector("w", data...)})
		}
		for i, x := range dev.download(dev.params)[0].Data {
			require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "%d: %g", i, x)
		}
	})
}

// The trace holds updates with the rates that they had: what was learnt at a high rate still acts after the rate has
// fallen.
func TestRMSPropTraceHoldsRates(t *testing.T) {
	for nesterov, want := range map[bool]float64{
		false: 10 - 1 - 0.5,
		true:  10 - 1.5 - 0.25,
	} {
		tx := built(t, "rmsprop", Options{Schedule: ScheduleConfig{Type: "linear", LearningRate: 1, LearningRateEnd: new(0.0), Steps: 1}},
			fmt.Sprintf(`{"momentum":0.5,"decay":0,"eps":0,"nesterov":%t}`, nesterov))
		assert.InDelta(t, want, after(t, tx, 10, 3, 3), 1e-6)
	}
}

func TestRMSPropState(t *testing.T) {
	names := func(parameters string) (out []string) {
		twin, err := NewTwin(built(t, "rmsprop", Options{}, parameters), []buffers.Host{vector("w", 1, 2)})
		require.NoError(t, err)
		for _, h := range twin.Tensors() {
			out = append(out, h.Path)
		}
		return out
	}
	assert.Equal(t, []string{"nu/w"}, names(`{}`))
	assert.Equal(t, []string{"mean/w", "nu/w", "trace/w"}, names(`{"centered":true,"momentum":0}`))
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		dev := newRig(t, d, built(t, "rmsprop", Options{}, `{"initial_scale":0.25}`), []buffers.Host{vector("w", 1, 2, 3)}, buffers.F32)
		assert.Equal(t, []float32{0.25, 0.25, 0.25}, dev.tensors()["nu/w"])
	})
}
