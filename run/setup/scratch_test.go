package setup

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/state"
)

// trained are families that have between them what there is: windows, two rotations, norms of all kinds, joined matrices. To compile the
// programs of all takes half a minute.
var trained = []string{"gemma3_text", "olmo2", "phi3"}

// The run file that a size of a family comes to describes the network that its head names, whose memory is planned, which trains, and which is
// read again as it was written.
func TestTemplateOfEveryFamily(t *testing.T) {
	dev := gputest.Device(t)
	for _, kind := range model.Kinds() {
		size := 6e4
		if slices.Contains([]string{"gpt_oss", "qwen3_5_moe_text", "qwen3_moe"}, kind) {
			size = 2e5 // of experts
		}
		keys, def, err := model.Sized(kind, size, 50, 8, nil)
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, runfile.TemplateOf(&text, kind, keys, def, ""))
		n := model.Parameters(def)
		assert.Contains(t, text.String(), fmt.Sprintf("%s of %d,%03d parameters", kind, n/1000, n%1000))
		cfg := runfile.New()
		require.NoError(t, cfg.Parse("run.yaml", text.Bytes()), "%s", text.String())
		require.NoError(t, cfg.Set("train.batch=1"))
		require.NoError(t, cfg.Validate())
		c, _, err := State(cfg, io.Discard)
		require.NoError(t, err, kind)
		assert.Equal(t, def.Settings(), c.Definition.Settings(), kind)

		job, err := state.NewJob(c)
		require.NoError(t, err)
		plan, err := state.Plan(t.Context(), job, dev.Limits())
		require.NoError(t, err, kind)
		assert.Positive(t, plan.Total())
		if !slices.Contains(trained, kind) {
			continue
		}
		s, err := state.Create(t.Context(), dev, c)
		require.NoError(t, err, kind)
		batch := data.Batch{Rows: 1, Tokens: []int32{1, 2, 3, 4, 5, 6, 7, 8}, Labels: []int32{2, 3, 4, 5, 6, 7, 8, 9}, Count: 8}
		for range 2 {
			_, err := s.TrainStep(t.Context(), batch)
			require.NoError(t, err, kind)
		}
		all, err := s.Drain(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, all)
		last := all[len(all)-1]
		assert.Less(t, math.Abs(float64(last.Loss)-math.Log(50)), 1., "%s: an untrained model knows nothing", kind)
		read := func(path string) ([]float32, error) { return s.Params().Read(t.Context(), path) }
		dir := filepath.Join(t.TempDir(), kind)
		require.NoError(t, model.Export(dir, c.Definition, read, model.ExportOptions{}))
		again, hosts, err := hub.ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, kind, again.Kind())
		for _, h := range hosts {
			want, err := read(h.Path)
			require.NoError(t, err)
			require.Equal(t, want, h.Data, "%s: %s", kind, h.Path)
		}
		s.Release()
	}
}
