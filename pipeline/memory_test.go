package pipeline_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// planned is what a pipeline would take of devices like these.
func planned(t *testing.T, devices []*gpu.Device, c pipeline.Config) []state.MemoryPlan {
	t.Helper()
	s, err := pipeline.Dry(t.Context(), c, devices)
	require.NoError(t, err)
	defer s.Release()
	return s.Memory()
}

// lossBytes is what the last stage keeps of a microbatch whatever the schedule: its loss.
const lossBytes = 4

// GPipe keeps the activations of all microbatches, 1F1B of no more than there are parts from a part to the last. What it keeps of the last
// part, whose passes are one program, does not grow at all.
func TestActivationsInFlight(t *testing.T) {
	const stages = 4
	devices := fleet(t, stages)
	for _, recompute := range []string{model.RecomputeNone, model.RecomputeLayers} {
		at := func(kind string, m int) []uint64 {
			c := order(t, steep(families(t)["gpt2 untied"], "sgd", `{}`, 2, m), kind, stages)
			c.State.Recompute = recompute
			var out []uint64
			for i, s := range planned(t, devices, c) {
				kept := s.Activations
				if i == stages-1 {
					kept -= uint64(m) * lossBytes
				}
				out = append(out, kept)
			}
			return out
		}
		var gpipe, ours [][]uint64
		for m := range 8 {
			if m == 0 {
				gpipe, ours = append(gpipe, nil), append(ours, nil)
				continue
			}
			gpipe, ours = append(gpipe, at(schedule.GPipe, m)), append(ours, at(schedule.OneForwardOneBackward, m))
		}
		for p := range stages {
			each := gpipe[3][p] - gpipe[2][p]
			input := uint64(4 * 2 * 4 * 8)                          // of a layer: rows, tokens and width of them, f32
			if recompute == model.RecomputeLayers && p < stages-1 { // the last has the head too
				assert.Equal(t, input, each, "stage %d", p)
			} else {
				assert.Greater(t, each, input, "stage %d", p)
			}
			for m := 3; m < len(gpipe); m++ {
				assert.Equal(t, gpipe[2][p]+uint64(m-2)*each, gpipe[m][p], "gpipe, stage %d, %d microbatches", p, m)
			}
			for m := 1; m < len(ours); m++ {
				most := min(m, stages-p)
				want := gpipe[most][p]
				if p == stages-1 {
					want = ours[1][p]
				}
				assert.Equal(t, want, ours[m][p], "1f1b, stage %d, %d microbatches", p, m)
			}
		}
	}
}

// user makes a function that does with a state all that takes memory, a step further at each call, and gives the counters of its devices.
func user(t *testing.T, s *pipeline.State, c pipeline.Config, devices []*gpu.Device, text data.Source) func(step int) []gpu.Counters {
	t.Helper()
	e, err := data.NewEvaluation(text, 4, c.State.Evaluation, 0)
	require.NoError(t, err)
	dir := t.TempDir()
	return func(step int) (now []gpu.Counters) {
		learn(t, s, []data.Batch{batch(c.State, step)})
		_, err = s.Evaluate(t.Context(), e)
		require.NoError(t, err)
		_, err = s.Logits(t.Context(), []int32{3, 1})
		require.NoError(t, err)
		_, err = s.Decode(t.Context(), 2)
		require.NoError(t, err)
		if c.State.Rows > 0 {
			inRows(t, s)
		}
		require.NoError(t, s.Save(t.Context(), filepath.Join(dir, checkpoint.DirName(s.Step())), checkpoint.Run{}))
		for _, d := range devices {
			now = append(now, d.Counters())
		}
		return now
	}
}

