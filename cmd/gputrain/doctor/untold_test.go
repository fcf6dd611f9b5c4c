package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// untold runs a test for each case that the program does not carry: optimizers without a clip or a momentum, and factors of large leaves and in bf16.
func untold(t *testing.T, test func(t *testing.T, path string, c *goldenCase)) {
	folders, err := filepath.Glob("testdata/*/case.json")
	require.NoError(t, err)
	require.Len(t, folders, 4)
	for _, path := range folders {
		c, err := loadCase(os.DirFS(filepath.Dir(path)))
		require.NoError(t, err)
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) { test(t, filepath.Dir(path), c) })
	}
}

func TestTwinFollowsUntoldCases(t *testing.T) {
	untold(t, func(t *testing.T, _ string, c *goldenCase) {
		o := &optimizerCase{}
		require.NoError(t, c.decode(o))
		pass, found, allowed, where := runTwin(t, c, o).result()
		assert.True(t, pass, "%s: %g, allowed %g", where, found, allowed)

		// What says 0 where another says null means the same, as 0 is no clip in eformer too.
		config := map[string]any{}
		require.NoError(t, json.Unmarshal(o.Config, &config))
		limit, ok := config["max_grad_norm"]
		require.Equal(t, o.Optimizer == "mars", ok && limit == nil)
		if config["max_grad_norm"] = 0; ok {
			raw, err := json.Marshal(config)
			require.NoError(t, err)
			o.Config = raw
			pass, _, _, where = runTwin(t, c, o).result()
			assert.True(t, pass, where)
		}
	})
}

func TestUntoldCasesOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		untold(t, func(t *testing.T, path string, _ *goldenCase) {
			r := RunCase(t.Context(), []*gpu.Device{d}, filepath.Base(path), os.DirFS(path))
			require.Empty(t, r.Error)
			assert.True(t, r.Pass, "%s: %g, allowed %g", r.Worst, r.MaxError, r.Tolerance)
		})
	})
}
