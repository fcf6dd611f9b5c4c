package schedule

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func costs(f, b float64) func(Action) float64 {
	return func(a Action) float64 { return []float64{f, b}[a.Kind] }
}

// The bubbles that New promises, in whole numbers of time, so that nothing is rounded.
func TestBubble(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		stages, chunks, microbatches := float64(c.Stages), float64(max(c.Chunks, 1)), float64(c.Microbatches)
		for _, fb := range [][2]float64{{1, 1}, {1, 2}, {1, 3}, {2, 1}} {
			f, b := fb[0], fb[1] // of a chunk
			played := s.Simulate(costs(f, b), nil)
			work, bubble := microbatches*chunks*(f+b), (stages-1)*(f+b)
			most := work + bubble*chunks // what 1F1B takes, whose parts are as long as all chunks of a stage
			if c.Microbatches%c.Stages <= c.Microbatches/c.Stages || chunks == 1 {
				require.InDelta(t, work+bubble, played.Makespan, 0, "%+v %v", c, fb)
			}
			require.LessOrEqual(t, played.Makespan, most, "%+v %v", c, fb)
			for stage := range c.Stages {
				require.InDelta(t, 1-work/played.Makespan, played.Idle[stage], 1e-12)
				if chunks == 1 {
					require.InDelta(t, (stages-1)/(microbatches+stages-1), played.Idle[stage], 1e-12)
				}
			}
		}
	})
}

// What running ahead is for: transfers that take a fifth of a pass cost a stage that waits for each of them much, and one that is ahead
// little more than their way there and back once.
func TestAheadHidesTransfers(t *testing.T) {
	for _, c := range []Config{{OneForwardOneBackward, 2, 1, 24, 0}, {OneForwardOneBackward, 4, 1, 24, 0}, {OneForwardOneBackward, 8, 1, 24, 0}} {
		makespan := func(ahead int) float64 {
			c.Ahead = ahead
			s, err := New(c)
			require.NoError(t, err)
			return s.Simulate(costs(1, 1), func(int, int, Kind) float64 { return 0.2 }).Makespan
		}
		least := 2*float64(24+c.Stages-1) + 2*0.2*float64(c.Stages-1)
		assert.Greater(t, makespan(0), least+1.5)
		assert.InDelta(t, least, makespan(2*(c.Stages-1)), 1e-9, "%d stages", c.Stages)
	}
}

func TestSimulateByHand(t *testing.T) {
	// Stage 0 sends at 1 and 2; a transfer takes 3, one after the other: there at 4 and 7.
	s := ForwardOnly(2, 2, 2)
	transfer := func(from, to int, k Kind) float64 {
		assert.Equal(t, []any{0, 1, Forward}, []any{from, to, k})
		return 3
	}
	assert.Equal(t, Simulation{
		Start: [][]float64{{0, 1}, {4, 7}}, End: [][]float64{{1, 2}, {5, 8}}, Idle: []float64{0.75, 0.75}, Makespan: 8,
	}, s.Simulate(costs(1, 1), transfer))

	// Parts 0 and 2 on stage 0, 1 on stage 1, and part 0's result goes to part 2 as well, for which no link is needed.
	s = ForwardOnly(2, 3, 1)
	played := s.Simulate(costs(1, 1), func(from, to int, _ Kind) float64 { return float64(10*from + to) }, Edge{0, 2, Forward})
	assert.Equal(t, [][]float64{{0, 1 + 1 + 1 + 12}, {1 + 1}}, played.Start)

	s = small(t)
	none := [][]float64{make([]float64, 6), make([]float64, 6)}
	assert.Equal(t, Simulation{Start: none, End: none, Idle: []float64{0, 0}}, s.Simulate(costs(0, 0), nil), "no time is not divided by")
}

func TestSimulateOfWhatDoesNotEnd(t *testing.T) {
	s := small(t)
	swap(s, 0, 0, 1)
	assert.Equal(t, Simulation{Makespan: math.Inf(1)}, s.Simulate(costs(1, 1), nil))
	s = small(t)
	swap(s, 0, 1, 2) // takes the first gradient before it sends the second microbatch
	swap(s, 1, 1, 2) // and its neighbour takes that before it sends the first gradient
	require.NotContains(t, s.Check(9).Error(), "found")
	assert.Equal(t, Simulation{Makespan: math.Inf(1)}, s.Simulate(costs(1, 1), nil))
}
