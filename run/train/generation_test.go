package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/grpo"
	"gputrain/run/reward"
	"gputrain/run/rollout"
)

// lettersRun is a run that draws texts of bytes and is told how many of their letters are small, as a share.
func lettersRun(t testing.TB, loss string, updates int) Config {
	t.Helper()
	c := tinyRun(t, t.TempDir())
	var rows [2][]data.Prompt
	for i := range 24 {
		held := min(1, i/20)
		rows[held] = append(rows[held], data.Prompt{Row: int64(i), Tokens: data.EncodeBytes(fmt.Sprintf("row %d:", i)[:5+i/10]), Columns: map[string]any{"row": i}})
	}
	c.Train, c.Validation = data.NewPrompts(256, rows[0]), data.NewPrompts(256, rows[1])
	o := model.Objective{Loss: loss, Numbers: map[string]float64{}}
	for _, n := range o.Row().Numbers {
		o.Numbers[n.Name] = map[string]float64{"temperature": 0.9, "epsilon": 0.2, "epsilon_high": 0.3, "max_completion_length": 8}[n.Name]
	}
	if updates == 1 {
		o.Numbers["on_policy"] = 1
	}
	o.Numbers["skip_flat"] = 1
	c.State.Objective = o
	c.Rollouts = &grpo.Config{
		Samples: 4, Updates: updates, Shown: 1, Text: data.DecodeBytes, EvalSamples: 2,
		Drawing: rollout.Config{Tokens: 8, Temperature: 0.9, Stop: []int32{10}, Rows: 8},
		Rewards: reward.Rewards{{Name: "small", Weight: 1, Function: reward.Func(small)}, {Name: "short", Weight: 0.01, Function: reward.Func(short)}},
	}
	c.State.Batch, c.State.Microbatches = 2, 4
	c.Steps, c.EvalEvery, c.SaveEvery, c.SampleEvery, c.Sample.Tokens = 4, 2, Every(2), 0, 0
	return c
}

func small(_ context.Context, samples []reward.Sample) (all []float64, err error) {
	for _, s := range samples {
		n := 0
		for _, b := range []byte(s.Completion) {
			if b < 128 {
				n++
			}
		}
		all = append(all, float64(n)/float64(len(s.Tokens)))
	}
	return all, nil
}

// short says nothing of texts that were cut.
func short(_ context.Context, samples []reward.Sample) (all []float64, err error) {
	for _, s := range samples {
		v := -float64(len(s.Tokens))
		if s.Truncated && len(s.Prompt)%2 == 0 {
			v = math.NaN()
		}
		all = append(all, v)
	}
	return all, nil
}

// filesLeft are the files of a run, but for what was cut off from logs.
func filesLeft(t *testing.T, dir string) map[string]string {
	files := leftBy(t, dir)
	delete(files, rolloutsFile+cutSuffix)
	delete(files, metricsFile+cutSuffix)
	return files
}

