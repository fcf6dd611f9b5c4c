package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/internal/gputest"
	"gputrain/internal/timeline"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
)

// TestMicrobatchesWithoutAGradient: stages compute as many passes as there are microbatches with an advantage, in any order and with any sums, and learn what one
// device does.
func TestMicrobatchesWithoutAGradient(t *testing.T) {
	const m = 6
	patterns := []string{"011010", "100001", "000000", "111111", "000100"} // 1: it has an advantage
	def := deep(t)
	c := steep(def, "adamw", `{}`, 1, m)
	c.Objective = model.Objective{Loss: "dapo", Numbers: map[string]float64{}}
	for _, n := range c.Objective.Row().Numbers {
		c.Objective.Numbers[n.Name] = map[string]float64{"temperature": 1, "epsilon": 0.2, "epsilon_high": 0.2, "on_policy": 1, "skip_flat": 1}[n.Name]
	}
	var with []data.Batch
	for step, pattern := range patterns {
		b := batch(c, step)
		b.Beside = map[string][]float32{model.InputOld: make([]float32, len(b.Tokens)), model.BesideTruncated: make([]float32, m), model.InputAdvantages: make([]float32, m)}
		for i, r := range pattern {
			b.Beside[model.InputAdvantages][i] = float32(r-'0') * (0.5 - float32(i))
		}
		with = append(with, b)
	}
	devices := fleet(t, 3)
	for i, order := range orders {
		c.Accumulation = []string{state.AccumulateTree, state.AccumulateSequence}[i%2]
		t.Run(fmt.Sprint(order.label, " ", c.Accumulation), func(t *testing.T) {
			want, stages := alone(t, devices[0], c, with), 2+i%2
			s := create(t, devices[:stages], pipeline.Config{
				State: c, Assignment: assignment(t, c, stages, order.chunks), Schedule: order.name, Ahead: order.ahead, Timeout: gputest.Patience, Profile: true,
			})
			defer s.Release()
			sameBits(t, want, learnt{learn(t, s, with), readParams(t, s)})
			spans, _ := s.Recorder().Spans()
			passes := func(part int) (n int) {
				for _, span := range spans {
					if span.Kind == timeline.Compute && span.Part == part && span.Name == "backward" {
						n++
					}
				}
				return n
			}
			for part := range stages * order.chunks {
				assert.Equal(t, strings.Count(strings.Join(patterns, ""), "1"), passes(part), "part %d", part)
			}
		})
	}
}
