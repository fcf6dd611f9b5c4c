package pipeline_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/pipeline"
)

// faultyLink is a link on which something happens when microbatch 1 is sent.
type faultyLink struct {
	pipeline.Link
	send func(ctx context.Context, l pipeline.Link, m pipeline.Message) error
}

func (l faultyLink) Send(ctx context.Context, m pipeline.Message) error {
	if m.Microbatch != 1 {
		return l.Link.Send(ctx, m)
	}
	return l.send(ctx, l.Link, m)
}

// broken trains a tiny model on three devices until the link from stage 0 to 1 meets its fault, and gives the error of that step.
func broken(t *testing.T, devices []*gpu.Device, schedule string, timeout time.Duration, send func(context.Context, pipeline.Link, pipeline.Message) error) error {
	t.Helper()
	c := config(tiny(t), "adamw", 4)
	made := false
	s, err := pipeline.Create(t.Context(), devices, pipeline.Config{
		State: c, Assignment: assignment(t, c, len(devices), 1), Schedule: schedule, Timeout: timeout,
		NewLink: func(name string, capacity int, sizes []uint64) (pipeline.Link, error) {
			l, err := pipeline.NewHostLink(name, capacity, sizes)
			if err == nil && strings.Contains(name, "stage 0 to 1") {
				made = true
				return faultyLink{l, send}, nil
			}
			return l, err
		},
	}, nil)
	require.NoError(t, err)
	defer s.Release()
	require.True(t, made)
	before := runtime.NumGoroutine()
	start := time.Now()
	_, failed := s.TrainStep(t.Context(), batch(c, 0))
	require.Error(t, failed)
	require.Less(t, time.Since(start), 30*time.Second, "what is stuck in a driver is left")
	_, err = s.TrainStep(t.Context(), batch(c, 1))
	require.ErrorContains(t, err, "pipeline: step 1: the state is not usable after: ")
	require.ErrorIs(t, err, failed.(interface{ Unwrap() error }).Unwrap())
	_, err = s.Drain(t.Context())
	require.ErrorContains(t, err, "not usable")
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.False(t, time.Now().After(end), "stages that were left running")
	}
	return failed
}

// requireStage wants the error to name a stage by its number and adapter.
func requireStage(t *testing.T, err error, stage int, d *gpu.Device) {
	t.Helper()
	var at *pipeline.StageError
	require.ErrorAs(t, err, &at)
	require.Equal(t, stage, at.Stage, err.Error())
	require.Equal(t, d.Adapter().String(), at.Adapter)
	require.ErrorContains(t, err, "pipeline: step 1: pipeline: stage ")
}

// eachSchedule runs a test for the schedules of one part a stage.
func eachSchedule(t *testing.T, test func(t *testing.T, schedule string)) {
	for _, schedule := range []string{pipeline.GPipe, pipeline.OneForwardOneBackward} {
		t.Run(schedule, func(t *testing.T) { test(t, schedule) })
	}
}

// A device that is lost in the midst of a step ends it, whichever stage it was.
func TestLostStage(t *testing.T) {
	eachSchedule(t, func(t *testing.T, schedule string) {
		for stage := range 3 {
			devices := gputest.Several(t, 3)
			err := broken(t, devices, schedule, time.Minute, func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
				devices[stage].Lose("pulled out")
				return l.Send(ctx, m)
			})
			require.ErrorIs(t, err, gpu.ErrDeviceLost)
			require.ErrorContains(t, err, "pulled out")
			requireStage(t, err, stage, devices[stage])
		}
	})
}

// Stages that share a device are lost together.
func TestLostDeviceOfTwoStages(t *testing.T) {
	d := gputest.Several(t, 2)
	err := broken(t, []*gpu.Device{d[0], d[1], d[1]}, pipeline.OneForwardOneBackward, time.Minute, func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		d[1].Lose("pulled out")
		return l.Send(ctx, m)
	})
	require.ErrorIs(t, err, gpu.ErrDeviceLost)
	require.ErrorContains(t, err, "pulled out")
}

// A device whose work does not end is not waited for: not by the others, and not by itself where its driver still answers.
func TestHungStage(t *testing.T) {
	for stage := range 3 {
		devices := gputest.Several(t, 3)
		hang := gputest.Hang(t, devices[stage])
		err := broken(t, devices, pipeline.OneForwardOneBackward, 250*time.Millisecond, func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
			hang(600 * time.Millisecond)
			return l.Send(ctx, m)
		})
		require.ErrorIs(t, err, gpu.ErrTimeout)
		var at *pipeline.StageError
		require.ErrorAs(t, err, &at)
	}
}

// A message that never comes: the stage that waits says for what and on which link.
func TestStuckLink(t *testing.T) {
	eachSchedule(t, func(t *testing.T, schedule string) {
		devices := gputest.Several(t, 3)
		err := broken(t, devices, schedule, 300*time.Millisecond, func(ctx context.Context, _ pipeline.Link, _ pipeline.Message) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, gpu.ErrTimeout)
		require.ErrorContains(t, err, "300ms")
		require.ErrorContains(t, err, "on link ")
		var at *pipeline.StageError
		require.ErrorAs(t, err, &at)
	})
}

func TestFailingLink(t *testing.T) {
	cut := errors.New("the cable is cut")
	eachSchedule(t, func(t *testing.T, schedule string) {
		devices := gputest.Several(t, 3)
		err := broken(t, devices, schedule, time.Minute, func(context.Context, pipeline.Link, pipeline.Message) error { return cut })
		require.ErrorIs(t, err, cut)
		requireStage(t, err, 0, devices[0])
		require.ErrorContains(t, err, "stage 0 to 1")
	})
}

// A link that closes ends the step at either of its ends.
func TestClosedLink(t *testing.T) {
	devices := gputest.Several(t, 3)
	err := broken(t, devices, pipeline.OneForwardOneBackward, time.Minute, func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		assert.NoError(t, l.Close())
		return l.Send(ctx, m)
	})
	require.ErrorIs(t, err, pipeline.ErrLinkClosed)
	require.ErrorContains(t, err, "stage 0 to 1")
}

// What a link mixes up is found out, not learned from.
func TestLinkThatMixesUp(t *testing.T) {
	devices := gputest.Several(t, 3)
	err := broken(t, devices, pipeline.GPipe, time.Minute, func(ctx context.Context, l pipeline.Link, m pipeline.Message) error {
		m.Microbatch = 2
		return l.Send(ctx, m)
	})
	requireStage(t, err, 1, devices[1])
	require.ErrorContains(t, err, "found microbatch 2 of 1 tensors, wanted 1 of 1")
}

// A device that was lost before the step began.
func TestStageLostBefore(t *testing.T) {
	devices := gputest.Several(t, 3)
	c := config(tiny(t), "adamw", 4)
	s, err := pipeline.Create(t.Context(), devices, pipeline.Config{State: c, Assignment: assignment(t, c, 3, 1)}, nil)
	require.NoError(t, err)
	defer s.Release()
	devices[2].Lose("pulled out")
	_, err = s.TrainStep(t.Context(), batch(c, 0))
	require.ErrorIs(t, err, gpu.ErrDeviceLost)
	requireStage(t, err, 2, devices[2])
}
