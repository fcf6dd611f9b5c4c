package train

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// What a first time takes longer counts as compiling, by the clock, however much more than what was done the figure is told for.
func TestForecastTakesCompilingApart(t *testing.T) { synctest.Test(t, forecastTakesCompilingApart) }

func forecastTakesCompilingApart(t *testing.T) {
	r := &rehearsal{team: &team{}, display: &display{}}
	calls := 0
	each, err := r.measured(func() (time.Duration, error) {
		if calls++; calls == 1 {
			time.Sleep(50 * time.Millisecond)
			return time.Hour, nil
		}
		return time.Duration(calls) * time.Minute, nil
	})
	require.NoError(t, err)
	assert.Equal(t, measureMost+1, calls)
	assert.Equal(t, 4*time.Minute, each, "2 to 6")
	assert.Equal(t, 50*time.Millisecond, r.display.forecast.compiling)
}

// What is due is counted as the loop finds it due, step by step.
func TestForecastCountsWhatIsDue(t *testing.T) {
	intervals := []intervals{nil, Every(3), Every(4), {{Every: 2, Until: 5}, {Every: 3}}, {{Every: 1, Until: 3}}, {{Every: 5, Until: 7}, {Every: 2, Until: 9}}}
	for steps := int64(1); steps <= 13; steps++ {
		for from := int64(0); from <= steps; from++ {
			for every := int64(0); every <= 14; every++ {
				want := int64(0)
				for step := from + 1; step <= steps; step++ {
					if step == steps || every > 0 && step%every == 0 {
						want++
					}
				}
				require.Equal(t, want, timesDue(from, steps, every), "%d to %d, every %d", from, steps, every)
			}
			for _, v := range intervals {
				want := int64(0)
				for step := from + 1; step <= steps; step++ {
					if step == steps || saveDueAt(v, step) {
						want++
					}
				}
				require.Equal(t, want, savesDue(v, from, steps), "%d to %d, %v", from, steps, v)
			}
		}
	}
}

func TestForecastInOneLine(t *testing.T) {
	f := forecast{
		steps: errand{1600, 110 * time.Millisecond}, evaluations: errand{17, 800 * time.Millisecond}, samples: errand{1, 4 * time.Second},
		spent: 8 * time.Second, compiling: 6 * time.Second,
	}
	drawn := forecast{steps: errand{4, time.Second}, generations: errand{2, 3 * time.Second}}
	assert.Equal(t, "the run takes about 10 s: 4 steps of 1 s, 2 generations of 3 s", drawn.text())
	assert.Equal(t, 176*time.Second+13600*time.Millisecond+4*time.Second, f.left())
	assert.Equal(t, "the run takes about 3 min 22 s: 1,600 steps of 0.11 s, 17 evaluations of 0.8 s, 1 sample of 4 s, compiling 6 s", f.text())
	for want, d := range map[string]time.Duration{
		"0.5 ms": 500 * time.Microsecond, "13 ms": 13 * time.Millisecond, "0.1 s": 100 * time.Millisecond, "1.3 s": 1260 * time.Millisecond,
		"10 s": 9960 * time.Millisecond, "59 s": 59 * time.Second, "1 min 0 s": 59600 * time.Millisecond, "59 min 59 s": time.Hour - time.Second,
		"2 h 5 min": 2*time.Hour + 5*time.Minute + 10*time.Second,
	} {
		assert.Equal(t, want, durationText(d))
	}
}

// The time of an update is told by its operations and bytes, at the speed of the passes: a typical card moves a byte while it makes ten operations.
func TestForecastOfAnUpdate(t *testing.T) {
	card := paced(gpu.Adapter{Type: "discrete"}, 1000)
	assert.InDelta(t, 3, card.Seconds(gpu.Work{FLOPs: 900, Bytes: 300})-card.Command, 1e-6, "300 bytes take as long as 3,000 operations")
	c := tinyRun(t, t.TempDir()).withDefaults().withRows(t.Context())
	slow, err := guessed(c, 0, 1e6, 0, gpu.Speed{FLOPS: 1e6, BytesPerSecond: 1e6})
	require.NoError(t, err)
	fast, err := guessed(c, 0, 1e6, 0, gpu.Speed{FLOPS: 2e6, BytesPerSecond: 2e6})
	require.NoError(t, err)
	assert.InEpsilon(t, 2, slow.steps.each.Seconds()/fast.steps.each.Seconds(), 1e-3)
	assert.Greater(t, slow.steps.each, time.Second, "the passes take a second, and there is an update")
	assert.EqualValues(t, 12, slow.steps.many)
	assert.EqualValues(t, 3, slow.evaluations.many)
	assert.EqualValues(t, 4, slow.checkpoints.many)
	// 100 tokens are 6 windows of 16, 3 batches, of which two make a step's passes, forward alone a third of them.
	assert.InDelta(t, 0.5, slow.evaluations.each.Seconds(), 1e-6)
	// A step of six commands, half a second each, takes three more; a sample of 5 tokens a third of these and all parameters for each token.
	c.Answers = 2
	more, err := guessed(c, 0, 1e6, 6, gpu.Speed{FLOPS: 1e6, BytesPerSecond: 1e6, Command: 0.5})
	require.NoError(t, err)
	parameters := float64(model.Parameters(c.State.Definition))
	assert.InDelta(t, 3.5, more.steps.each.Seconds()-slow.steps.each.Seconds(), 1e-6, "the update is a command too")
	assert.InDelta(t, 2, more.evaluations.each.Seconds(), 1e-6)
	assert.EqualValues(t, 2+2*2, more.samples.many, "two answers before, and two after")
	assert.InDelta(t, 5*(1+4*parameters/1e6), more.samples.each.Seconds(), 1e-6)
	sampled := more.samples.each.Seconds() * 4 / 5
	assert.InDelta(t, more.steps.each.Seconds()+2+sampled+4*parameters/5e8, more.start.Seconds(), 1e-6, "each is measured once, of a sample four tokens, and parameters are read")
	assert.Equal(t, more.start+12*more.steps.each+3*more.evaluations.each+6*more.samples.each+4*more.checkpoints.each, more.left())
	from, err := guessed(c, 9, 1e6, 0, gpu.Speed{FLOPS: 1e6, BytesPerSecond: 1e6})
	require.NoError(t, err)
	assert.EqualValues(t, 3, from.steps.many)
	assert.EqualValues(t, 1+2, from.samples.many, "the answers after")
}

