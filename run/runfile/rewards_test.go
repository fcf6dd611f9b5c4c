package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Commands are typed where --set has them, and not because a file or the environment names them.
func TestCommandsTyped(t *testing.T) {
	const rewards = "[{kind: command, command: [python3, rewards.py]}]"
	file, environment := New(), New()
	assert.False(t, file.CommandsTyped(), "the default")
	require.NoError(t, file.Parse("--set", []byte("rewards: "+rewards))) // a file of that name
	assert.False(t, file.CommandsTyped())
	require.NoError(t, environment.Environment([]string{"GPUTRAIN_REWARDS=" + rewards}))
	assert.False(t, environment.CommandsTyped())
	set := file.Clone()
	require.NoError(t, set.Set("rewards="+rewards))
	assert.True(t, set.CommandsTyped())
	require.NoError(t, set.Parse("later.yaml", []byte("rewards: "+rewards)))
	assert.False(t, set.CommandsTyped(), "a file over it")

	wrong := New()
	require.NoError(t, wrong.Parse("run.yaml", []byte("rewards: [{kind: equal, column: a}, {kind: tags, column: b}]")))
	require.ErrorContains(t, wrong.Validate(), "run file: rewards[1] (run.yaml:1): ")
	require.ErrorContains(t, New().Parse("run.yaml", []byte("rewards: {kind: equal, colum: a}")), `unknown key "colum"`)
	list := `[{"kind":"tags","tags":["<think>","</think>"],"offset":-0.5}]`
	again := New()
	require.NoError(t, again.Set("rewards="+list))
	assert.Equal(t, `[{"kind":"tags","offset":-0.5,"tags":["<think>","</think>"]}]`, inline(again.Value("rewards")))
}
