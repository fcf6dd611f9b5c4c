package doctor

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Models that are cut in two follow the cases within the tolerances of one device, and a case of other numbers is caught there too.
func TestStagesFollowFamilies(t *testing.T) {
	devices := gputest.Several(t, 2)
	names := familyCases
	if testing.Short() {
		names = []string{"packed/packed_qwen3", "lora/lora_llama_dora", "dpo/orpo_qwen2", "embed/embed_llama_mean"}
	}
	for _, name := range names {
		requirePass(t, name, folder(filepath.Join(families, filepath.FromSlash(name))), devices...)
	}
	c, p := openPairs(t, "dpo_llama_sigmoid")
	p.learned.Numbers["beta"] = 0.301
	run, err := newModelRun(t.Context(), devices, &p.modelCase)
	require.NoError(t, err)
	defer run.release()
	seen, err := p.train(c, run)
	require.NoError(t, err)
	assertPassed(t, false, seen) // another beta
}
