package timeline_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/schedule"
	"gputrain/internal/timeline"
)

// twoStages are joined by a link each way.
var twoStages = timeline.Lanes{
	Stages: []string{"stage 0", "stage 1"},
	Links:  []timeline.LinkLane{{Name: "0 to 1", From: 0, To: 1}, {Name: "1 to 0", From: 1, To: 0}},
}

func computes(stage int, start, end time.Duration) timeline.Span {
	return timeline.Span{Kind: timeline.Compute, Stage: stage, Name: "forward", Start: start, End: end}
}

func waits(stage, link, microbatch int, start, end time.Duration) timeline.Span {
	return timeline.Span{Kind: timeline.Wait, Stage: stage, Link: link, Microbatch: microbatch, Start: start, End: end}
}

func transfers(link, microbatch int, start, end time.Duration) timeline.Span {
	return timeline.Span{Kind: timeline.Transfer, Link: link, Microbatch: microbatch, Start: start, End: end}
}

// All windows are 0 to 100.
func TestMeasureUse(t *testing.T) {
	type use = timeline.Use
	cases := map[string]struct {
		spans []timeline.Span
		want  use
	}{
		"nothing": {nil, use{Busy: []float64{0, 0}, Bubble: 1, Hidden: 1, Overlapped: 1}},
		"all the time": {
			[]timeline.Span{computes(0, 0, 100), computes(1, 0, 100)},
			use{Busy: []float64{1, 1}, Bubble: 0, Hidden: 1, Overlapped: 1},
		},
		"spans that overlap, touch and reach beyond the window count once": {
			[]timeline.Span{computes(0, 30, 50), computes(0, -20, 10), computes(0, 40, 60), computes(0, 60, 70), computes(0, 45, 50), computes(0, 90, 140), computes(0, 100, 200), computes(1, 10, 35)},
			use{Busy: []float64{0.6, 0.25}, Bubble: 0.575, Hidden: 1, Overlapped: 1},
		},
		"waits are not work": {
			[]timeline.Span{waits(0, -1, -1, 0, 50), waits(1, 0, 0, 0, 50)},
			use{Busy: []float64{0, 0}, Bubble: 1, Hidden: 1, Overlapped: 1},
		},
		"the receiver waits for half of a transfer": {
			[]timeline.Span{computes(0, 0, 20), transfers(0, 0, 20, 40), waits(1, 0, 0, 30, 40), computes(1, 40, 60)},
			use{Busy: []float64{0.2, 0.2}, Bubble: 0.8, Transfer: 0.2, Hidden: 0.5, Overlapped: 0},
		},
		"it waits, but its device is still at work": {
			[]timeline.Span{transfers(0, 0, 20, 40), waits(1, 0, 0, 0, 100), computes(1, 10, 35)},
			use{Busy: []float64{0, 0.25}, Bubble: 0.875, Transfer: 0.2, Hidden: 0.75, Overlapped: 0.75},
		},
		"it waits for another microbatch": {
			[]timeline.Span{transfers(0, 1, 20, 40), waits(1, 0, 0, 0, 100)},
			use{Busy: []float64{0, 0}, Bubble: 1, Transfer: 0.2, Hidden: 1, Overlapped: 0},
		},
		"it waits for another link": {
			[]timeline.Span{transfers(0, 0, 20, 40), waits(0, 1, 0, 0, 100)},
			use{Busy: []float64{0, 0}, Bubble: 1, Transfer: 0.2, Hidden: 1, Overlapped: 0},
		},
		"the sender waits for room, which is no wait for the transfer": {
			[]timeline.Span{transfers(0, 0, 20, 40), waits(0, 0, 0, 0, 100), computes(0, 20, 30)},
			use{Busy: []float64{0.1, 0}, Bubble: 0.95, Transfer: 0.2, Hidden: 1, Overlapped: 0.5},
		},
		"both ends work at different times, and together": {
			[]timeline.Span{transfers(1, 0, 0, 40), computes(0, 0, 20), computes(1, 10, 30)},
			use{Busy: []float64{0.2, 0.2}, Bubble: 0.8, Transfer: 0.4, Hidden: 1, Overlapped: 0.75},
		},
		"two links at once carry once; each transfer counts for itself": {
			[]timeline.Span{
				transfers(0, 0, 0, 40), transfers(1, 0, 20, 60), waits(0, 1, 0, 20, 60), waits(1, 0, 0, 0, 10), waits(1, 0, 0, 5, 15),
			},
			use{Busy: []float64{0, 0}, Bubble: 1, Transfer: 0.6, Hidden: 1 - 55.0/80, Overlapped: 0},
		},
		"a transfer cut by the window": {
			[]timeline.Span{transfers(0, 0, 90, 150), waits(1, 0, 0, 95, 150)},
			use{Busy: []float64{0, 0}, Bubble: 1, Transfer: 0.1, Hidden: 0.5, Overlapped: 0},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for shift := range len(c.spans) + 1 { // the order of spans says nothing
				got := timeline.MeasureUse(twoStages, append(c.spans[min(shift, len(c.spans)):len(c.spans):len(c.spans)], c.spans[:shift]...), 0, 100)
				require.InDeltaSlice(t, c.want.Busy, got.Busy, 1e-12)
				for figure, pair := range map[string][2]float64{
					"bubble": {c.want.Bubble, got.Bubble}, "transfer": {c.want.Transfer, got.Transfer},
					"hidden": {c.want.Hidden, got.Hidden}, "overlapped": {c.want.Overlapped, got.Overlapped},
				} {
					assert.InDelta(t, pair[0], pair[1], 1e-12, figure)
				}
			}
		})
	}
	assert.Equal(t, use{Busy: []float64{0, 0}, Bubble: 1, Hidden: 1, Overlapped: 1},
		timeline.MeasureUse(twoStages, []timeline.Span{computes(0, 0, 100)}, 50, 50), "no time at all")
}