// TestRewardRises: of a network that draws bytes at random more and more are small.
func TestRewardRises(t *testing.T) {
	dev := gputest.Device(t)
	for _, updates := range []int{1, 2} {
		c := lettersRun(t, "dapo", updates)
		c.State.Definition = undropped(t)
		c.State.Optimizer.Options.Schedule.Steps, c.State.Optimizer.Options.Schedule.LearningRate, c.Steps = 16, 0.05, 16
		c.State.Batch, c.State.Microbatches = 16, 1
		c.SaveEvery, c.EvalEvery = Every(16), 16
		ran(t, dev, c)
		steps, evals, err := ReadMetrics(c.Dir)
		require.NoError(t, err)
		require.Len(t, steps, 16)
		var rewards []float64
		moved := 0.0
		for _, m := range steps {
			if m.Rollout != nil {
				rewards = append(rewards, float64(m.Rollout["rewards/small/mean"]))
				assert.LessOrEqual(t, float64(m.Rollout["sampler_difference_max"]), 2e-4)
			}
			off := float64(m.Figures["old_difference_rms"])
			assert.LessOrEqual(t, float64(m.Figures["old_difference"]), off)
			if m.Rollout != nil {
				assert.LessOrEqual(t, off, 1e-5, "of the sampler, or of the pass before")
			}
			moved = max(moved, off)
		}
		report, err := os.ReadFile(filepath.Join(c.Dir, reportFile))
		require.NoError(t, err)
		for _, part := range []string{"## Rollouts", "| step | reward | deviation | short | small | tokens a completion |", "; advantage ", "of the text:", "| step | reward | tokens a completion |", "reward.svg"} {
			assert.Contains(t, string(report), part)
		}
		assert.Equal(t, updates == 2, moved > 1e-2, "between two updates of a generation the model moves")
		require.Len(t, rewards, 16/updates)
		n := len(rewards) / 4
		assert.Greater(t, mean(rewards[3*n:]), mean(rewards[:n])+0.1)
		require.Len(t, evals, 1)
		assert.InDelta(t, -float64(evals[0].Loss), float64(evals[0].Rollout["reward"]), 1e-12)
	}
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// TestWhatIsSaidOfGenerations: the first is told, with the time that all take, and what the sampler has otherwise than training, once; of others nothing is.
func TestWhatIsSaidOfGenerations(t *testing.T) {
	dev := gputest.Device(t)
	for _, updates := range []int{1, 2} {
		for temperature, warns := range map[float64]int{0.9: 0, 0.5: 1} {
			var out bytes.Buffer
			c := lettersRun(t, "dapo", updates)
			c.State.Definition = undropped(t)
			c.Steps, c.Output, c.Progress = 4, &out, "plain"
			c.Rollouts.Drawing.Temperature = temperature
			ran(t, dev, c)
			assert.Equal(t, warns, strings.Count(out.String(), "log-probabilities of tokens as they were drawn and those of training differ"), out.String())
			assert.Equal(t, 1, strings.Count(out.String(), "generation of step "))
			assert.Contains(t, out.String(), fmt.Sprintf(" %d generations of ", 4/updates))
			assert.Contains(t, out.String(), " evaluations of ")
			assert.Regexp(t, `step 4/4 .*  reward 0\.\d{4}  `, out.String())
		}
	}
}

// TestRolloutsOnStagesAndRanks stops a run that draws what it learns from at each step, also in rewards and while it draws, cuts its model in two, and gives
// its prompts and microbatches to ranks: completions, rewards, advantages, figures and parameters have the bits of one device that nothing has disturbed. One
// model is trained whole beside its reference, the other by adapters.
func TestRolloutsOnStagesAndRanks(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off")
	dev, base := gputest.Device(t), filepath.Join(t.TempDir(), "base")
	exportDrawn(t, base, tinyRun(t, "").State.Definition)
	for _, of := range []struct {
		loss    string
		updates int
		adapted bool
	}{{"dapo", 2, false}, {"grpo", 1, true}} {
		made := func() Config {
			c := lettersRun(t, of.loss, of.updates)
			o := c.State.Objective
			if of.adapted {
				c = upon(t, c, base)
			}
			o.Numbers["beta"], c.State.Objective = 0.1, o
			if o.WantsReference(c.State.Definition) {
				referred, err := model.WithReference(c.State.Definition)
				require.NoError(t, err)
				c.State.Definition, c.State.Consulted = referred, model.ReferenceOf(referred, model.Drawn(c.State.Definition, c.State.Seed))
			}
			return c
		}
		whole := made()
		assert.Equal(t, !of.adapted, whole.State.Consulted != nil, "trained whole, a copy is the reference")
		ran(t, dev, whole)
		steps, _, err := ReadMetrics(whole.Dir)
		require.NoError(t, err)
		assert.Greater(t, float64(steps[3].Figures["kl"]), float64(steps[0].Figures["kl"]), "the reference stays")
		want := filesLeft(t, whole.Dir)
		require.Contains(t, want, rolloutsFile)
		for k, row := range []struct {
			name          string
			ranks, stages int
			stops         []int64
		}{
			{"again", 1, 1, nil},
			{"stopped", 1, 1, []int64{1, 2, 3}},
			{"on two stages", 1, 2, nil},
			{"on two ranks", 2, 1, nil},
			{"stopped on two ranks of two stages", 2, 2, []int64{1, 2}},
			{"stopped on three ranks", 3, 1, []int64{3}},
		} {
			if testing.Short() && k < 4 {
				continue
			}
			t.Run(of.loss+" "+row.name, func(t *testing.T) {
				c := made()
				stopped(t, dev, c, row.ranks, row.stages, row.stops)
				requireSame(t, want, filesLeft(t, c.Dir))
			})
		}
	}
}

// TestFlatGroups: of groups whose completions got the same nothing is computed where they fill microbatches, and all but that share is as if it were: on ranks, which
// share what there is, and on stages.
func TestFlatGroups(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off")
	dev := gputest.Device(t)
	made := func(skip float64) Config {
		c := lettersRun(t, "dapo", 1)
		c.State.Definition = undropped(t)
		c.State.Objective.Numbers["skip_flat"] = skip
		c.Rollouts.Rewards = reward.Rewards{{Name: "half", Weight: 1, Function: reward.Func(func(_ context.Context, samples []reward.Sample) (all []float64, err error) {
			for i, s := range samples {
				v := 1.0
				if i%8 < 4 {
					v = float64(s.Tokens[0])
				}
				all = append(all, v)
			}
			return all, nil
		})}}
		c.Steps, c.EvalEvery = 2, 0
		return c
	}
	one, whole := made(1), made(0)
	ran(t, dev, one)
	ran(t, dev, whole)
	steps, _, err := ReadMetrics(one.Dir)
	require.NoError(t, err)
	computed, _, err := ReadMetrics(whole.Dir)
	require.NoError(t, err)
	for i, m := range steps {
		assert.InDelta(t, 0.5, float64(m.Rollout["skipped_share"]), 0)
		assert.NotContains(t, computed[i].Rollout, "skipped_share")
		assert.InEpsilon(t, float64(computed[i].GradNorm), float64(m.GradNorm), 1e-5, "sums round otherwise")
		assert.InEpsilon(t, float64(computed[i].Figures["entropy"]), float64(m.Figures["entropy"]), 0.2, "a mean over half of the tokens")
	}
	want := filesLeft(t, one.Dir)
	staged, ranked := made(1), made(1)
	for _, err := range alike(t, Pipelined([]*gpu.Device{dev, dev}, twoStages(t, staged.State)), 1, staged) {
		require.NoError(t, err)
	}
	requireSame(t, want, filesLeft(t, staged.Dir))
	for _, err := range alike(t, oneDevice{device: dev}, 2, ranked) {
		require.NoError(t, err)
	}
	requireSame(t, want, filesLeft(t, ranked.Dir))
}

// TestAGenerationGoesOnElsewhere: a run that is stopped between updates of a generation, and in the middle of rollouts, goes on each time on another number of
// ranks and stages, to the bits of one device that nothing has disturbed.
func TestAGenerationGoesOnElsewhere(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off")
	dev := gputest.Device(t)
	made := func() Config {
		c := lettersRun(t, "dapo", 3)
		c.State.Definition, c.Steps, c.EvalEvery = undropped(t), 6, 3
		return c
	}
	whole := made()
	ran(t, dev, whole)
	want := filesLeft(t, whole.Dir)
	elsewhere := made()
	for _, leg := range []struct {
		ranks, stages int
		end           int64 // of this leg
		drawn         int64 // tokens, when rank 0 is told to stop; 0: it is not
	}{{2, 1, 1, 0}, {1, 2, 3, 0}, {2, 2, 3, 40}, {3, 1, 4, 0}, {2, 2, 5, 0}, {1, 1, 6, 0}} {
		target := Target(oneDevice{device: dev})
		if leg.stages == 2 {
			target = Pipelined([]*gpu.Device{dev, dev}, twoStages(t, elsewhere.State))
		}
		_, errs := ranksOn(t, slices.Repeat([]Target{target}, leg.ranks), elsewhere, func(rank int, c *Config) context.Context {
			ctx, stop := context.WithCancelCause(t.Context())
			rollouts, drawn := *c.Rollouts, int64(0)
			rollouts.Drawing.Ends = func([]int32) bool {
				if drawn++; drawn == leg.drawn && rank == 0 {
					stop(&SignalError{os.Interrupt})
				}
				return false
			}
			c.Rollouts = &rollouts
			if leg.drawn == 0 && leg.end < c.Steps {
				c.Hooks = []Hook{on(StepEnd, leg.end, func(context.Context, Event) error { return ErrStopped })}
			}
			return ctx
		})
		for rank, err := range errs {
			if leg.end < elsewhere.Steps {
				require.ErrorIs(t, err, ErrStopped, "%+v: rank %d", leg, rank)
			} else {
				require.NoError(t, err, "%+v: rank %d", leg, rank)
			}
		}
		steps := stepsIn(t, elsewhere.Dir)
		require.EqualValues(t, leg.end, steps[len(steps)-1].Step, "%+v", leg)
	}
	requireSame(t, want, filesLeft(t, elsewhere.Dir))
}

// TestStoppedInAGeneration: a signal while completions are drawn, an error of a reward function, one that hooks return between a generation and its first
// update: the run saves what it has, and goes on to the same bits.
func TestStoppedInAGeneration(t *testing.T) {
	dev := gputest.Device(t)
	whole := lettersRun(t, "dr_grpo", 2)
	ran(t, dev, whole)
	want := filesLeft(t, whole.Dir)
	broken := errors.New("broken")
	for name, spoil := range map[string]func(c *Config) (context.Context, error){
		"drawing": func(c *Config) (context.Context, error) {
			ctx, stop := context.WithCancelCause(t.Context())
			drawn, text := 0, c.Rollouts.Text
			c.Rollouts.Drawing.Ends = func([]int32) bool {
				if drawn++; drawn == 150 {
					stop(&SignalError{os.Interrupt})
				}
				return false
			}
			c.Rollouts.Text = text
			return ctx, ErrStopped
		},
		"rewards": func(c *Config) (context.Context, error) {
			calls := 0
			c.Rollouts.Rewards = slices.Clone(c.Rollouts.Rewards)
			c.Rollouts.Rewards[0].Function = reward.Func(func(ctx context.Context, samples []reward.Sample) ([]float64, error) {
				if calls++; calls == 3 {
					return nil, broken
				}
				return small(ctx, samples)
			})
			return t.Context(), broken
		},
		"before an update": func(c *Config) (context.Context, error) {
			c.Hooks = []Hook{on(StepBegin, 2, func(context.Context, Event) error { return ErrStopped })}
			return t.Context(), ErrStopped
		},
		"a generation told": func(c *Config) (context.Context, error) {
			c.Hooks = []Hook{on(Generated, 2, func(context.Context, Event) error { return ErrStopped })}
			return t.Context(), ErrStopped
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := lettersRun(t, "dr_grpo", 2)
			first := c
			rollouts := *c.Rollouts
			first.Rollouts = &rollouts
			ctx, wanted := spoil(&first)
			_, err := Run(ctx, dev, first)
			require.ErrorIs(t, err, wanted)
			ran(t, dev, c)
			requireSame(t, want, filesLeft(t, c.Dir))
		})
	}
}

