package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// Stages on one adapter share what it has, on one device or on several; software adapters share the machine's memory.
func TestCompareSharesMemory(t *testing.T) {
	onProcessor := gpu.Limits{Software: true}
	software, other, card := gpu.Adapter{Index: 0, Name: "a", Limits: onProcessor}, gpu.Adapter{Index: 1, Name: "b", Limits: onProcessor}, gpu.Adapter{Index: 2, Name: "c"}
	const limit, machine = "the memory limit", "the machine's available memory"
	at := func(bytes uint64) room { return room{bytes, limit, true} }
	unknown := room{}
	for name, c := range map[string]struct {
		adapters []gpu.Adapter
		rooms    []room
		machine  room
		bytes    []uint64
		stages   []int // that do not fit; nil: all do
		bound    string
		says     string
	}{
		"just":                    {[]gpu.Adapter{card, card}, []room{at(10), at(10)}, unknown, []uint64{4, 6}, nil, "", ""},
		"two devices of one card": {[]gpu.Adapter{card, card}, []room{at(10), at(10)}, unknown, []uint64{4, 7}, []int{0, 1}, limit, "give one of the stages another adapter"},
		"less on the second":      {[]gpu.Adapter{card, card}, []room{at(10), at(3)}, unknown, []uint64{2, 2}, []int{0, 1}, limit, "wanted for 2 stages"},
		"alone":                   {[]gpu.Adapter{card, software}, []room{unknown, at(3)}, unknown, []uint64{9, 4}, []int{1}, limit, "wanted for 1 stage, "},
		"not known":               {[]gpu.Adapter{card, card}, []room{unknown, unknown}, room{1, machine, true}, []uint64{4, 7}, nil, "", ""},
		"another adapter's":       {[]gpu.Adapter{card, software}, []room{at(10), at(10)}, unknown, []uint64{10, 10}, nil, "", ""},
		"two software adapters":   {[]gpu.Adapter{software, card, other}, []room{at(10), unknown, at(10)}, room{15, machine, true}, []uint64{8, 100, 8}, []int{0, 2}, machine, "smaller model"},
		"two that fit":            {[]gpu.Adapter{software, card, other}, []room{at(10), unknown, at(10)}, room{16, machine, true}, []uint64{8, 100, 8}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var memory []MemoryPlan
			for _, b := range c.bytes {
				memory = append(memory, MemoryPlan{Params: b})
			}
			e := compare(c.adapters, c.rooms, c.machine, memory)
			if c.stages == nil {
				require.Nil(t, e)
				return
			}
			require.ErrorIs(t, e, gpu.ErrOutOfMemory)
			assert.Equal(t, c.stages, e.Stages)
			assert.Equal(t, c.bound, e.Bound)
			assert.ErrorContains(t, e, c.says)
		})
	}
}

// Where nothing but the partial sums of gradients is too much, an error of memory proposes to add them up in sequence.
func TestMemoryErrorProposesSequence(t *testing.T) {
	c := plannedConfig(t)
	c.Batch, c.Microbatches, c.Recompute = 1, 2, model.RecomputeLayers
	whole, err := Plan(t.Context(), jobOf(t, c), gpu.DefaultLimits())
	require.NoError(t, err)
	_, err = Create(t.Context(), gputest.Device(t, gputest.WithMemoryLimit(whole.Total()-whole.Sums), func(o *gpu.Options) { o.Texels = gpu.TexelsOff }), c)
	assert.ErrorContains(t, err, "set train.accumulation to sequence: ")
}

// Advice plans the least of each batch, and other choices only where that fits.
func TestAdvicePlansTheLeastFirst(t *testing.T) {
	c := Job{Config{Batch: 64, Microbatches: 1, Sequence: 16, Accumulation: AccumulateTree, Recompute: model.RecomputeNone}}
	row, planned := map[string]int{model.RecomputeNone: 25, model.RecomputeAttention: 22, model.RecomputeLayers: 20}, 0
	plan := func(c Job) ([]MemoryPlan, error) {
		planned++
		return []MemoryPlan{{Step: uint64(c.Batch * row[c.Recompute])}}, nil
	}
	e := &MemoryError{Available: 100, Memory: []MemoryPlan{{Step: 1600}}}
	hint := c.hint(e, plan, func(m []MemoryPlan) bool { return m[0].Total() <= e.Available })
	assert.Contains(t, hint, "lower batch from 64 to 4 (and raise accumulate from 1 to 16 for the same updates): 100 bytes instead of 1.6 KiB")
	assert.Equal(t, 6, planned, "64, 32, 16, 8 and 4 with the least, and 4 as it is")
}
