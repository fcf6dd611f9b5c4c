package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/caught"
)

func idle(t *testing.T, patience time.Duration) (*group, *stage) {
	t.Helper()
	return newGroup(t.Context(), patience), &stage{index: 3, device: gpu.Dry(gpu.Limits{})}
}

func TestGroupReturnsTheFirstError(t *testing.T) {
	c, s := idle(t, time.Minute)
	cut := errors.New("cut")
	woken := make(chan struct{})
	c.do(s, "saw", func() error { return cut })
	c.do(s, "wait", func() error { <-c.ctx.Done(); return context.Cause(c.ctx) })
	c.do(s, "listen", func() error { <-woken; return errors.New("another") })
	err := c.wait(nobody, func() { close(woken) })
	require.ErrorIs(t, err, cut)
	var failed *StageError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, StageError{Stage: 3, Adapter: s.device.Adapter().String(), Doing: "saw", Err: cut}, *failed)
	require.NoError(t, newGroup(t.Context(), time.Minute).wait(nobody, func() {}))
}

// A group that gets on may take long; one that stands still may not, and tells whom the others wait for.
func TestGroupThatStandsStill(t *testing.T) { synctest.Test(t, groupThatStandsStill) }

func groupThatStandsStill(t *testing.T) {
	const patience = 200 * time.Millisecond // by the clock of the bubble, which a busy machine does not delay
	c, s := idle(t, patience)
	c.do(s, "crawl", func() error {
		for range 20 {
			time.Sleep(patience / 10)
			c.moved()
		}
		return nil
	})
	require.NoError(t, c.wait(nobody, func() {}))

	stand := func(culprit func(error) error) *StageError {
		c, s := idle(t, patience)
		c.do(s, "done", func() error { return nil })
		c.do(s, "hang", func() error { <-c.ctx.Done(); return nil })
		err := c.wait(culprit, func() {})
		require.ErrorIs(t, err, gpu.ErrTimeout)
		var failed *StageError
		require.ErrorAs(t, err, &failed)
		return failed
	}
	assert.Equal(t, "hang", stand(nobody).Doing)
	assert.Equal(t, "dawdle", stand(func(late error) error { return s.failed("dawdle", late) }).Doing)
}

// What does not come back is left, and what it uses is kept until it does.
func TestGroupLeavesWhatDoesNotComeBack(t *testing.T) {
	c, s := idle(t, time.Minute)
	c.grace = 50 * time.Millisecond
	back, cut := make(chan struct{}), errors.New("cut")
	c.do(s, "hang in a driver", func() error { <-back; return nil })
	c.do(s, "fail", func() error { return cut })
	err := c.wait(nobody, func() {})
	require.ErrorIs(t, err, cut)
	var left *leftError
	require.ErrorAs(t, err, &left)

	released := make(chan struct{})
	whenBack(err, func() { close(released) })
	select {
	case <-released:
		require.Fail(t, "released under a goroutine that is at work")
	case <-time.After(50 * time.Millisecond):
	}
	close(back)
	<-released
}

func TestGroupReturnsAPanic(t *testing.T) {
	c, s := idle(t, time.Minute)
	c.do(s, "saw", func() error { panic("cut") })
	var bug *caught.Panic
	require.ErrorAs(t, c.wait(nobody, func() {}), &bug)
	assert.Equal(t, "cut", bug.Value)
}
