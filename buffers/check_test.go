package buffers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestChecks(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		live := uint64(0)
		for i, c := range Checks() {
			r, err := c.Run(context.Background(), dev)
			require.NoError(t, err, c.Name)
			assert.True(t, r.MaxError <= r.Tolerance, "%s: %+v", c.Name, r)
			t.Logf("%s: %g of %g %s", c.Name, r.MaxError, r.Tolerance, r.Worst)
			if i == 0 {
				live = dev.Counters().LiveBuffers // the device's own
			}
			assert.Equal(t, live, dev.Counters().LiveBuffers, "%s leaves nothing behind", c.Name)
		}
	})
}
