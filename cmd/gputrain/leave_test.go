package main

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
)

func TestARunWithoutAStepLeavesEarly(t *testing.T) {
	var begun atomic.Bool
	left := make(chan error, 1)
	leave := func(err error) { left <- err }
	signalled := func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&train.SignalError{Signal: os.Interrupt})
		return ctx
	}
	leaveEarly(signalled(), &begun, time.Millisecond, leave)
	err := <-left
	assert.Equal(t, 3, exitCode(err))
	require.ErrorContains(t, err, "no step has been made, so there was nothing to save")

	ended := leaveEarly(signalled(), &begun, time.Hour, leave)
	ended()
	begun.Store(true)
	leaveEarly(signalled(), &begun, 0, leave)
	leaveEarly(t.Context(), &atomic.Bool{}, 0, leave)
	time.Sleep(20 * time.Millisecond) // for a leave that should not come
	assert.Empty(t, left)
}
