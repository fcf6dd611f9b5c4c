package schedule

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tryShape holds a schedule made from numbers, and others that are near it, against what is known in other ways.
func tryShape(t *testing.T, seed uint64) (refused, deadlocked bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := Config{Names()[random.IntN(3)], 1 + random.IntN(5), 1 + random.IntN(3), 1 + random.IntN(7), random.IntN(4)}
	if c.Name != Interleaved {
		c.Chunks = 1
	}
	if c.Name != OneForwardOneBackward {
		c.Ahead = 0
	}
	s, err := New(c)
	require.NoError(t, err)
	require.NoError(t, s.Check(2), c)

	for range random.IntN(4) { // neighbours change places, or any two
		stage := random.IntN(s.Stages)
		i := random.IntN(len(s.Actions[stage]))
		j := (i + 1) % len(s.Actions[stage])
		if random.IntN(8) == 0 {
			j = random.IntN(len(s.Actions[stage]))
		}
		if a, b := s.Actions[stage][i], s.Actions[stage][j]; a.Kind != b.Kind || a.Part != b.Part || random.IntN(8) == 0 {
			swap(s, stage, i, j)
		}
	}
	var extra []Edge
	for range random.IntN(3) {
		if from := random.IntN(s.Parts); from+2 < s.Parts {
			e := Edge{from, from + 2 + random.IntN(s.Parts-from-2), Forward}
			if random.IntN(2) == 0 {
				e = Edge{e.To, e.From, Backward}
			}
			extra = append(extra, e)
		}
	}
	capacity := 1 + random.IntN(3)
	cost := func(a Action) float64 { return float64(1 + (7*a.Part+3*int(a.Kind)+a.Microbatch)%5) }
	transfer := func(from, to int, k Kind) float64 { return float64((from + 3*to + int(k)) % 4) }

	verdict, played := s.Check(capacity, extra...), s.Simulate(cost, transfer, extra...)
	if !wellFormed(s) {
		require.ErrorContains(t, verdict, "found")
		require.InDelta(t, math.Inf(1), played.Makespan, 0)
		return true, false
	}
	_, ends := longestPath(s, capacity, extra, cost, transfer)
	if ends {
		require.NoError(t, verdict, "%+v %v", c, s.Actions)
	} else {
		require.ErrorContains(t, verdict, "deadlock", "%+v %v", c, s.Actions)
	}
	makespan, _ := longestPath(s, 0, extra, cost, transfer)
	require.InDelta(t, makespan, played.Makespan, 0, "%+v %v %v", c, extra, s.Actions)
	return false, !ends
}

// FuzzSchedule tries any schedules; TestSchedulesAtRandom is its short form.
func FuzzSchedule(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { tryShape(t, seed) })
}

func TestSchedulesAtRandom(t *testing.T) {
	refused, deadlocked := 0, 0
	for seed := range uint64(400) {
		r, d := tryShape(t, seed)
		if r {
			refused++
		}
		if d {
			deadlocked++
		}
	}
	t.Log(refused, "refused,", deadlocked, "deadlocks of 400")
	assert.True(t, refused > 10 && deadlocked > 10 && refused+deadlocked < 350, "%d refused, %d deadlocks", refused, deadlocked)
}
