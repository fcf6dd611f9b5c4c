package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/fit"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// stagedTarget is one device that says it were two stages, which in step n are busy for n and 2n percent of the time.
type stagedTarget struct{ oneDevice }

type stagedState struct{ *state.TrainState }

func (s stagedState) StageUse() (state.StageUse, bool) {
	n := float64(s.Step()) / 100
	return state.StageUse{Busy: []float64{n, 2 * n}, Bubble: 1 - 1.5*n, Transfer: n / 2}, s.Step() > 0
}

func (s stagedTarget) Plan(ctx context.Context, choices []state.Job, visit func(fit.Takes) (bool, error)) error {
	return s.oneDevice.Plan(ctx, choices, func(t fit.Takes) (bool, error) {
		t.Memory, t.Holds = append(t.Memory, t.Memory[0]), []string{"wte to h.0", "ln_f"}
		return visit(t)
	})
}

func (s stagedTarget) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	made, err := s.oneDevice.Create(ctx, c, params)
	if err != nil {
		return nil, err
	}
	return stagedState{made.(*state.TrainState)}, nil
}

func (s stagedTarget) Load(ctx context.Context, c state.Config, dir string) (State, checkpoint.Record, error) {
	made, record, err := s.oneDevice.Load(ctx, c, dir)
	if err != nil {
		return nil, record, err
	}
	return stagedState{made.(*state.TrainState)}, record, nil
}

func (s stagedTarget) Devices() []*gpu.Device { return []*gpu.Device{s.device, s.device} }

// A part of one unit has its name, one of several the names of its first and its last; parts of a stage are told one after the other.
func TestStagesNameWhatTheyHold(t *testing.T) {
	c := tinyRun(t, t.TempDir()).State
	built, err := c.Definition.Build(c.Batch, c.Definition.Context(), model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	units, err := partition.Units(built)
	require.NoError(t, err)
	for _, of := range []struct {
		stages, chunks int
		holds          []string
	}{
		{1, 1, []string{"embedding to head"}},
		{3, 1, []string{"embedding", "h.0", "head"}},
		{1, 3, []string{"embedding, h.0, head"}},
	} {
		assignment, err := partition.Auto(units, of.stages, of.chunks, nil)
		require.NoError(t, err)
		for stage, want := range of.holds {
			assert.Equal(t, want, pipelined{config: pipeline.Config{Assignment: assignment}}.holds(c, stage), "%d stages of %d parts", of.stages, of.chunks)
		}
	}
}

// A run on one device goes on, on a target of the caller's, to the bits of one that never stopped, and tells what its stages did.
func TestRunOnStages(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	dir := t.TempDir()
	var out bytes.Buffer
	c := tinyRun(t, dir)
	c.Output, c.Interval = &out, time.Nanosecond
	halted(t, dev, c, StepBegin, 5)
	assert.NotContains(t, out.String(), "stage")
	c.Hooks = nil
	result, err := RunOn(t.Context(), stagedTarget{oneDevice{device: dev}}, c)
	require.NoError(t, err)
	require.EqualValues(t, 5, result.Resumed)
	require.Equal(t, want, outcomeOf(t, dir))

	assert.Regexp(t, `stage 0, wte to h\.0: .*; memory planned [0-9.]+ [KM]iB: params `, out.String())
	assert.Contains(t, out.String(), "stage 1, ln_f: ")
	assert.Regexp(t, `parameters; memory planned [0-9.]+ [KM]iB on 2 stages\n`, out.String())
	assert.Regexp(t, `step 12/12 .* tokens/s  stages [0-9]+% [0-9]+%  `, out.String())
	raw := textAt(t, dir, metricsFile)
	lines := 0
	for _, line := range strings.Split(strings.TrimSpace(raw), "\n") {
		var m struct {
			StageBusy []float64 `json:"stage_busy"`
			Bubble    float64   `json:"bubble"`
			Transfer  float64   `json:"transfer"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if len(m.StageBusy) == 0 {
			continue
		}
		lines++
		require.Len(t, m.StageBusy, 2, line)
		assert.InDelta(t, 2*m.StageBusy[0], m.StageBusy[1], 1e-12)
		assert.InDelta(t, 1-1.5*m.StageBusy[0], m.Bubble, 1e-12)
		assert.InDelta(t, m.StageBusy[0]/2, m.Transfer, 1e-12)
	}
	assert.Equal(t, 7, lines, "steps 6 to 12")
	report := textAt(t, dir, reportFile)
	assert.Contains(t, report, "| stage 1 | ln_f: ")
	planned := takesOf(t, stagedTarget{oneDevice{device: dev}}, c.withDefaults().withRows(t.Context()).State)
	assert.Contains(t, report, fmt.Sprintf("| device: %s | %s | ", dev.Adapter(), gpu.SizeText(planned.Bytes())), "two stages on one device")
	assert.Contains(t, report, "| stages | busy ")
}

func TestMeanUse(t *testing.T) {
	line := func(bubble, transfer Number, busy ...Number) Metrics {
		return Metrics{Cost: Cost{StageBusy: busy, Bubble: bubble, Transfer: transfer}}
	}
	of := func(lines ...Metrics) state.StageUse {
		var s sums
		for _, m := range lines {
			s.add(m)
		}
		return s.use()
	}
	assert.Nil(t, of().Busy)
	assert.Nil(t, of(Metrics{}, Metrics{}).Busy)
	got := of(line(0.9, 0.9, 1, 1, 1), line(0.2, 0, 0.5, 1), Metrics{}, line(0.4, 0.5, 0.7, 0.5))
	assert.InDeltaSlice(t, []float64{0.6, 0.75}, got.Busy, 1e-12, "of the lines with two stages; those without any do not count")
	assert.InDelta(t, 0.3, got.Bubble, 1e-12)
	assert.InDelta(t, 0.25, got.Transfer, 1e-12)

	var h history
	h.add(line(0.3, 0.25, 0.6, 0.75))
	rows := h.figures()
	assert.Equal(t, fact{"stages", "busy 60% 75% of the time in steps; nothing to do 30%, transfers 25%"}, rows[len(rows)-1])
	s := status(7)
	s.StageBusy = []Number{0.934, 0.88}
	assert.Equal(t, "step 7/100  loss 2.5000  lr 0.001  12,346 tokens/s  stages 93% 88%  1m01s left", s.text())
}

type refusingTarget struct{ stagedTarget }

func (refusingTarget) Create(context.Context, state.Config, []buffers.Host) (State, error) {
	return nil, gpu.ErrOutOfMemory
}
