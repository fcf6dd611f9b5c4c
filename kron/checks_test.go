package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestChecks(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		checks := Checks()
		require.Len(t, checks, 12)
		for _, c := range checks {
			r, err := c.Run(t.Context(), d)
			require.NoError(t, err)
			assert.True(t, r.MaxError <= r.Tolerance, "%s: %+v", c.Name, r)
			t.Logf("%s: %.2g of %.2g at %s", c.Name, r.MaxError, r.Tolerance, r.Worst)
		}
	})
}
