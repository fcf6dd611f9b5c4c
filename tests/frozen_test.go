package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/checkpoint"
	"gputrain/model"
)

// Parameters whose rate is multiplied by nothing keep every bit, weight decay or not, whatever optimizer learns the others.
func TestFrozenParameters(t *testing.T) {
	p := newPlace(t)
	for _, optimizer := range []string{"adamw", "adafactor", "muon", "quad"} {
		ok(t, p.train(optimizer, "--set", "train.steps=2", "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0",
			"--set", "optimizer.name="+optimizer, "--set", "optimizer.decay_mask=['.']", "--set", `optimizer.rates=[{match: '^wte|^h\.0\.', multiplier: 0}]`))
		def, got, err := model.ReadHF(p.path(optimizer, "checkpoints", checkpoint.DirName(2)))
		require.NoError(t, err)
		frozen := 0
		for i, drawn := range model.Init(def, 7) {
			if strings.HasPrefix(drawn.Path, "wte") || strings.HasPrefix(drawn.Path, "h.0.") {
				frozen++
				assert.Equal(t, drawn, got[i], optimizer)
			} else {
				assert.NotEqual(t, drawn, got[i], optimizer)
			}
		}
		assert.Equal(t, 1+12, frozen)
	}
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^nope, multiplier: 0}]"), 2, `pattern "^nope": matches none of the`)
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^wte, multiplier: -1}]"), 2, "optimizer.rates[0].multiplier (--set)", "wanted 0 to")
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^wte, factor: 0}]"), 2, "optimizer.rates", "factor")
}
