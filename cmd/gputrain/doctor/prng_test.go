package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// A case that differs in one place does not pass.
func TestWrongDrawsAreCaught(t *testing.T) {
	dev := gputest.Device(t)
	c := loadEmbedded(t, "prng")
	for what, change := range map[string][2]string{
		"key": {`"seed": 42`, `"seed": 41`}, "fold_in": {`"data": 100`, `"data": 101`}, "bits": {"2486066623", "2486066622"},
		"split": {"3152301319", "3152301318"}, "table": {`"bf16_table": [
  -2.890625`, `"bf16_table": [
  -2.790625`},
	} {
		spoiled := *c
		spoiled.raw = []byte(strings.Replace(string(c.raw), change[0], change[1], 1))
		require.NotEqual(t, c.raw, spoiled.raw, what)
		seen, err := runPRNG(t.Context(), dev, &spoiled)
		require.NoError(t, err)
		pass, _, _, where := seen.result()
		assert.False(t, pass, what)
		t.Log(what, where)
	}
}

// The random rows of the bound come from the key: another key gives another bound.
func TestWrongUnitsAreCaught(t *testing.T) {
	dev := gputest.Device(t)
	c := loadEmbedded(t, "wk_unit")
	spoiled := *c
	spoiled.raw = []byte(strings.Replace(string(c.raw), "3266265133", "3266265134", 1))
	require.NotEqual(t, c.raw, spoiled.raw)
	seen, err := runUnit(t.Context(), dev, &spoiled)
	require.NoError(t, err)
	pass, _, _, where := seen.result()
	assert.False(t, pass)
	assert.Contains(t, where, "expect/3/")
}
