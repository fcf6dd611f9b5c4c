//go:build unix

package train

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, stopSignals[len(stopSignals)-1].(syscall.Signal)} {
		exited := make(chan int, 1)
		var out bytes.Buffer
		ctx, stop := Signals(context.Background(), &out, func(code int) { exited <- code })
		require.NoError(t, stopRequested(ctx))
		require.NoError(t, syscall.Kill(syscall.Getpid(), s))
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the first signal does not end the context")
		}
		err := stopRequested(ctx)
		assert.Equal(t, Stopped, reasonOf(err))
		assert.ErrorContains(t, err, s.String())
		assert.Empty(t, exited)
		require.NoError(t, syscall.Kill(syscall.Getpid(), s))
		select {
		case code := <-exited:
			assert.Equal(t, 1, code)
		case <-time.After(10 * time.Second):
			t.Fatal("the second signal does not end the process")
		}
		stop()
	}
}
