package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state/checkpoint"
)

// finite bounds what a failure may take until it is told; it is only ever used up by a run that stands still.
const finite = gputest.Patience

// shape is a pipeline to be disturbed.
type shape struct {
	schedule       string
	stages, chunks int
	ahead          int
	recompute      string
}

var shapes = []shape{
	{schedule.GPipe, 3, 1, 0, model.RecomputeNone},
	{schedule.OneForwardOneBackward, 3, 1, 0, model.RecomputeLayers},
	{schedule.OneForwardOneBackward, 2, 1, 1, model.RecomputeNone},
	{schedule.Interleaved, 2, 2, 0, model.RecomputeAttention},
}

// microbatches of an update of a disturbed pipeline.
const microbatches = 3

func (s shape) config(t *testing.T) pipeline.Config {
	c := config(tiny(t), "adamw", microbatches)
	c.Evaluation, c.Sampling, c.Recompute = c.Batch, true, s.recompute
	return pipeline.Config{
		State: c, Assignment: assignment(t, c, s.stages, s.chunks), Schedule: s.schedule, Ahead: s.ahead, Timeout: finite / 2,
	}
}

func (s shape) String() string {
	return fmt.Sprintf("%s, %d stages of %d, ahead %d, recompute %s", s.schedule, s.stages, s.chunks, s.ahead, s.recompute)
}

// links is the number of links of training between different devices, one each way at each cut, and around for several parts a stage.
func (s shape) links() int { return 2 * (s.stages*s.chunks - 1) }

// errCut is a fault of a link.
var errCut = errors.New("the wire is cut")

// fault is what goes wrong from one message of one link on, in the sender's call or in the receiver's, and what must come of it.
type fault struct {
	name  string
	is    error  // the cause
	says  string // the cause, in words
	where func(from, to int) int
	// send and receive stand for the link's own; nil is that.
	buffer  func(ctx context.Context, l pipeline.Link) (pipeline.Message, error)
	send    func(ctx context.Context, l pipeline.Link, m pipeline.Message) error
	receive func(ctx context.Context, l pipeline.Link) (pipeline.Message, error)
	hangs   bool // which is told when the pipeline has no patience left
}

func sender(from, _ int) int              { return from }
func receiver(_, to int) int              { return to }
func untilOver(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

var linkFaults = []fault{
	{name: "no buffer", is: errCut, where: sender, buffer: func(context.Context, pipeline.Link) (pipeline.Message, error) {
		return pipeline.Message{}, errCut
	}},
	{name: "send fails", is: errCut, where: sender, send: func(context.Context, pipeline.Link, pipeline.Message) error { return errCut }},
	{name: "receive fails", is: errCut, where: receiver, receive: func(context.Context, pipeline.Link) (pipeline.Message, error) {
		return pipeline.Message{}, errCut
	}},
	{name: "closed", is: pipeline.ErrLinkClosed, where: sender, send: func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		_ = l.Close()
		return l.Send(ctx, m)
	}},
	{name: "another microbatch", says: "wanted", where: receiver, send: func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		m.Microbatch += 7
		return l.Send(ctx, m)
	}},
	{name: "a tensor too few", says: "tensors, wanted", where: receiver, receive: func(ctx context.Context, l pipeline.Link) (pipeline.Message, error) {
		m, err := l.Receive(ctx)
		m.Tensors = m.Tensors[:len(m.Tensors)-1]
		return m, err
	}},
	{name: "bytes too few", says: "bytes of data", where: receiver, receive: func(ctx context.Context, l pipeline.Link) (pipeline.Message, error) {
		m, err := l.Receive(ctx)
		m.Tensors = append([][]byte{m.Tensors[0][4:]}, m.Tensors[1:]...)
		return m, err
	}},
	{name: "never delivered", is: gpu.ErrTimeout, where: receiver, hangs: true, send: func(_ context.Context, l pipeline.Link, m pipeline.Message) error {
		l.Free(m)
		return nil
	}},
	{name: "stuck in the sender", is: gpu.ErrTimeout, where: receiver, hangs: true, send: func(ctx context.Context, _ pipeline.Link, _ pipeline.Message) error {
		return untilOver(ctx)
	}},
	{name: "delivered and stuck", is: gpu.ErrTimeout, hangs: true, send: func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		return errors.Join(l.Send(ctx, m), untilOver(ctx))
	}},
	{name: "no room", is: gpu.ErrTimeout, where: receiver, hangs: true, buffer: func(ctx context.Context, _ pipeline.Link) (pipeline.Message, error) {
		return pipeline.Message{}, untilOver(ctx)
	}},
	{name: "deaf", is: gpu.ErrTimeout, where: receiver, hangs: true, receive: func(ctx context.Context, _ pipeline.Link) (pipeline.Message, error) {
		return pipeline.Message{}, untilOver(ctx)
	}},
}