// A plan is what is taken, to the byte, and what was taken is all: after steps, evaluation, sampling and a checkpoint as after the start,
// but for the buffer that a device reads through, which it makes on first use. Nothing else is made behind the first step either.
func TestPlanIsWhatIsTaken(t *testing.T) {
	text := tokens(t, 130).Validation
	for i, x := range optimizers {
		if testing.Short() && i%5 > 1 {
			continue // four optimizers, which have each schedule, each recomputation and both families
		}
		name := schedule.Names()[i%3]
		t.Run(x.label+"/"+name, func(t *testing.T) {
			devices := fleet(t, 3) // counted from nothing
			c := order(t, steep(families(t)[[]string{"gpt2 dropout", "llama"}[i%2]], x.name, x.parameters, 2, 4), name, 3)
			c.State.Evaluation, c.State.Sampling, c.State.Rows = c.State.Batch+i%2, true, 3
			c.State.Recompute = model.Recomputes[i%3]
			if i%4 == 2 { // a GPT-2; of the sixth, the first stage is frozen
				c.State.Frozen = freeze(c.State.Definition, frozenParts[i%len(frozenParts)]...)
				c.State.FrozenDType = []buffers.DType{buffers.F32, buffers.BF16}[i/4%2]
			}
			plan := planned(t, devices, c)
			s := create(t, devices, c)
			defer s.Release()
			assert.Equal(t, plan, s.Memory())
			for i, d := range devices {
				assert.Equal(t, plan[i].Total()-plan[i].Transfer, d.Counters().LiveBytes, "stage %d", i)
			}
			use := user(t, s, c, devices, text)
			first := use(0)
			use(1)
			last := use(2)
			for i := range devices {
				a, b := first[i], last[i]
				assert.Equal(t, plan[i].Total(), b.LiveBytes, "stage %d", i)
				assert.Equal(t, plan[i].Total(), b.PeakBytes, "stage %d", i)
				assert.Equal(t, []uint64{a.Pipelines, a.BindGroups, a.Buffers}, []uint64{b.Pipelines, b.BindGroups, b.Buffers}, "stage %d", i)
			}
			s.Release()
			for i, d := range devices {
				assert.Equal(t, plan[i].Transfer, d.Counters().LiveBytes, "stage %d gives back all but the device's own buffer", i)
			}
		})
	}
}

// Logits may be larger than any parameter of the stage that makes them.
func TestPlanHasRoomForReadingLogits(t *testing.T) {
	const vocab = 17000
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 8, Vocab: vocab, Context: 4})
	require.NoError(t, err)
	c := order(t, steep(def, "sgd", `{}`, 1, 1), schedule.GPipe, 2)
	c.State.Sampling = true
	devices := fleet(t, 2)
	plan := planned(t, devices, c)
	require.EqualValues(t, 128<<10, plan[1].Transfer, "the power of two that 4 bytes a token fit")
	s := create(t, devices, c)
	defer s.Release()
	_, err = s.Logits(t.Context(), []int32{1})
	require.NoError(t, err)
	assert.Equal(t, plan[1].Total(), devices[1].Counters().LiveBytes)
}

// counted is what a step does on each device.
func counted(t *testing.T, s learner, devices []*gpu.Device, b data.Batch) []gpu.Counters {
	t.Helper()
	var before, out []gpu.Counters
	for _, d := range devices {
		before = append(before, d.Counters())
	}
	learn(t, s, []data.Batch{b})
	for i, d := range devices {
		n := d.Counters()
		n.Dispatches -= before[i].Dispatches
		n.Submits -= before[i].Submits
		n.Readbacks -= before[i].Readbacks
		n.WrittenBytes -= before[i].WrittenBytes
		n.ReadBytes -= before[i].ReadBytes
		out = append(out, n)
	}
	return out
}

