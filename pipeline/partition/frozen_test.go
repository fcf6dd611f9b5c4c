package partition

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/schedule"
	"gputrain/model"
)

// The work of a unit's backward pass is what frozen parameters leave of it: as the products of the graph of gradients tell, which are nearly all
// of it at this width.
func TestWorkFollowsWhatIsTrained(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 2, Width: 64, Vocab: 32, Context: 16, Untied: true})
	require.NoError(t, err)
	for name, prefixes := range map[string][]string{
		"none": nil, "the begin": {"wte", "wpe", "h.0.", "h.1."}, "the middle": {"h.1.", "h.2."}, "the end": {"h.3.", "ln_f", "lm_head"},
		"some weights": {"h.0.attn", "h.2.mlp.c_fc"},
	} {
		t.Run(name, func(t *testing.T) {
			b := built(t, def, nil)
			var frozen []string
			var wanted []*graph.Value
			for i, p := range def.Params() {
				if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p.Path, prefix) }) {
					frozen = append(frozen, p.Path)
				} else {
					wanted = append(wanted, b.Params[i])
				}
			}
			units, err := Units(b, frozen...)
			require.NoError(t, err)
			before := len(b.Graph.Nodes())
			_, err = graph.Gradients(b.Graph, b.Loss, wanted)
			require.NoError(t, err)
			for _, u := range units[1:5] {
				ahead, back := 0.0, 0.0
				for i, n := range b.Graph.Nodes() {
					if n.Op.Kind() != "matmul" || !strings.HasPrefix(n.Label, u.Name) {
						continue
					}
					if i < before {
						ahead += float64(n.FLOPs())
					} else {
						back += float64(n.FLOPs())
					}
				}
				assert.InDelta(t, back/ahead, float64(u.work()-u.FLOPs)/float64(u.FLOPs), 0.1, u.Name)
			}
			for i, u := range units[:5] {
				still := name == "the begin" && i < 3
				assert.Equal(t, still, u.OneWay == u.Activation, u.Name)
				assert.Equal(t, still, u.OneWay > 0, u.Name)
			}
		})
	}
}

// A stage whose layers are frozen is given more of them.
func TestCutOfAFrozenBegin(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 12, Heads: 2, Width: 64, Vocab: 32, Context: 16})
	require.NoError(t, err)
	frozen := []string{"wpe.weight", "wte.weight"}
	for _, p := range def.Params() {
		if i := strings.TrimPrefix(p.Path, "h."); i != p.Path && i[1] == '.' && i[0] < '8' {
			frozen = append(frozen, p.Path)
		}
	}
	stages := func(frozen ...string) (first int, played schedule.Simulation) {
		units, err := Units(built(t, def, nil), frozen...)
		require.NoError(t, err)
		powers := slices.Repeat([]Power{{Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 1e9}}}, 2)
		a, err := Auto(units, 2, 1, powers)
		require.NoError(t, err)
		s, err := schedule.New(schedule.Config{Name: schedule.OneForwardOneBackward, Stages: 2, Microbatches: 8})
		require.NoError(t, err)
		return len(a.Units(units)[0]), a.Expect(s, units, powers, 0)
	}
	even, all := stages()
	assert.Equal(t, 7, even, "half of the layers, and the embedding")
	begin, part := stages(frozen...)
	assert.Equal(t, 10, begin, "8 layers of one pass and 1 of three against 3 of three")
	assert.InDelta(t, 11.0/18, part.Makespan/all.Makespan, 0.05, "passes over layers on the slower stage")
}
