package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// A finished run of 4 steps goes on to 8 when it is asked to, and then needs not be asked again.
func TestReschedule(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "train.TestReschedule")
	p := newPlace(t)
	dir := p.runDir(t, "run")
	short := func(steps string, more ...string) command {
		return p.train("run", append([]string{"--set", "train.steps=" + steps, "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0"}, more...)...)
	}
	refused(t, short("4", "--reschedule"), 2, "found no checkpoint, wanted a run to go on with")
	ok(t, short("4"))
	refused(t, short("8"), 2, "train.steps: found 4, wanted 8", "let the schedule change with --reschedule")
	refused(t, short("8", "--reschedule", "--set", "train.seed=1"), 2, "train.seed: found 7, wanted 1")
	refused(t, short("8", "--reschedule", "--fresh"), 2, "--reschedule", "--fresh")
	refused(t, short("3", "--reschedule"), 1, "is at step 4, wanted 3 steps")
	r := ok(t, short("8", "--reschedule", "--set", "optimizer.learning_rate=2e-2"))
	const decision = "rescheduled at step 4: optimizer.learning_rate 0.01 -> 0.02, train.steps 4 -> 8\n"
	assert.Contains(t, r.err, decision)
	assert.Contains(t, read(t, p.path("run", "run.yaml")), "# "+decision)
	steps, _, err := train.ReadMetrics(dir)
	require.NoError(t, err)
	require.Len(t, steps, 8)
	assert.InDelta(t, 1e-2, float64(steps[0].LearningRate), 1e-9)
	assert.InDelta(t, (2e-2+2e-3)/2, float64(steps[4].LearningRate), 1e-9, "half of the cosine, which ends at a tenth of the peak")
	ok(t, short("8", "--set", "optimizer.learning_rate=2e-2"))
	ok(t, p.command("eval", "run"))
}

// A run of a program whose rates ended at 0.00015 by default goes on to that end.
func TestRunGoesOnWithTheDefaultsOfItsRecord(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := p.runDir(t, "run")
	short := []string{"--set", "train.steps=4", "--set", "train.save_every=2", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.sample_tokens=0"}
	ok(t, p.train("run", append(short, "--set", "optimizer.schedule.learning_rate_end=0.00015")...))
	record := read(t, p.path("run", "run.yaml"))
	line := regexp.MustCompile(`(learning_rate_end: 0.00015 *# )--set`)
	require.Regexp(t, line, record)
	record = regexp.MustCompile(`(?m)^ *learning_rate_end_ratio:.*\n`).ReplaceAllString(line.ReplaceAllString(record, "${1}default"), "")
	p.write(t, "run/run.yaml", record)
	require.NoError(t, os.RemoveAll(p.path("run", "checkpoints", checkpoint.DirName(4))))
	ok(t, p.train("run", short...))
	steps, _, err := train.ReadMetrics(dir)
	require.NoError(t, err)
	require.Len(t, steps, 4)
	assert.InDelta(t, (1e-2+0.00015)/2, float64(steps[2].LearningRate), 1e-9)
	assert.Contains(t, read(t, p.path("run", "run.yaml")), "learning_rate_end: 0.00015 ")
}

// A run whose record names no edition of the rules, of an earlier program, goes on with those of the first and says so, with a parameter that did
// nothing too, which a new run is refused.
func TestRunGoesOnWithTheRulesOfItsRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sets []string
		say  string
		idle bool
	}{
		"muon": {[]string{"optimizer.name=muon"}, "optimizer muon: every matrix is taken for [inputs, outputs], as this run began", false},
		"quad": {
			[]string{"optimizer.name=quad", "optimizer.numerics=eformer", "optimizer.block_size=16"},
			"optimizer quad: leaves draw in the order of their paths", false,
		},
		"idle": {[]string{"optimizer.name=quad", "optimizer.noise_scale=0.1"}, "optimizer quad: parameters that its numerics do not read", true},
	} {
		p := newPlace(t)
		p.runDir(t, "run")
		var args []string
		short := []string{"model.kind=llama", "model.dropout=0", "train.steps=4", "train.save_every=2", "train.sample_tokens=0", "optimizer.schedule.warmup_steps=0"}
		for _, set := range append(c.sets, short...) {
			args = append(args, "--set", set)
		}
		begin := args
		if c.idle {
			refused(t, p.train("other", args...), 2, "noise_scale: found 0.1, wanted 1e-09: stable numerics do not read it")
			begin = append(slices.Clone(args), "--set", "optimizer.noise_scale=1e-9")
		}
		ok(t, p.train("run", begin...))
		require.NoError(t, os.RemoveAll(p.path("run", "checkpoints", checkpoint.DirName(4))))
		earlier := func(text string) string {
			text = strings.ReplaceAll(text, `"edition": 2,`, "")
			if c.idle {
				text = strings.NewReplacer(`"noise_scale": 1e-9`, `"noise_scale": 0.1`, `noise_scale: 1e-9`, `noise_scale: 0.1`).Replace(text)
			}
			return text
		}
		p.write(t, "run/run.yaml", earlier(read(t, p.path("run", "run.yaml"))))
		at := p.path("run", "checkpoints", checkpoint.DirName(2))
		var files []checkpoint.Source
		entries, err := os.ReadDir(at)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Name() != "manifest.json" {
				files = append(files, checkpoint.TextFile(e.Name(), []byte(earlier(read(t, filepath.Join(at, e.Name()))))))
			}
		}
		require.NoError(t, checkpoint.Commit(checkpoint.OS, at, 2, files))
		found := ok(t, p.train("run", args...))
		assert.Equal(t, 1, strings.Count(found.err, c.say), "%s: %s", name, found.err)
		assert.Contains(t, read(t, p.path("run", "checkpoints", checkpoint.DirName(4), checkpoint.RecordFile)), `"edition": 1,`, name)
	}
}