// TestGenerationsAreKept: of a run between two updates of a generation its file is there, and no older one; without it the run is refused.
func TestGenerationsAreKept(t *testing.T) {
	dev := gputest.Device(t)
	c := lettersRun(t, "gspo", 2)
	c.Steps, c.SaveEvery = 8, Every(3)
	halted(t, dev, c, StepEnd, 7)
	names := func() (all []string) {
		found, err := os.ReadDir(filepath.Join(c.Dir, generationsDir))
		require.NoError(t, err)
		for _, e := range found {
			all = append(all, e.Name())
		}
		return all
	}
	assert.Equal(t, []string{"00000001.json", "00000002.json", "00000003.json"}, names(), "checkpoints are at steps 3, 6 and 7")
	raw, err := os.ReadFile(filepath.Join(c.Dir, generationsDir, "00000003.json"))
	require.NoError(t, err)
	g, err := grpo.Parse(raw, 16)
	require.NoError(t, err)
	assert.EqualValues(t, 7, g.Step)
	require.NoError(t, os.Rename(filepath.Join(c.Dir, generationsDir, "00000003.json"), filepath.Join(c.Dir, "away")))
	_, err = Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "step 7 is within generation 3: ")
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, generationsDir, "00000003.json"), raw[:len(raw)/2], 0o666))
	_, err = Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "00000003.json: unexpected end of JSON input")
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, generationsDir, "00000003.json"), []byte(strings.Replace(string(raw), `"generation":3`, `"generation":2`, 1)), 0o666))
	_, err = Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "found generation 2 of step 7, wanted 3 of step 7")
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, generationsDir, "00000003.json"), raw, 0o666))
	require.NoError(t, os.Remove(filepath.Join(c.Dir, "away")))
	ran(t, dev, c)
	c.Fresh = true
	halted(t, dev, c, StepEnd, 1)
	assert.Equal(t, []string{"00000000.json"}, names(), "a fresh start removes them")
}

