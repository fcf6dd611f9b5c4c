package graph

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

func TestChecksPass(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, c := range Checks() {
			t.Run(c.Name, func(t *testing.T) {
				r, err := c.Run(context.Background(), d)
				require.NoError(t, err)
				require.LessOrEqual(t, r.MaxError, r.Tolerance, r.Worst)
				t.Logf("error %.2g of %.2g", r.MaxError, r.Tolerance)
			})
		}
	})
}

// TestChecksCanFail: a check whose twin computes something else must not pass.
func TestChecksCanFail(t *testing.T) {
	k := kernelCheck{name: "wrong", tolerance: 16, build: func(g *Graph) []*Value { return []*Value{g.Scale(x(g, "a", 8), 2)} }}
	good := functions["scale"]
	defer func() { functions["scale"] = good }()
	functions["scale"] = function{1, true, func(x [3]float64, arg float64) float64 { return x[0] * arg * 1.00001 }}
	r, err := k.run(context.Background(), gputest.Device(t))
	require.NoError(t, err)
	require.Greater(t, r.MaxError, r.Tolerance)
}
