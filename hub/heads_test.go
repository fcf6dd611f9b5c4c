package hub

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// An adapter of a reward model lies upon a language model, whose files have no head of that kind: the adapter's file has it, and says how many labels there are.
func TestAdaptersWithAHead(t *testing.T) {
	def, params, err := ReadHF(filepath.Join("..", "model", "testdata", "reward", "reward_qwen3_lora", "adapter"))
	require.NoError(t, err)
	assert.Equal(t, 1, model.HeadOf(def).Labels)
	assert.Len(t, params, len(def.Params()))
	assert.Contains(t, model.AdapterParams(def), "base_model.model.score.weight")
	def, _, err = ReadHF(filepath.Join("..", "model", "testdata", "embed", "embed_llama_mean", "adapter"))
	require.NoError(t, err)
	assert.Equal(t, model.HeadVectors, model.HeadOf(def).Kind)
}
