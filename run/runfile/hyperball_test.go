package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Keys of what becomes of an update say nothing where what they are of is off.
func TestKeysOfUpdatesWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"optimizer.cautious_decay=true", "optimizer.weight_decay=0"}, "optimizer.cautious_decay (--set): found true, wanted false without optimizer.weight_decay"},
		{[]string{"optimizer.hyperball=true", "model.zero_outputs=true"}, "model.zero_outputs (--set): found true, wanted false with optimizer.hyperball true"},
		{[]string{"optimizer.floor_by=matrix"}, "optimizer.floor_by (--set): found matrix, wanted row without optimizer.update_floor"},
		{[]string{"optimizer.average.from=9"}, "optimizer.average.from (--set): found 9, wanted nothing without optimizer.average.horizon"},
		{[]string{"optimizer.average.without=[wte]"}, `optimizer.average.without (--set): found ["wte"], wanted nothing without optimizer.average.horizon`},
		{[]string{"optimizer.lookahead.until=9"}, "optimizer.lookahead.until (--set): found 9, wanted nothing without optimizer.lookahead.scale"},
		{[]string{"optimizer.average.blend=0.6", "optimizer.lookahead.decay=0.99"}, ""}, // which are the defaults
		{[]string{"optimizer.average.blend=0.5", "optimizer.average.horizon=9", "optimizer.lookahead.decay=0.9", "optimizer.lookahead.scale=0.3"}, ""},
	} {
		_, err := ReadAll(nil, nil, c.sets)
		if c.want == "" {
			assert.NoError(t, err, c.sets)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}
