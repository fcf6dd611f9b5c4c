package pipeline_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state"
)

// A network that reads its parameters in few bits, the tied head among them, learns the same on stages as on one device, to the bytes of its
// checkpoint; and other numbers than without.
func TestQuantizedNetworkOnStages(t *testing.T) {
	devices := fleet(t, 3)
	plain := deep(t)
	for mode, optimizer := range map[string]string{"affine": "adamw", "nvfp4": "muon"} {
		def, err := model.WithQuantization(plain, model.Quantization{Mode: mode, Match: []string{"weight"}})
		require.NoError(t, err)
		c := steep(def, optimizer, "{}", 1, 3)
		with := batches(c, 3)
		whole, err := state.Create(t.Context(), devices[0], c)
		require.NoError(t, err)
		defer whole.Release()
		want := learn(t, whole, with)
		moved(t, c, learnt{want, paramsOf(t, whole)})
		files := saved(t, whole, filepath.Join(t.TempDir(), "one"))
		require.Contains(t, files["config.json"], `"fake_quantization"`)
		for stages := 2; stages <= len(devices); stages++ {
			for o, order := range orders {
				if testing.Short() && (o+stages)%2 == 1 {
					continue // each order in one number of stages
				}
				t.Run(fmt.Sprint(mode, " ", stages, " ", order.label), func(t *testing.T) {
					s := create(t, devices[:stages], pipeline.Config{
						State: c, Assignment: assignment(t, c, stages, order.chunks), Schedule: order.name, Ahead: order.ahead, Timeout: gputest.Patience,
					})
					defer s.Release()
					require.Equal(t, want, learn(t, s, with))
					require.Equal(t, files, saved(t, s, filepath.Join(t.TempDir(), "many")))
				})
			}
		}
		c.Definition = plain
		require.NotEqual(t, want[0].Loss, alone(t, devices[0], c, with).metrics[0].Loss)
	}
}