// A step submits an action at a time and the update in two pieces, and moves over each bus what is handed on, a norm's share of each leaf and what a step
// reports. Its kernels are as many in every step, and those of a microbatch as many for each.
func TestStepDoesWhatItMust(t *testing.T) {
	const (
		stages     = 3
		message    = 4 * 2 * 4 * 8 // rows, tokens and width, f32
		pair       = 8             // of a leaf, for a norm
		tick       = 4             // tells that an action is done
		statistics = 16
	)
	devices := fleet(t, stages)
	alone := map[int]gpu.Counters{}
	kernels := map[string][]uint64{}
	for _, m := range []int{1, 2, 3, 5} {
		c := steep(families(t)["gpt2 untied"], "adamw", `{}`, 2, m)
		leaves := len(c.Definition.Params())
		whole, err := state.Create(t.Context(), devices[0], c)
		require.NoError(t, err)
		alone[m] = counted(t, whole, devices[:1], batch(c, 0))[0]
		whole.Release()
		for _, kind := range []string{schedule.GPipe, schedule.OneForwardOneBackward} {
			p := order(t, c, kind, stages)
			owned := make([]int, stages)
			for _, at := range p.Assignment.Part {
				owned[at]++
			}
			s := create(t, devices, p)
			first := counted(t, s, devices, batch(c, 0))
			second := counted(t, s, devices, batch(c, 1))
			s.Release()
			for i := range devices {
				actions, ends, reads := 2*m, 2, tick*2*m+pair*owned[i]
				if i == stages-1 && (kind == schedule.OneForwardOneBackward || m == 1) {
					actions, reads = m, tick*m+pair*owned[i] // a microbatch's passes are one program
				}
				readbacks := actions + 1
				if i == 0 || i == stages-1 {
					ends = 1
				}
				if i == stages-1 {
					reads += 4*m + (4*m+15)/16*16 + statistics // the losses, and the results of the step, which have them too
					readbacks += 2
				}
				at := []any{"%d microbatches, %s, stage %d", m, kind, i}
				for _, n := range []gpu.Counters{first[i], second[i]} {
					assert.EqualValues(t, reads+ends*m*message, n.ReadBytes, at...)
					assert.EqualValues(t, readbacks+ends*m, n.Readbacks, at...)
					// What there is no room for at once is a submit of its own; two messages have room on a link.
					late := ends * max(m-2, 0)
					assert.GreaterOrEqual(t, n.Submits, uint64(actions+2), at...)
					assert.LessOrEqual(t, n.Submits, uint64(actions+2+late), at...)
					assert.Equal(t, first[i].Dispatches, n.Dispatches, at...)
				}
				if i == 1 && m > 1 { // it has no inputs of its own; it is told the losses; what the optimizer is told does not depend on m
					told := 2*alone[1].WrittenBytes - alone[2].WrittenBytes
					assert.EqualValues(t, uint64(ends*m*message+pair*leaves+4*m)+told, first[i].WrittenBytes, at...)
				}
				sums := uint64(0) // of gradients with those of the microbatches before, one after every second microbatch and after the last
				if m > 1 {
					sums = uint64(m+1) / 2
				}
				key := fmt.Sprint(kind, i)
				kernels[key] = append(kernels[key], first[i].Dispatches-sums)
			}
		}
	}
	for key, n := range kernels { // of 1, 2, 3 and 5 microbatches
		assert.Equal(t, 2*(n[2]-n[1]), n[3]-n[2], key)
	}
}

// Stages on one device share its texels, and hand on without a way through the host: the plan has them together as they are.
func TestPlanOfStagesOnOneDevice(t *testing.T) {
	d := fleet(t, 1)[0]
	devices := []*gpu.Device{d, d}
	c := order(t, steep(families(t)["gpt2"], "adamw", `{}`, 2, 3), schedule.OneForwardOneBackward, 2)
	c.State.Evaluation, c.State.Sampling, c.State.Rows = c.State.Batch, true, 5
	plan := planned(t, devices, c)
	s := create(t, devices, c)
	defer s.Release()
	assert.Equal(t, plan, s.Memory())
	assert.Equal(t, plan[0].Total()+plan[1].Total()-plan[0].Transfer-plan[1].Transfer, d.Counters().LiveBytes)
}
