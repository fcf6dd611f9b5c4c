package train

import (
	"fmt"
	"strings"
	"time"

	"gputrain/internal/system"
	"gputrain/state"
)

// Cost is what a step has taken of time and memory: all of a line of metrics that differs between two runs of the same bits. What cannot be
// known is left out.
type Cost struct {
	TokensPerSecond       Number `json:"tokens_per_second"`        // that count in the loss
	PaddedTokensPerSecond Number `json:"padded_tokens_per_second"` // that were computed: padding, and what the loss leaves out, as well
	StepMS                Number `json:"step_ms"`                  // between the arrival of metrics, without evaluation and saving
	DataWaitMS            Number `json:"data_wait_ms"`             // for which the loop waited for the batch of the step
	RolloutMS             Number `json:"rollout_ms,omitempty"`     // that the generation took which begins with the step, before it
	// DeviceMS is how long the device was at work on the step, from when it could begin until its results were there; of a pipeline, how long
	// its busiest stage computed.
	DeviceMS Number `json:"device_ms,omitempty"`
	// MFU is the share of Config.Peak that forward and backward pass made of StepMS, from 0 to 1: operations counted one by one at the shape of
	// the batch, nothing that is computed twice, and not those of the optimizer.
	MFU             Number `json:"mfu,omitempty"`
	DeviceBytes     uint64 `json:"device_bytes"`         // of all buffers of the devices, as the allocator has them
	DevicePeakBytes uint64 `json:"device_peak_bytes"`    // the most they were so far, in this process
	HostBytes       uint64 `json:"host_bytes,omitempty"` // resident memory of the process; with a software adapter the buffers are in it

	// Where the model is cut into stages, shares of the time of the step, from 0 to 1.
	StageBusy []Number `json:"stage_busy,omitempty"` // in which each stage computed
	Bubble    Number   `json:"bubble,omitempty"`     // in which stages had nothing to do: 1 - the mean of StageBusy
	Transfer  Number   `json:"transfer,omitempty"`   // in which something was under way between stages

	Cluster *clusterCost `json:"cluster,omitempty"` // where several ranks train the model
}

// clusterCost is what a step has taken of several ranks.
type clusterCost struct {
	PassesMS []Number `json:"passes_ms"` // of each rank
	Slowest  int      `json:"slowest"`   // the rank whose passes took longest
	Transfer Number   `json:"transfer"`  // share of the step in which gradients, or waits for them, were under way between ranks; the mean of all
	Hidden   Number   `json:"hidden"`    // share of that in which the devices still computed or copied gradients
	Bytes    uint64   `json:"bytes"`     // of gradients that all ranks together have sent
}

// given is what is known of a step before its metrics are.
type given struct {
	epoch     float64
	positions int64 // tokens computed
	wait      time.Duration
}

// timed is a State that tells how long its devices were at work on a step whose metrics it has just returned, and when they were done.
type timed interface {
	DeviceTime(step int64) (worked time.Duration, done time.Time)
}

// meter measures steps.
type meter struct {
	team  *team
	flops float64         // of an update, but for the optimizer's
	peak  float64         // of the devices, a second; 0: nobody knows
	given map[int64]given // of steps whose metrics have not been taken
	mark  time.Time       // when the last step was done, or training went on after an evaluation or a save
}

// begin takes note of a step.
func (m *meter) begin(step int64, g given) {
	if m.given == nil {
		m.given = map[int64]given{}
	}
	m.given[step] = g
}

// end is what a step was given, and what it has taken; left steps share what has passed, where the state does not tell.
func (m *meter) end(s State, of state.Metrics, left int) (given, Cost) {
	took, worked := m.elapse(s, of.Step, left)
	g := m.given[of.Step]
	delete(m.given, of.Step)
	return g, m.cost(s, of, g, took, worked)
}

// goOn is when training goes on after something else.
func (m *meter) goOn() { m.mark = time.Now() }

// elapse is the time that a step took since the one before it, or since training went on, and how much of it the devices were at work. Steps
// of a state that does not tell share what has passed with those whose metrics came with theirs, left of them with this one.
func (m *meter) elapse(of State, step int64, left int) (took, worked time.Duration) {
	done := m.mark.Add(time.Since(m.mark) / time.Duration(left))
	if s, ok := of.(timed); ok {
		if of, at := s.DeviceTime(step); at.After(m.mark) {
			worked, done = of, at
		}
	}
	took, m.mark = done.Sub(m.mark), done
	return took, worked
}

// cost makes the account of a step.
func (m *meter) cost(s State, of state.Metrics, g given, took, worked time.Duration) Cost {
	seconds := took.Seconds()
	c := Cost{
		TokensPerSecond: Number(float64(of.Tokens) / seconds), PaddedTokensPerSecond: Number(float64(g.positions) / seconds),
		StepMS: Number(milliseconds(took)), DataWaitMS: Number(milliseconds(g.wait)), DeviceMS: Number(milliseconds(worked)),
	}
	if m.peak > 0 {
		c.MFU = Number(m.flops / seconds / m.peak)
	}
	for _, d := range m.team.own() {
		counted := d.Counters()
		c.DeviceBytes, c.DevicePeakBytes = c.DeviceBytes+counted.LiveBytes, c.DevicePeakBytes+counted.PeakBytes
	}
	c.HostBytes = system.ResidentMemory()
	c.Cluster = m.team.cost(took)
	if use := useOf(s); use != nil {
		c.put(*use)
	}
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// clipped is the norm of a gradient after the optimizer's clip; 0 where it has none.
func (c Config) clipped(norm float64) Number {
	if limit := c.State.Optimizer.Options.ClipGrad; limit != nil {
		return Number(min(norm, *limit))
	}
	return 0
}

// useOf is how a state that is cut into stages has spent the time of the steps whose metrics came last; nil for one that is not.
func useOf(s State) *state.StageUse {
	if staged, ok := s.(interface {
		StageUse() (state.StageUse, bool)
	}); ok {
		if use, known := staged.StageUse(); known {
			return &use
		}
	}
	return nil
}

// put writes a use into a line of metrics.
func (c *Cost) put(use state.StageUse) {
	for _, share := range use.Busy {
		c.StageBusy = append(c.StageBusy, Number(share))
	}
	c.Bubble, c.Transfer = Number(use.Bubble), Number(use.Transfer)
}

// busyText is "93% 88%".
func busyText[T ~float64](shares []T) string {
	var parts []string
	for _, share := range shares {
		parts = append(parts, percent(float64(share)))
	}
	return strings.Join(parts, " ")
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
