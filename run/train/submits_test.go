package train

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

// submitting are a state and a target of which no more is known than how a step is submitted, to cards and processors.
type submitting struct {
	State
	Target
	stages  [][]gpu.Planned
	devices []*gpu.Device
}

func (s submitting) Submits() [][]gpu.Planned { return s.stages }

func (s submitting) Devices() []*gpu.Device { return s.devices }

// A step of one submit a microbatch is not worth a word; one that is cut is, and so is a command that a card may be reset in.
func TestSubmitsAreTold(t *testing.T) {
	card := func(kind string) *gpu.Device {
		d := gpu.DryOf(gpu.Adapter{Name: "one", Type: kind}, gpu.DefaultLimits())
		d.Assume(gpu.Speed{FLOPS: 1, BytesPerSecond: 1}, time.Second/2)
		return d
	}
	told := func(d *gpu.Device, all ...gpu.Planned) string {
		var out strings.Builder
		p, err := NewProgress("plain", &out, 0)
		require.NoError(t, err)
		s := submitting{stages: [][]gpu.Planned{nil, all}, devices: []*gpu.Device{d, d}}
		(&rehearsal{state: s, team: &team{target: s}, display: &display{Progress: p}}).tellSubmits()
		return out.String()
	}
	short := gpu.Planned{Times: 1, Takes: 400 * time.Millisecond, Longest: "a", LongestTakes: 300 * time.Millisecond}
	assert.Empty(t, told(card("discrete"), short, short))
	short.Cut = true
	assert.Equal(t, "a step is cut into 2 submits, the longest expected to take 0.4 s\n", told(card("discrete"), short, short))
	long := gpu.Planned{Times: 1, Takes: 3 * time.Second, Longest: "matmul", LongestTakes: 3 * time.Second}
	assert.Equal(t, "warning: matmul is expected to take 3 s, wanted at most 0.5 s (device.submit_limit), and is not to be cut: "+
		"lower train.batch and raise train.accumulate, or raise pipeline.microbatches\n", told(card("discrete"), long))
	assert.Empty(t, told(card("cpu"), long))
}
