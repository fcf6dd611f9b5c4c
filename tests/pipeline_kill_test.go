package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// cuts are ways to cut tinyRun's model, each stage with a device of its own or one for all, and the whole model on one device. They all learn
// the same bits.
var cuts = [][]string{
	{"pipeline.stages=3", "pipeline.devices=stage"},
	{"pipeline.stages=2", "pipeline.schedule=gpipe"},
	{"pipeline.stages=2", "pipeline.devices=stage", "pipeline.schedule=interleaved"},
	{"pipeline.stages=4", "pipeline.devices=stage", "train.recompute=layers"},
	{"pipeline.stages=1"},
	{"pipeline.stages=2", "pipeline.devices=stage", "pipeline.ahead=1", `pipeline.rules=[{match: "^w|^h.0", stage: 0}, {match: "^h.1|^ln_f", stage: 1}]`},
}

// A pipelined run is killed again and again and goes on every time in another number of stages, with another schedule, on more devices or fewer; at its
// end it has the files of a run on one device that was left alone.
func TestPipelineKilledAndResumedInOtherStages(t *testing.T) {
	p, want := undisturbedRun(t)
	kills := 3
	switch {
	case soak():
		kills = 12
	case testing.Short():
		kills = 2
	}
	runDir := p.runDir(t, "stages killed")
	expected, _ := killAgain(t, runDir, 20260801, kills, func(kill int) command { return p.staged("stages killed", cuts[kill%len(cuts)]...) })
	ended := ok(t, p.staged("stages killed", cuts[kills%len(cuts)]...))
	requireResumed(t, ended.err, expected)
	requireSame(t, want, outcomeOf(t, runDir))
}

// A run that goes on on an adapter of another kind says that its bits are others, and what it learns is the same within rounding.
func TestPipelineResumedOnAnotherKindOfAdapter(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "pipeline.TestMixedPipeline")
	p := newPlace(t)
	if len(adaptersOf(t, p)) < 2 {
		t.Skip("skipped, needs two adapters")
	}
	short := []string{"train.steps=12", "train.save_every=6", "train.eval_every=6", "train.sample_tokens=0", "pipeline.stages=2"}
	ok(t, p.staged("one kind", append(short, "pipeline.adapters=[0]")...))
	copied := p.runDir(t, "two kinds")
	require.NoError(t, os.CopyFS(copied, os.DirFS(p.path("one kind"))))
	removeCheckpoint(t, copied, 12)
	r := ok(t, p.staged("two kinds", append(short, "pipeline.adapters=[0,1]")...))
	requireResumed(t, r.err, 6)
	assert.Contains(t, r.err, "the run goes on, but not to the same bits")
	want, got := metricsOf(t, p.path("one kind")), metricsOf(t, copied)
	require.Len(t, got, len(want))
	// Six updates of AdamW multiply a rounding of 1e-7 some thousand times where a gradient is next to nothing.
	for i := range want {
		for _, key := range []string{"loss", "eval_loss"} {
			if w, ok := want[i][key].(float64); ok {
				assert.InEpsilon(t, w, got[i][key], 1e-3, "%s of step %v", key, want[i]["step"])
			}
		}
	}
	assert.Equal(t, 1, strings.Count(r.err, "not to the same bits"))
}

func removeCheckpoint(t *testing.T, runDir string, step int64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(runDir, "checkpoints", checkpoint.DirName(step)))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.RemoveAll(found[0]))
}