// The forecast is told before the first step, and nothing that the run leaves differs from that of a run which was told none: see TestRehearsalChangesNothing.
func TestForecastComesBeforeTheFirstStep(t *testing.T) {
	var out bytes.Buffer
	c := tinyRun(t, t.TempDir())
	c.Output = &out
	told := -1
	c.Peak = func(context.Context) (float64, error) { return 1e9, nil }
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == StepBegin && e.Step == 0 && told < 0 {
			told = strings.Count(out.String(), "\nthe run takes about ")
		}
		return nil
	})}
	dev := gputest.Device(t)
	ran(t, dev, c)
	assert.Equal(t, 1, told)
	assert.Regexp(t, `\nthe run takes about \d.*: 12 steps of .* m?s, 3 evaluations of .* m?s, 2 samples of .* m?s, 4 checkpoints of .*s`, out.String())
	assert.NotContains(t, out.String(), "? left", "what is left is known from the first step on")
	if dev.Adapter().Limits.Software {
		said := out.String()
		assert.Less(t, strings.Index(said, "at 50% of that peak the run takes at least "), strings.Index(said, "compile kernels"))
	}
}

// A completion takes as many passes as it may have tokens, each of the overhead of a forward pass and the parameters, or its rows' share of a pass.
func TestForecastOfGenerations(t *testing.T) {
	c := lettersRun(t, "dapo", 2).withDefaults().withRows(t.Context())
	parameters := 4 * float64(model.Parameters(c.State.Definition))
	speed := gpu.Speed{FLOPS: 1e6, BytesPerSecond: parameters}
	var f forecast
	f.count(c, 1)
	f.drawing(c, 9*time.Second, 3*time.Second, speed)
	assert.EqualValues(t, 1, f.generations.many, "of steps 3 and 4")
	assert.EqualValues(t, 2, f.evaluations.many)
	assert.InDelta(t, 16./8*8*(1+1)+2*9./3, f.generations.each.Seconds(), 1e-6, "16 rows, 8 at once, and two passes for what learning begins with")
	assert.InDelta(t, 8*(1+1), f.evaluations.each.Seconds(), 1e-6, "two prompts or four, of two completions each")
	speed.BytesPerSecond *= 1e6
	f.drawing(c, 9000*time.Second, 3*time.Second, speed)
	assert.InDelta(t, 2*8*(1+8997./3*8/(8*16))+2*3000, f.generations.each.Seconds(), 1)
}

// What is left follows what steps have taken of late, without the first, and what the last evaluation took.
func TestForecastFollowsTheRun(t *testing.T) {
	c := tinyRun(t, t.TempDir()).withDefaults().withRows(t.Context())
	c.Steps = 100
	var out bytes.Buffer
	d := &display{Progress: newClocked(lineProgress{&out}), config: c, times: newTimes(time.Now), forecast: forecast{
		steps: errand{100, time.Second}, evaluations: errand{25, 2 * time.Second}, checkpoints: errand{34, 0},
	}}
	at := func(step int64, ms ...Number) forecast {
		d.recent = nil
		for i, m := range ms {
			line := Metrics{Step: step - int64(len(ms)-1-i)}
			line.StepMS = m
			d.recent = append(d.recent, line)
		}
		return d.toCome(step)
	}
	assert.Equal(t, errand{99, time.Second}, at(1, 9000).steps, "the first step says nothing of the others")
	assert.Equal(t, errand{97, 300 * time.Millisecond}, at(3, 9000, 200, 400).steps)
	assert.Equal(t, errand{24, 2 * time.Second}, at(4, 200).evaluations)
	d.correct(4)
	assert.Empty(t, out.String())
	at(10, 300)
	d.correct(10)
	assert.Regexp(t, `^after 10 steps: the run takes about .*: 90 steps of 0\.3 s, 23 evaluations of 2 s`, out.String())
	out.Reset()
	at(10, 1100)
	d.correct(10)
	assert.Empty(t, out.String(), "what has turned out as told is not told again")
}
