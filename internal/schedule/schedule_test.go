package schedule

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shapes calls visit with every schedule of up to 8 stages, 4 chunks, 24 microbatches and 2 ahead, and some larger ones.
func shapes(t *testing.T, visit func(c Config, s *Schedule)) {
	t.Helper()
	count := 0
	try := func(c Config) {
		s, err := New(c)
		if c.Validate() != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		count++
		visit(c, s)
	}
	for _, name := range Names() {
		for stages := 1; stages <= 8; stages++ {
			for chunks := 1; chunks <= 4; chunks++ {
				for microbatches := 1; microbatches <= 24; microbatches++ {
					for ahead := range 3 {
						try(Config{name, stages, chunks, microbatches, ahead})
					}
				}
			}
		}
		for _, c := range []Config{{"", 16, 2, 39, 0}, {"", 11, 5, 100, 0}, {"", 16, 1, 40, 7}, {"", 9, 1, 200, 50}, {"", 13, 6, 25, 0}} {
			c.Name = name
			try(c)
		}
	}
	require.Greater(t, count, 1500)
}

// A pipeline of ahead 0 without chunks sends nothing before its turn: links need hold only one message.
func TestScheduleIsValid(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		require.Equal(t, c.Name, s.Name)
		require.Equal(t, c.Stages*max(c.Chunks, 1), s.Parts)
		require.NoError(t, s.Check(2), c)
		require.True(t, wellFormed(s), c)
		if s.Parts == s.Stages && c.Ahead == 0 {
			require.NoError(t, s.Check(1), c)
		}
	})
}

func TestScheduleSlots(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		for p := range s.Parts {
			want := countSlots(s, p)
			switch below := s.Parts - 1 - p; {
			case c.Name == GPipe:
				want = c.Microbatches
			case s.Parts == s.Stages && below == 0:
				want = 1
			case s.Parts == s.Stages:
				want = min(c.Microbatches, s.Parts-p+min(c.Ahead, 2*below))
			}
			require.Equal(t, want, s.Slots(p), "%+v part %d", c, p)
		}
	})
}

// countSlots is the most forwards of a part without their backward, over all moments of its stage.
func countSlots(s *Schedule, part int) int {
	actions, most := s.Actions[part%s.Stages], 0
	for until := range actions {
		flying := map[int]bool{}
		for _, a := range actions[:until+1] {
			if a.Part == part && a.Kind == Forward {
				flying[a.Microbatch] = true
			} else if a.Part == part {
				delete(flying, a.Microbatch)
			}
		}
		most = max(most, len(flying))
	}
	return most
}

func TestScheduleMerged(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		for p := range s.Parts - 1 {
			require.False(t, s.Merged(p), "%+v part %d", c, p)
		}
		switch {
		case c.Name == GPipe:
			require.Equal(t, c.Microbatches == 1, s.Merged(s.Parts-1), c)
		case s.Parts == s.Stages || c.Microbatches%c.Stages == 0 || c.Microbatches < c.Stages:
			require.True(t, s.Merged(s.Parts-1), c)
		default:
			require.Equal(t, countSlots(s, s.Parts-1) == 1, s.Merged(s.Parts-1), c)
		}
	})
}

// TestOnly: some microbatches of a schedule run to their end over the same links and programs, in no more room.
func TestOnly(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		for every := 2; every <= 3; every++ {
			var some []int
			for i := c.Microbatches % every; i < c.Microbatches; i += 1 + i%every {
				some = append(some, i)
			}
			only := s.Only(some)
			if len(some) == 0 {
				require.Empty(t, slices.Concat(only.Actions...))
				continue
			}
			require.NoError(t, only.Check(LinkMessages), c)
			for part := range s.Parts {
				require.LessOrEqual(t, only.Slots(part), s.Slots(part))
				require.True(t, only.Merged(part) || !s.Merged(part))
			}
		}
	})
}

// Megatron-LM's numbering: action k of a stage is of chunk (k mod S v) div S, the last chunk first backward.
func TestInterleavedIsMegatrons(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		if c.Name != Interleaved || c.Chunks < 2 || c.Microbatches%c.Stages != 0 {
			return
		}
		action := func(stage, k int, kind Kind) Action {
			chunk := k % (c.Stages * c.Chunks) / c.Stages
			if kind == Backward {
				chunk = c.Chunks - 1 - chunk
			}
			return Action{kind, chunk*c.Stages + stage, k/(c.Stages*c.Chunks)*c.Stages + k%c.Stages}
		}
		total := c.Microbatches * c.Chunks
		for stage := range c.Stages {
			warmup := min((c.Stages-stage-1)*2+(c.Chunks-1)*c.Stages, total)
			var want []Action
			for k := range warmup {
				want = append(want, action(stage, k, Forward))
			}
			for k := range total {
				if warmup+k < total {
					want = append(want, action(stage, warmup+k, Forward))
				}
				want = append(want, action(stage, k, Backward))
			}
			require.Equal(t, want, s.Actions[stage], c)
		}
	})
}

func TestForwardOnly(t *testing.T) {
	for stages := 1; stages <= 8; stages++ {
		for parts := 1; parts <= 26; parts++ {
			for microbatches := 1; microbatches <= 20; microbatches++ {
				s := ForwardOnly(stages, parts, microbatches)
				require.NoError(t, s.Check(2), "%d %d %d", stages, parts, microbatches)
				require.False(t, s.Merged(parts-1))
				require.Equal(t, 1, s.Slots(parts-1))
				if parts%stages == 0 && microbatches >= stages {
					played := s.Simulate(func(Action) float64 { return 1 }, nil)
					require.InDelta(t, microbatches*parts/stages+stages-1, played.Makespan, 0, "%d %d %d", stages, parts, microbatches)
				}
			}
		}
	}
}

func TestConfigIsRefused(t *testing.T) {
	for want, c := range map[string]Config{
		`pipeline: schedule: found "1f1", wanted one of gpipe, 1f1b, interleaved, did you mean "1f1b"?`:            {"1f1", 1, 1, 1, 0},
		"pipeline: stages: found 0, wanted 1 or more":                                                              {GPipe, 0, 1, 1, 0},
		"pipeline: chunks: found -1, wanted 1 or more":                                                             {Interleaved, 1, -1, 1, 0},
		"pipeline: chunks: found 2 with schedule 1f1b, wanted 1, or schedule interleaved":                          {OneForwardOneBackward, 1, 2, 1, 0},
		"pipeline: microbatches: found 0, wanted 1 or more":                                                        {GPipe, 1, 1, 0, 0},
		"pipeline: ahead: found -1, wanted 0 or more":                                                              {OneForwardOneBackward, 1, 1, 1, -1},
		"pipeline: ahead: found 1 with schedule gpipe, whose stages run ahead already; wanted 0, or schedule 1f1b": {GPipe, 1, 1, 1, 1},
	} {
		_, err := New(c)
		assert.EqualError(t, err, want)
	}
	s, err := New(Config{Name: Interleaved, Stages: 2, Microbatches: 1})
	require.NoError(t, err)
	assert.Equal(t, 2, s.Parts, "no chunks are one")
	assert.Equal(t, [][]Action{{{Forward, 0, 0}, {Backward, 0, 0}}, {{Forward, 1, 0}, {Backward, 1, 0}}}, s.Actions)
}
