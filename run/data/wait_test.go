package data

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted is a file that counts its reads.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(p, at)
}

// slow is a file whose reads take a time.
type slow struct {
	io.ReaderAt
	takes time.Duration
}

func (s slow) ReadAt(p []byte, at int64) (int, error) {
	time.Sleep(s.takes)
	return s.ReaderAt.ReadAt(p, at)
}

func slowText(takes time.Duration) *Tokens {
	s := slow{strings.NewReader(strings.Repeat("text ", 100)), takes}
	return NewTokens(256, []Stretch{{Name: "slow", Bytes: s, Width: 1, Count: 500}})
}

// A slow disk is waited for and spoken of; it never looks like the end of the data.
func TestSlowReadsAreWaitedFor(t *testing.T) {
	for _, depth := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			var said []time.Duration
			l, err := NewLoader(slowText(90*time.Second), LoaderConfig{
				Context: 10, Batch: 1, Prefetch: depth, Timeout: 2 * time.Minute, Slow: func(waited time.Duration) { said = append(said, waited) },
			})
			require.NoError(t, err)
			for i := range 3 {
				b, err := l.Next(t.Context())
				require.NoError(t, err)
				assert.Equal(t, uint64(i+1), b.State.Position)
			}
			assert.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}, said[:4])
			assert.GreaterOrEqual(t, len(said), 12)
			l.Close()
			time.Sleep(time.Hour) // what was being read comes to its end
		})
	}
}

// One that hangs ends the run, with an error that says so and stays; Close does not wait for it for ever.
func TestHangingReadsTimeOut(t *testing.T) {
	for _, depth := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			l, err := NewLoader(slowText(24*time.Hour), LoaderConfig{Context: 10, Batch: 1, Prefetch: depth, Timeout: time.Minute})
			require.NoError(t, err)
			began := time.Now()
			_, err = l.Next(t.Context())
			var timeout *TimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.Equal(t, TimeoutError{Waited: time.Minute}, *timeout)
			assert.ErrorContains(t, err, "epoch 0, position 0: no batch within 1m0s")
			assert.NotErrorIs(t, err, io.EOF)
			assert.Equal(t, time.Minute, time.Since(began))
			_, again := l.Next(t.Context())
			assert.Equal(t, err, again)
			l.Close()
			assert.Equal(t, time.Minute+closeWait, time.Since(began))
			time.Sleep(48 * time.Hour)
		})
	}
}

// Without a time-out it waits as long as it takes.
func TestNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLoader(slowText(24*time.Hour), LoaderConfig{Context: 10, Batch: 1})
		require.NoError(t, err)
		_, err = l.Next(t.Context())
		require.NoError(t, err)
		l.Close()
	})
}

// Who stops waiting loses nothing: the batch that was being read is the next one.
func TestNothingIsLostByGivingUp(t *testing.T) {
	for _, depth := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			text := slowText(time.Minute)
			file := &counted{ReaderAt: text.segments[0].Bytes}
			text.segments[0].Bytes = file
			c := LoaderConfig{Context: 10, Batch: 1, Prefetch: depth, Seed: 3}
			l, err := NewLoader(text, c)
			require.NoError(t, err)
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
				_, err := l.Next(ctx)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			got, err := l.Next(t.Context())
			require.NoError(t, err)
			if depth == 0 {
				assert.Equal(t, 1, file.n, "the window was read once")
			}
			l.Close()
			time.Sleep(time.Hour)
			assert.Equal(t, batches(t, slowText(0), c, 1)[0], got)
		})
	}
}