// snare is a link that has a fault from one message on.
type snare struct {
	pipeline.Link
	fault
	at                        int64 // the message, counted from 0
	buffered, sent, delivered atomic.Int64
}

func (s *snare) Buffer(ctx context.Context) (pipeline.Message, error) {
	if n := s.buffered.Add(1) - 1; n >= s.at && s.buffer != nil {
		return s.buffer(ctx, s.Link)
	}
	return s.Link.Buffer(ctx)
}

func (s *snare) Send(ctx context.Context, m pipeline.Message) error {
	if n := s.sent.Add(1) - 1; n >= s.at && s.send != nil {
		return s.send(ctx, s.Link, m)
	}
	return s.Link.Send(ctx, m)
}

func (s *snare) Receive(ctx context.Context) (pipeline.Message, error) {
	if n := s.delivered.Add(1) - 1; n >= s.at && s.receive != nil {
		return s.receive(ctx, s.Link)
	}
	return s.Link.Receive(ctx)
}

// lay makes link number which of a configuration's training a snare, and tells its ends.
func lay(c *pipeline.Config, f fault, which int, at int64) (from, to *int) {
	n := 0
	from, to = new(int), new(int)
	c.NewLink = func(name string, capacity int, sizes []uint64) (pipeline.Link, error) {
		l := pipeline.NewHostLink(name, capacity, sizes)
		n++
		if n-1 != which {
			return l, nil
		}
		var kind string
		if _, err := fmt.Sscanf(name, "%s stage %d to %d", &kind, from, to); err != nil {
			return nil, err
		}
		return &snare{Link: l, fault: f, at: at}, nil
	}
	return from, to
}

// fails makes steps until one fails, and asserts what holds for any failure.
func fails(t *testing.T, s *pipeline.State, c pipeline.Config, steps int) *pipeline.StageError {
	t.Helper()
	before := runtime.NumGoroutine()
	begin := time.Now()
	var err error
	for i := 0; i < steps && err == nil; i++ {
		_, err = s.TrainStep(t.Context(), batch(c.State, i))
	}
	require.Error(t, err, "%d steps", steps)
	assert.Less(t, time.Since(begin), finite, "the failure is told")
	var failed *pipeline.StageError
	require.ErrorAs(t, err, &failed)
	assert.Contains(t, err.Error(), fmt.Sprintf("stage %d (%s): ", failed.Stage, failed.Adapter))
	assert.NotEmpty(t, failed.Doing)
	gone(t, before)
	requireUnusable(t, s, c)
	return failed
}

