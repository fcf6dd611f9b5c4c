package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// runChecks runs the self-checks of an operation, as hardware adapters do too.
func runChecks(t *testing.T, op graph.Op) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, k := range lowerings[op.Kind()].Checks {
			t.Run(k.Name, func(t *testing.T) {
				result, err := k.run(t.Context(), d)
				require.NoError(t, err)
				require.True(t, result.MaxError <= result.Tolerance, "%+v", result)
				t.Logf("%.3g of %.3g", result.MaxError, result.Tolerance)
			})
		}
	})
}

func TestConvolution(t *testing.T) { runChecks(t, graph.Convolution{}) }
