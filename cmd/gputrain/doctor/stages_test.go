package doctor

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Models that are cut in two follow the cases within the tolerances of one device, and a case of other numbers is caught there too.
func TestStagesFollowFamilies(t *testing.T) {
	devices := gputest.Several(t, 2)
	names := familyCases
	if testing.Short() {
		names = []string{"packed/packed_qwen3", "lora/lora_llama_dora", "dpo/orpo_qwen2"}
	}
	for _, name := range names {
		r := RunCase(t.Context(), devices, name, Folder(filepath.Join(families, filepath.FromSlash(name))))
		require.Empty(t, r.Error, name)
		assert.True(t, r.Pass, "%s: %s: %g, allowed %g", name, r.Worst, r.MaxError, r.Tolerance)
		t.Logf("%s: worst %s: %g of %g", name, r.Worst, r.MaxError, r.Tolerance)
	}
	c, p := openPairs(t, "dpo_llama_sigmoid")
	p.learned.Numbers["beta"] = 0.301
	run, err := newModelRun(t.Context(), devices, &p.modelCase)
	require.NoError(t, err)
	defer run.release()
	seen, err := c.trainPairs(p, run)
	require.NoError(t, err)
	pass, _, _, _ := seen.result()
	assert.False(t, pass, "another beta")
}