// TestRolloutsInParts: rows of an update in one microbatch, two or four have the same completions, and the same figures but for what sums round.
func TestRolloutsInParts(t *testing.T) {
	dev := gputest.Device(t)
	var lines string
	var first Metrics
	for _, micro := range []int{1, 2, 4} {
		c := lettersRun(t, "grpo", 1)
		c.State.Definition = undropped(t)
		c.State.Batch, c.State.Microbatches = 8/micro, micro
		c.Steps, c.EvalEvery = 1, 0
		ran(t, dev, c)
		steps, _, err := ReadMetrics(c.Dir)
		require.NoError(t, err)
		raw, err := os.ReadFile(filepath.Join(c.Dir, rolloutsFile))
		require.NoError(t, err)
		if micro == 1 {
			lines, first = string(raw), steps[0]
			var l grpo.Line
			require.NoError(t, json.Unmarshal([]byte(strings.SplitN(lines, "\n", 2)[0]), &l))
			assert.Len(t, l.Completions, 4)
			continue
		}
		assert.Equal(t, lines, string(raw))
		assert.Equal(t, first.Rollout, steps[0].Rollout)
		assert.InEpsilon(t, float64(first.GradNorm), float64(steps[0].GradNorm), 1e-5)
		assert.InDelta(t, float64(first.Loss), float64(steps[0].Loss), 1e-6)
	}
}

