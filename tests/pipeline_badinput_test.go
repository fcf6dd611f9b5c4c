package tests

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// staged is the command that trains run.yaml in stages, with values set.
func (p *place) staged(dir string, values ...string) command {
	c := p.train(dir)
	for _, v := range values {
		c.args = append(c.args, "--set", v)
	}
	return c
}

// Pipelines that cannot be meant are refused before a device is open, with what was found, what is wanted and what to change.
func TestBadPipelines(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range map[string]struct{ set, says []string }{
		"no stage":           {[]string{"pipeline.stages=0"}, []string{"pipeline.stages (--set): found 0, wanted 1 or more"}},
		"too many stages":    {[]string{"pipeline.stages=9"}, []string{"pipeline.stages (--set)", "9 stages: the model has 4 pieces", "embedding, h.0, h.1, head", "lower pipeline.stages"}},
		"no rule for one":    {[]string{"pipeline.stages=2", `pipeline.rules=[{match: "^h|^wte", stage: 0}, {match: ^ln_f, stage: 1}]`}, []string{"pipeline.rules (--set)", `parameter "wpe.weight": no pattern matches it`, "add a rule"}},
		"microbatches":       {[]string{"pipeline.stages=2", "pipeline.microbatches=3"}, []string{"pipeline.microbatches (--set): found 3, wanted a divisor of the 2 sequences of train.batch"}},
		"adapters, too many": {[]string{"pipeline.stages=2", "pipeline.adapters=[0,0,0]"}, []string{"pipeline.adapters (--set): found [0 0 0], wanted one for each of the 2 stages"}},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, p.staged("run", c.set...).withoutAdapter(), 2, c.says...)
		})
	}
	assert.NoDirExists(t, p.path("run"), "nothing is begun")
}

// An adapter that is not there, or no longer there when a run goes on.
func TestPipelinesWithoutTheirAdapters(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestBadPipelines, TestBadAdapters")
	p := newPlace(t)
	all := len(adaptersOf(t, p))
	refused(t, p.staged("run", "pipeline.stages=2", "pipeline.adapters=[0,99]"), 2,
		"pipeline.adapters (--set): found adapter 99, wanted 0 to "+strconv.Itoa(all-1), "gputrain devices lists them")
	assert.NoDirExists(t, p.path("run"))
	if all < 2 {
		t.Skip("skipped, needs two adapters: one to lose")
	}
	last := strconv.Itoa(all - 1)
	short := []string{"train.steps=6", "train.save_every=3", "train.sample_tokens=0", "pipeline.stages=2"}
	ok(t, p.staged("run", append(short, "pipeline.adapters=["+last+"]")...))
	removeCheckpoint(t, p.path("run"), 6)
	// The driver of the first adapters is away, the others move up.
	gone := func(c *command) {
		c.env = append(c.env, "VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent", "EGL_LOG_LEVEL=fatal")
	}
	left := len(adaptersOf(t, p, gone))
	if left == 0 || left >= all {
		t.Skipf("skipped, needs a machine with an adapter that can be hidden and one that cannot: %d of %d are left", left, all)
	}
	r := refused(t, p.staged("run", append(short, "pipeline.adapters=["+last+"]")...).with(gone), 2, "found adapter "+last+", wanted 0 to "+strconv.Itoa(left-1))
	assert.NotContains(t, r.err, "compile kernels")
	assert.EqualValues(t, 3, newest(t, p.path("run")), "nothing is lost")
	resumed := ok(t, p.staged("run", append(short, "pipeline.adapters=[0]")...).with(gone))
	requireResumed(t, resumed.err, 3)
}

// adaptersOf are the lines that gputrain devices prints of adapters.
func adaptersOf(t *testing.T, p *place, changes ...func(*command)) []string {
	t.Helper()
	gputest.Adapters(t) // skips without any
	c := p.command("devices").withoutAdapter()
	for _, change := range changes {
		c = c.with(change)
	}
	return regexp.MustCompile(`(?m)^[* ] +\d+ .*$`).FindAllString(c.run(t).out, -1)
}

// The stages of one adapter share its memory, on one device or on one each: two that fit alone and not together are refused before anything is
// compiled, and what the error says helps.
func TestPipelinesThatDoNotFit(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestModelsThatDoNotFit")
	p := newPlace(t)
	for _, devices := range []string{"adapter", "stage"} {
		r := refused(t, p.staged("run", "device.texels=off", "pipeline.stages=2", "pipeline.devices="+devices, "train.memory_limit=1200KiB"), 5,
			"wanted for 2 stages, the memory limit is 1.2 MiB", "stage 0: ", "stage 1: ", "params ", "optimizer ", "raise pipeline.microbatches 2 times", "set train.accumulation to sequence and lower context from 32 to 16: ", "instead of 1.7 MiB")
		assert.NotContains(t, r.err, "compile kernels", "before any work")
		sizes := regexp.MustCompile(`stage \d: (\d+\.\d) KiB \(`).FindAllStringSubmatch(r.err, -1)
		require.Len(t, sizes, 2, r.err)
		for _, s := range sizes {
			assert.Less(t, number(t, s[1]), 1200.0, "alone it would fit")
		}
	}
	r := refused(t, p.staged("run", "device.texels=off", "pipeline.stages=2", "train.memory_limit=300KiB"), 5,
		"wanted for 2 stages, the memory limit is 300.0 KiB", "params, gradients and optimizer alone take ")
	assert.NotContains(t, r.err, "compile kernels")
	assert.Empty(t, metricsOf(t, p.path("run")))
	// The limit is the adapter's: what is planned in all does fit.
	r = refused(t, p.staged("run", "device.texels=off", "pipeline.stages=2", "pipeline.devices=stage", "train.memory_limit=1200KiB"), 5)
	total := regexp.MustCompile(`: (\d+\.\d) MiB wanted for 2 stages`).FindStringSubmatch(r.err)
	require.NotNil(t, total, r.err)
	enough := strconv.Itoa(int((number(t, total[1])+0.05)*1024)+1) + "KiB"
	for _, devices := range gputest.Rows([]string{"adapter", "stage"}, 2) {
		ok(t, p.staged(devices, "device.texels=off", "pipeline.stages=2", "pipeline.devices="+devices, "train.memory_limit="+enough, "train.steps=6", "train.eval_every=2", "train.sample_every=2"))
	}
}
