//go:build unix

package train

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/internal/system"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

func TestSignals(t *testing.T) {
	for _, s := range system.StopSignals {
		exited := make(chan int, 1)
		var out bytes.Buffer
		ctx, stop := Signals(context.Background(), &out, func(code int) { exited <- code })
		require.NoError(t, stopRequested(ctx))
		signal := func(s os.Signal) { require.NoError(t, syscall.Kill(syscall.Getpid(), s.(syscall.Signal))) }
		signal(s)
		select {
		case <-ctx.Done():
		case <-time.After(gputest.Patience):
			t.Fatal("the first signal does not end the context")
		}
		err := stopRequested(ctx)
		assert.Equal(t, KindStopped, KindOf(err))
		assert.ErrorContains(t, err, s.String())
		assert.Empty(t, exited)
		for range 2 {
			signal(syscall.SIGHUP) // a terminal that closes sends several
		}
		time.Sleep(50 * time.Millisecond)
		assert.Empty(t, exited)
		signal(os.Interrupt)
		select {
		case code := <-exited:
			assert.Equal(t, 1, code)
		case <-time.After(gputest.Patience):
			t.Fatal("the second signal does not end the process")
		}
		stop()
	}
}

// What nohup has said to ignore is ignored.
func TestHangupThatIsIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	assert.Len(t, StopSignals(), len(system.StopSignals)-1)
	ctx, stop := Signals(context.Background(), io.Discard, func(int) { t.Error("ended") })
	defer stop()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, ctx.Err())
}

// A signal in any phase stops the run there; the same run then goes on to the same end.
func TestSignalInEveryPhase(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	phases := map[string]func(c *Config, target *interrupted, signal func()){
		"compiling": func(_ *Config, target *interrupted, signal func()) { target.signal = signal },
		"data wait": func(c *Config, _ *interrupted, signal func()) {
			c.Batches = func(from data.State) (BatchSource, error) {
				l, err := data.NewLoader(c.Train, data.LoaderConfig{Context: 16, Batch: 4, Seed: c.State.Seed, State: from})
				return &hangingSource{Loader: l, left: 5, signal: signal}, err
			}
		},
		"sampling": func(c *Config, _ *interrupted, signal func()) {
			c.Tokenizer = stoppingTokenizer{stop: signal}
		},
		"saving": func(c *Config, _ *interrupted, signal func()) {
			c.State.FS = signallingFS{checkpoint.OS, signal}
		},
	}
	for name, at := range map[string]stop{
		"begun": {Started, 0}, "step": {StepEnd, 5}, "figures": {Stepped, 4}, "evaluation": {Evaluating, 4}, "evaluated": {Evaluated, 4},
		"the last figures": {Stepped, 12}, "the last evaluation": {Evaluated, 12}, "the last sample": {Sampled, 12}, "the last checkpoint": {Saved, 12},
	} {
		phases[name] = func(c *Config, _ *interrupted, signal func()) {
			c.Hooks = []Hook{on(at.kind, at.step, func(context.Context, Event) error { signal(); return nil })}
		}
	}
	for name, disturb := range phases {
		t.Run(name, func(t *testing.T) {
			ctx, stop := Signals(t.Context(), io.Discard, func(int) { t.Error("one signal does not end the process") })
			defer stop()
			c := tinyRun(t, t.TempDir())
			target := &interrupted{oneDevice: oneDevice{device: dev}}
			once := sync.OnceFunc(func() {
				assert.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
				<-ctx.Done()
			})
			disturb(&c, target, once)
			result, err := RunOn(ctx, target, c)
			assert.Equal(t, result.Step, newestStep(t, c.Dir), "saved")
			if strings.HasPrefix(name, "the last") {
				assert.EqualValues(t, 12, result.Step)
			} else {
				require.ErrorIs(t, err, ErrStopped)
				assert.ErrorContains(t, err, "signal terminated")
				assert.Equal(t, 3, result.Reason.ExitCode())
				assert.Less(t, result.Step, int64(12))
			}
			ran(t, dev, tinyRun(t, c.Dir))
			assert.Equal(t, want, outcomeOf(t, c.Dir))
		})
	}
}

// interrupted is one device whose state is being made when the signal comes.
type interrupted struct {
	oneDevice
	signal func()
}

func (i *interrupted) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	if i.signal != nil {
		i.signal()
	}
	return i.oneDevice.Create(ctx, c, params)
}

// hangingSource has a few batches, and then waits for ever.
type hangingSource struct {
	*data.Loader
	left   int
	signal func()
}

func (h *hangingSource) Next(ctx context.Context) (data.Batch, error) {
	if h.left == 0 {
		h.signal()
		<-ctx.Done()
		return data.Batch{}, ctx.Err()
	}
	h.left--
	return h.Loader.Next(ctx)
}

// signallingFS is written to when the signal comes.
type signallingFS struct {
	checkpoint.FileSystem
	signal func()
}

func (f signallingFS) Rename(from, to string) error {
	f.signal()
	return f.FileSystem.Rename(from, to)
}