// TestRolloutsRefused has a line for each mistake.
func TestRolloutsRefused(t *testing.T) {
	for want, spoil := range map[string]func(c *Config){
		"rollout.samples: found 1, wanted at least 2":                 func(c *Config) { c.Rollouts.Samples = 1 },
		"rollout.samples: found 3, wanted a divisor of the 16 rows":   func(c *Config) { c.Rollouts.Samples = 3 },
		"rollout: found no token that ends a text":                    func(c *Config) { c.Rollouts.Drawing.Stop = nil },
		"rewards: found none":                                         func(c *Config) { c.Rollouts.Rewards = nil },
		"rollout.tokens: found 16, wanted less than the window of 16": func(c *Config) { c.Rollouts.Drawing.Tokens = 16 },
		"data: prompts: row 8: found 16 tokens, wanted less than the window": func(c *Config) {
			c.Train = data.NewPrompts(256, []data.Prompt{{Row: 7, Tokens: make([]int32, 16)}})
		},
		"rollout.beta: found a model that is trained whole and no reference": func(c *Config) { c.State.Objective.Numbers["beta"] = 0.1 },
		"found 1 updates a generation and on_policy 0":                       func(c *Config) { c.Rollouts.Updates = 1 },
		"found no rollouts, wanted some":                                     func(c *Config) { c.Rollouts = nil },
		`rollouts: found the loss ""`:                                        func(c *Config) { c.State.Objective = model.Objective{} },
		"rollouts: found a text, wanted prompts":                             func(c *Config) { c.Train = tinyRun(t, "").Train },
	} {
		c := lettersRun(t, "dapo", 2)
		rollouts := *c.Rollouts
		c.Rollouts = &rollouts
		spoil(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
	require.NoError(t, lettersRun(t, "dapo", 2).Validate())
}