// gone asserts that no more goroutines are left than there were.
func gone(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(finite); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			require.Fail(t, "goroutines are left", "%d, were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// requireUnusable asserts that a state whose step has failed says so of everything that would need what it has lost.
func requireUnusable(t *testing.T, s *pipeline.State, c pipeline.Config) {
	t.Helper()
	_, step := s.TrainStep(t.Context(), batch(c.State, 0))
	_, drain := s.Drain(t.Context())
	_, logits := s.Logits(t.Context(), []int32{1})
	save := s.Save(t.Context(), t.TempDir()+"/step", checkpoint.Run{})
	for what, err := range map[string]error{"step": step, "drain": drain, "logits": logits, "save": save} {
		require.ErrorContains(t, err, "not usable after: stage ", what)
	}
}

// empty asserts that a device has nothing left of a state, once what hangs has come back.
func empty(t *testing.T, d *gpu.Device) {
	t.Helper()
	const staging = 64 << 10 // what a device keeps for reading, once it has read
	assert.Eventually(t, func() bool { return d.Counters().LiveBytes <= staging }, finite, time.Millisecond, "%+v", d.Counters())
}

// brief is a patience that is long for anything that pipelines of these shapes do by themselves on this machine, measured: all of what they do,
// up to the end of a step, on new devices. Before that the driver gets to know their kernels. It has an end, as what hangs takes a multiple of it.
func brief(t *testing.T, shapes ...shape) time.Duration {
	t.Helper()
	slowest := time.Duration(0)
	for _, s := range shapes {
		for try := range 2 {
			devices, c := disturbed(t, s.stages, gputest.Patience), s.config(t)
			begin := time.Now()
			p, err := pipeline.Create(t.Context(), devices, c, nil)
			require.NoError(t, err)
			_, err = p.TrainStep(t.Context(), batch(c.State, 0))
			require.NoError(t, err)
			if try > 0 {
				slowest = max(slowest, time.Since(begin))
			}
			p.Release()
		}
	}
	return min(max(time.Second, 3*slowest), 20*time.Second)
}

// Whatever goes wrong on whichever link at whichever message of whichever step, the step ends with the stage where it did, and leaves nothing behind.
func TestLinksThatFail(t *testing.T) {
	const seed = 20260730
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	devices := disturbed(t, 3, gputest.Patience)
	patience := brief(t, shapes...)
	for i, f := range linkFaults {
		s := shapes[i%len(shapes)]
		which, at := chance.IntN(s.links()), chance.Int64N(3*microbatches)
		if testing.Short() && f.hangs && i%4 > 0 {
			continue // each waits for seconds
		}
		t.Run(fmt.Sprintf("%s/%v, link %d, message %d", f.name, s, which, at), func(t *testing.T) {
			c := s.config(t)
			if f.hangs {
				c.Timeout = patience
			}
			from, to := lay(&c, f, which, at)
			p, err := pipeline.Create(t.Context(), devices[:s.stages], c, nil)
			require.NoError(t, err)
			failed := fails(t, p, c, 4)
			if f.is != nil {
				assert.ErrorIs(t, failed, f.is)
			}
			assert.ErrorContains(t, failed, f.says)
			if f.where != nil {
				assert.Equal(t, f.where(*from, *to), failed.Stage, "%v", failed)
				assert.Contains(t, failed.Error(), fmt.Sprintf("stage %d to %d", *from, *to))
			}
			p.Release()
		})
	}
	for _, d := range devices {
		empty(t, d)
		assert.NoError(t, d.Err())
	}
}

// disturbed are devices whose waits end after a time.
func disturbed(t *testing.T, n int, timeout time.Duration) []*gpu.Device {
	t.Helper()
	var out []*gpu.Device
	for range n {
		out = append(out, gputest.Device(t, gputest.WithTimeout(timeout)))
	}
	return out
}

// when runs something when a message of a link of training is sent, and makes no fault of its own.
func when(c *pipeline.Config, which int, message int64, do func()) {
	lay(c, fault{send: func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		do()
		return l.Send(ctx, m)
	}}, which, message)
}

// A device lost in the middle of a step, whichever it is and whatever the others are at, is told by name; the others go on with another state.
func TestDevicesLost(t *testing.T) {
	const seed = 20260731
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	cases := 2
	switch {
	case os.Getenv("GPUTRAIN_SOAK") == "1":
		cases = 25
	case testing.Short():
		cases = 1
	}
	for _, s := range shapes {
		devices := disturbed(t, s.stages, gputest.Patience)
		for range cases {
			victim, which, message := chance.IntN(s.stages), chance.IntN(s.links()), chance.Int64N(3*microbatches)
			later := time.Duration(chance.IntN(8000)) * time.Microsecond
			t.Run(fmt.Sprintf("%v/stage %d, %v after link %d, message %d", s, victim, later, which, message), func(t *testing.T) {
				c := s.config(t)
				var once sync.Once
				when(&c, which, message, func() {
					once.Do(func() { time.AfterFunc(later, func() { devices[victim].Lose("pulled out") }) })
				})
				p, err := pipeline.Create(t.Context(), devices, c, nil)
				require.NoError(t, err)
				failed := fails(t, p, c, 100)
				assert.ErrorIs(t, failed, gpu.ErrDeviceLost)
				assert.ErrorContains(t, failed, "pulled out")
				assert.Equal(t, victim, failed.Stage, "%v", failed)
				p.Release()
			})
			devices[victim].Release()
			devices[victim] = disturbed(t, 1, gputest.Patience)[0]
		}
		p, err := pipeline.Create(t.Context(), devices, s.config(t), nil)
		require.NoError(t, err)
		_, err = p.TrainStep(t.Context(), batch(s.config(t).State, 0))
		require.NoError(t, err, "the devices that were left, and new ones")
		p.Release()
		for _, d := range devices {
			empty(t, d)
		}
	}
}

// A device that does not finish is told by name, in the middle of a step and at its end, also where its driver does not even return from a submit.
func TestDevicesThatHang(t *testing.T) {
	for i, s := range shapes {
		if (i > 1 || i > 0 && testing.Short()) && os.Getenv("GPUTRAIN_SOAK") != "1" {
			break // they take long
		}
		victim, link, message := 1, 0, int64(microbatches)
		if i%2 == 1 { // behind all that it gets
			victim, link, message = s.stages-1, s.links()-1, 2*microbatches-1
		}
		t.Run(fmt.Sprintf("%v/stage %d", s, victim), func(t *testing.T) {
			patience := brief(t, s)
			devices := disturbed(t, s.stages, patience)
			c := s.config(t)
			c.Timeout = patience
			hang := gputest.Hang(t, devices[victim])
			var once sync.Once
			when(&c, link, message, func() {
				once.Do(func() { hang(4 * patience) })
			})
			p, err := pipeline.Create(t.Context(), devices, c, nil)
			require.NoError(t, err)
			failed := fails(t, p, c, 100)
			assert.ErrorIs(t, failed, gpu.ErrTimeout)
			assert.Equal(t, victim, failed.Stage, "%v", failed)
			assert.Regexp(t, `^(forward|backward) of part \d, microbatch \d$|^update$|^copy of |^send over link`, failed.Doing)
			p.Release()
			for j, d := range devices {
				if j != victim {
					empty(t, d)
					assert.NoError(t, d.Err())
				}
			}
		})
	}
}

// Stages that share a device are lost together, and whichever is told first is one of them; so is a device that was lost between two steps.
func TestSharedAndIdleDevicesLost(t *testing.T) {
	s := shapes[0]
	d := disturbed(t, 2, gputest.Patience)
	c := s.config(t)
	when(&c, 0, microbatches, func() { d[1].Lose("pulled out") })
	p, err := pipeline.Create(t.Context(), []*gpu.Device{d[0], d[1], d[1]}, c, nil)
	require.NoError(t, err)
	defer p.Release()
	failed := fails(t, p, c, 3)
	assert.ErrorIs(t, failed, gpu.ErrDeviceLost)
	assert.Contains(t, []int{1, 2}, failed.Stage)

	d[1] = disturbed(t, 1, gputest.Patience)[0]
	c = s.config(t)
	p, err = pipeline.Create(t.Context(), []*gpu.Device{d[0], d[0], d[1]}, c, nil)
	require.NoError(t, err)
	defer p.Release()
	_, err = p.TrainStep(t.Context(), batch(c.State, 0))
	require.NoError(t, err)
	d[1].Lose("pulled out")
	failed = fails(t, p, c, 1)
	assert.ErrorIs(t, failed, gpu.ErrDeviceLost)
	assert.Equal(t, 2, failed.Stage)
}

// A device that has nothing left in the midst of a step: the copy of a tied parameter goes through a buffer that is made when it is first needed.
func TestOutOfMemoryInAStep(t *testing.T) {
	s := shapes[0]
	c := s.config(t)
	d := disturbed(t, 3, gputest.Patience)
	plan := planned(t, []*gpu.Device{d[2], d[0], d[1]}, c)
	tight := gputest.Device(t, gputest.WithMemoryLimit(plan[0].Total()+plan[1].Total()+plan[2].Total())) // of the adapter, so for all of its stages
	p, err := pipeline.Create(t.Context(), []*gpu.Device{tight, d[0], d[1]}, c, nil)
	require.NoError(t, err, "what is planned does fit")
	defer p.Release()
	left, _, known := tight.Available()
	require.True(t, known)
	_, err = tight.NewBuffer("somebody else's", left)
	require.NoError(t, err)
	failed := fails(t, p, c, 2)
	assert.ErrorIs(t, failed, gpu.ErrOutOfMemory)
	assert.Equal(t, 0, failed.Stage)
	assert.Contains(t, failed.Doing, "wte.weight")
}

// An evaluation or a sample that fails half way leaves messages on the links, so no step can follow.
func TestEvaluationThatFails(t *testing.T) {
	s := shapes[0]
	d := disturbed(t, s.stages, gputest.Patience)
	c := s.config(t)
	var cut atomic.Bool
	c.NewLink = func(name string, capacity int, sizes []uint64) (pipeline.Link, error) {
		l := pipeline.NewHostLink(name, capacity, sizes)
		return &snare{Link: l, fault: fault{send: func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
			if cut.Load() {
				return errCut
			}
			return l.Send(ctx, m)
		}}}, nil
	}
	p, err := pipeline.Create(t.Context(), d, c, nil)
	require.NoError(t, err)
	defer p.Release()
	_, err = p.TrainStep(t.Context(), batch(c.State, 0))
	require.NoError(t, err)
	_, err = p.Logits(t.Context(), []int32{1})
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	cut.Store(true)
	_, err = p.Logits(t.Context(), []int32{1})
	require.ErrorIs(t, err, errCut)
	var failed *pipeline.StageError
	require.ErrorAs(t, err, &failed)
	gone(t, before)
	requireUnusable(t, p, c)
}