// The figures of a schedule that was played through are those of the schedule.
func TestMeasureUseOfASchedule(t *testing.T) {
	const stages, microbatches = 4, 6
	s, err := schedule.New(schedule.Config{Name: schedule.GPipe, Stages: stages, Chunks: 1, Microbatches: microbatches})
	require.NoError(t, err)
	played := s.Simulate(func(schedule.Action) float64 { return 1000 }, nil)
	lanes := timeline.Lanes{Stages: make([]string, stages)}
	var spans []timeline.Span
	for stage := range played.Start {
		for i, start := range played.Start[stage] {
			spans = append(spans, computes(stage, time.Duration(start), time.Duration(played.End[stage][i])))
		}
	}
	use := timeline.MeasureUse(lanes, spans, 0, time.Duration(played.Makespan))
	assert.InDelta(t, (stages-1.0)/(microbatches+stages-1.0), use.Bubble, 1e-12)
	for i, busy := range use.Busy {
		assert.InDelta(t, 1-played.Idle[i], busy, 1e-12)
	}
}

func TestRecorderKeepsTheLastSteps(t *testing.T) {
	for _, keep := range []int{0, 1, 3} {
		r := timeline.NewRecorder(twoStages, keep)
		now := time.Now()
		r.Add(computes(0, 0, 0), now, now)
		const steps = 10
		for step := range steps {
			r.Begin()
			for i := range step + 1 {
				at := now.Add(time.Duration(steps*step+i) * time.Microsecond)
				r.Add(timeline.Span{Microbatch: step, Part: i}, at, at.Add(time.Nanosecond))
			}
			r.End()
		}
		spans, dropped := r.Spans()
		assert.Equal(t, 1, dropped, "before the first step")
		first := steps - keep
		if keep == 0 {
			first = 0
		}
		for step := first; step < steps; step++ {
			for i := range step + 1 {
				require.NotEmpty(t, spans)
				require.Equal(t, [2]int{step, i}, [2]int{spans[0].Microbatch, spans[0].Part})
				require.Equal(t, time.Nanosecond, spans[0].End-spans[0].Start)
				spans = spans[1:]
			}
		}
		require.Empty(t, spans)
	}
}

// The figures of a step are of its own time, from Begin to End.
func TestRecorderMeasuresAStep(t *testing.T) {
	r := timeline.NewRecorder(twoStages, 2)
	assert.Zero(t, r.End(), "no step")
	begin := time.Now()
	r.Begin()
	time.Sleep(2 * time.Millisecond)
	r.Add(computes(0, 0, 0), begin.Add(-time.Hour), time.Now().Add(time.Hour))
	use := r.End()
	assert.Equal(t, []float64{1, 0}, use.Busy)
	assert.Equal(t, 0.5, use.Bubble)
	r.Begin()
	time.Sleep(time.Millisecond)
	assert.Equal(t, []float64{0, 0}, r.End().Busy, "the span is the step's before")
}

func TestRecorderFromManyGoroutines(t *testing.T) {
	r := timeline.NewRecorder(twoStages, 0)
	r.Begin()
	var all sync.WaitGroup
	for stage := range 4 {
		all.Go(func() {
			for i := range 500 {
				now := time.Now()
				r.Add(timeline.Span{Kind: timeline.Wait, Stage: stage % 2, Link: -1, Microbatch: i}, now, now)
			}
		})
	}
	all.Wait()
	r.End()
	spans, dropped := r.Spans()
	require.Len(t, spans, 2000)
	require.Zero(t, dropped)
	for i := range spans[1:] {
		require.LessOrEqual(t, spans[i].Start, spans[i+1].Start)
	}
}

// A step that is recorded makes no garbage but for its figures.
func TestRecorderAllocatesNothing(t *testing.T) {
	r := timeline.NewRecorder(twoStages, 2)
	step := func() {
		r.Begin()
		for i := range 64 {
			now := time.Now()
			r.Add(timeline.Span{Microbatch: i}, now, now)
		}
	}
	for range 4 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(20, step))
}
