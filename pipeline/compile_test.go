package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/pipeline"
)

// The kernels of a stage are compiled once, ahead of its programs: one row of progress a stage, whatever the number of parts and slots.
func TestKernelsAreCompiledAhead(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			devices := fleet(t, s.stages)
			c := s.config(t)
			var names []string
			var made []uint64 // on the stage's device, at the end of its row
			c.State.Progress = func(what string, done, total int) {
				if len(names) == 0 || names[len(names)-1] != what {
					names = append(names, what)
					assert.Equal(t, 1, done)
				}
				if done == total {
					made = append(made, devices[len(names)-1].Counters().Pipelines)
				}
			}
			p, err := pipeline.Create(t.Context(), devices, c, nil)
			require.NoError(t, err)
			defer p.Release()
			require.Len(t, names, s.stages)
			require.Len(t, made, s.stages)
			for i := range s.stages {
				assert.Equal(t, fmt.Sprintf("compile kernels of stage %d", i), names[i])
				assert.Greater(t, made[i], uint64(3))
			}
			// What is left to compile is the optimizer's, which is not much.
			for i, d := range devices {
				assert.Less(t, d.Counters().Pipelines-made[i], uint64(8), "stage %d", i)
			}
		})
	}
}
