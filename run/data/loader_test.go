package data

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/caught"
)

// counting returns n tokens of two bytes whose values are their positions.
func counting(n int) *Tokens {
	raw := make([]byte, 2*n)
	for i := range n {
		raw[2*i], raw[2*i+1] = byte(i), byte(i>>8)
	}
	return NewTokens(1<<16, []Stretch{{Name: "counting", Bytes: strings.NewReader(string(raw)), Width: 2, Count: int64(n)}})
}

func batches(t *testing.T, tokens Source, c LoaderConfig, n int) []Batch {
	t.Helper()
	l, err := NewLoader(tokens, c)
	require.NoError(t, err)
	defer l.Close()
	var out []Batch
	for range n {
		b, err := l.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, b.State, l.State())
		out = append(out, b)
	}
	return out
}

func TestOrderIsAPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097} {
		for key := range uint64(3) {
			o := newOrder(n, 42+key, key)
			seen := make([]bool, n)
			moved := 0
			for i := range n {
				j := o.at(i)
				require.Less(t, j, n)
				require.False(t, seen[j], "n %d: %d comes twice", n, j)
				seen[j] = true
				if i != j {
					moved++
				}
			}
			if n >= 1000 {
				assert.Greater(t, moved, int(n)*99/100)
			}
		}
	}
	huge := newOrder(1<<62+12345, 1, 0)
	assert.Less(t, huge.at(1<<62), uint64(1<<62+12345))
}

// The first windows of many orders must be spread evenly: a mean and a variance
// of a uniform draw, within five standard errors.
func TestOrderIsSpread(t *testing.T) {
	const n, draws = 1000, 4000
	for _, position := range []uint64{0, 1, n - 1} {
		sum, square := 0.0, 0.0
		for seed := range uint64(draws) {
			x := float64(newOrder(n, seed, 0).at(position)) / n
			sum, square = sum+x, square+x*x
		}
		mean := sum / draws
		assert.InDelta(t, 0.5, mean, 5*0.2887/63.2)
		assert.InDelta(t, 1./12, square/draws-mean*mean, 0.007)
	}
}

func TestEveryWindowOnceAnEpoch(t *testing.T) {
	const size, n = 7, 7*23 + 4 // 23 windows: (165-1)/7
	c := LoaderConfig{Context: size, Batch: 1, Seed: 3}
	l, err := NewLoader(counting(n), c)
	require.NoError(t, err)
	require.Equal(t, uint64(23), l.walk.Length(0))
	all := batches(t, counting(n), c, 3*23)
	var orders [3][]int32
	var shifts []int32
	for epoch := range orders {
		seen := map[int32]bool{}
		shift := int32(0)
		for _, b := range all[23*epoch : 23*epoch+23] {
			require.Equal(t, size, b.Count)
			for i := range size {
				require.Equal(t, b.Tokens[0]+int32(i), b.Tokens[i])
				require.Equal(t, b.Tokens[i]+1, b.Labels[i])
			}
			seen[b.Tokens[0]] = true
			orders[epoch] = append(orders[epoch], b.Tokens[0])
			if b.Tokens[0] != n-size-1 { // the last window is moved to end with the text
				shift = b.Tokens[0] % size
			}
		}
		require.Len(t, seen, 23, "epoch %d", epoch)
		shifts = append(shifts, shift)
	}
	assert.Zero(t, shifts[0])
	assert.NotEqual(t, []int32{0, 0}, shifts[1:], "later epochs are cut elsewhere")
	assert.NotEqual(t, orders[1], orders[2])
}

func TestStateCountsWindowsAcrossEpochs(t *testing.T) {
	got := batches(t, counting(7*10+1), LoaderConfig{Context: 7, Batch: 4, Seed: 1}, 5)
	var states []State
	var epochs []float64
	for _, b := range got {
		states, epochs = append(states, b.State), append(epochs, b.Epochs)
	}
	assert.Equal(t, []State{{0, 4}, {0, 8}, {1, 2}, {1, 6}, {2, 0}}, states)
	assert.InDeltaSlice(t, []float64{0.4, 0.8, 1.2, 1.6, 2}, epochs, 1e-12)
}

func TestResumeAnywhereGivesTheSameBatches(t *testing.T) {
	tokens := counting(500)
	c := LoaderConfig{Context: 9, Batch: 4, Seed: 7}
	whole := batches(t, tokens, c, 40)
	for _, at := range []int{1, 13, 14, 39} {
		resumed := c
		resumed.State, resumed.Prefetch = whole[at-1].State, at%3
		assert.Equal(t, whole[at:], batches(t, tokens, resumed, 40-at), "from batch %d", at)
	}
	other := c
	other.Batch = 2
	halves := batches(t, tokens, other, 80)
	assert.Equal(t, whole[20].Tokens[:18], halves[40].Tokens, "the order does not depend on the batch")
	seeded := c
	seeded.Seed = 8
	assert.NotEqual(t, whole[0].Tokens, batches(t, tokens, seeded, 1)[0].Tokens)
}

func TestPrefetchChangesNothing(t *testing.T) {
	tokens := counting(700)
	want := batches(t, tokens, LoaderConfig{Context: 11, Batch: 3, Seed: 5}, 60)
	for _, depth := range []int{1, 2, 8, 64} {
		assert.Equal(t, want, batches(t, tokens, LoaderConfig{Context: 11, Batch: 3, Seed: 5, Prefetch: depth}, 60), "depth %d", depth)
	}
}

// stall is a file whose reads wait until they are let through.
type stall struct {
	io.ReaderAt
	gate chan error
}

func (s stall) ReadAt(p []byte, at int64) (int, error) {
	if err := <-s.gate; err != nil {
		return 0, err
	}
	return s.ReaderAt.ReadAt(p, at)
}

func TestStallsWaitAndErrorsStay(t *testing.T) {
	s := stall{strings.NewReader(strings.Repeat("text ", 100)), make(chan error)}
	tokens := NewTokens(256, []Stretch{{Name: "slow", Bytes: s, Width: 1, Count: 500}})
	l, err := NewLoader(tokens, LoaderConfig{Context: 10, Batch: 1, Prefetch: 2})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = l.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "a stall ends the waiting of the caller only")
	assert.Equal(t, State{}, l.State())
	s.gate <- nil
	b, err := l.Next(t.Context())
	require.NoError(t, err)
	assert.Equal(t, State{0, 1}, b.State)
	s.gate <- io.ErrUnexpectedEOF
	_, err = l.Next(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, `position 1: data: read "slow"`)
	_, err = l.Next(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "an error is final")
	assert.Equal(t, State{0, 1}, l.State())
	l.Close()
}

func TestCloseEndsPrefetching(t *testing.T) {
	for _, depth := range []int{0, 1, 3} {
		l, err := NewLoader(counting(500), LoaderConfig{Context: 9, Batch: 4, Prefetch: depth})
		require.NoError(t, err)
		_, err = l.Next(t.Context())
		require.NoError(t, err)
		l.Close()
		l.Close()
		_, err = l.Next(t.Context())
		require.ErrorIs(t, err, errClosed)
	}
}

func TestLoaderErrors(t *testing.T) {
	_, err := NewLoader(counting(9), LoaderConfig{Context: 9, Batch: 1})
	require.ErrorContains(t, err, "9 tokens found, want at least 10")
	_, err = NewLoader(counting(9), LoaderConfig{Context: 3})
	require.ErrorContains(t, err, "batch 0")
	_, err = NewLoader(counting(31), LoaderConfig{Context: 3, Batch: 1, State: State{Position: 10}})
	require.ErrorContains(t, err, "position 10, want less than the 10 windows")
	_, err = NewLoader(counting(10), LoaderConfig{Context: 9, Batch: 3})
	require.NoError(t, err, "one window is enough for any batch")
}

func TestEvaluationCountsEveryTokenOnce(t *testing.T) {
	for _, n := range []int{2, 8, 9, 10, 64, 65, 66, 100} {
		for _, batch := range []int{1, 3, 64} {
			e, err := NewEvaluation(counting(n), 8, batch, 0)
			require.NoError(t, err)
			var labels []int32
			count := 0
			for i := range e.Batches() {
				b, err := e.Batch(i)
				require.NoError(t, err)
				count += b.Count
				for j, label := range b.Labels {
					if label != Ignored {
						require.Equal(t, b.Tokens[j]+1, label)
						labels = append(labels, label)
					} else {
						require.Zero(t, b.Tokens[j])
					}
				}
			}
			require.Equal(t, n-1, count)
			require.Len(t, labels, n-1)
			for i, label := range labels {
				require.Equal(t, int32(i+1), label)
			}
		}
	}
}

func TestEvaluationOfAPartIsSpread(t *testing.T) {
	e, err := NewEvaluation(counting(8*10+1), 8, 2, 4)
	require.NoError(t, err)
	require.Equal(t, 2, e.Batches())
	var starts []int32
	for i := range 2 {
		b, err := e.Batch(i)
		require.NoError(t, err)
		starts = append(starts, b.Tokens[0], b.Tokens[8])
	}
	assert.Equal(t, []int32{0, 16, 40, 56}, starts)
	_, err = e.Batch(2)
	require.Error(t, err)
	_, err = NewEvaluation(counting(1), 8, 2, 0)
	require.ErrorContains(t, err, "1 tokens found")
}

func BenchmarkLoader(b *testing.B) {
	l, err := NewLoader(counting(60000), LoaderConfig{Context: 128, Batch: 8})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*8*128/b.Elapsed().Seconds(), "tokens/s")
}

// badly is a source with a bug.
type badly struct{ *Tokens }

func (badly) Walk(int, uint64) (Walk, error) { return badWalk{}, nil }

type badWalk struct{}

func (badWalk) Length(uint64) uint64 { return 1 }

func (badWalk) Fill(*Batch, int, State) error { panic("off by one") }

func TestLoaderReturnsAPanic(t *testing.T) {
	for _, prefetch := range []int{0, 2} {
		l, err := NewLoader(badly{}, LoaderConfig{Context: 4, Batch: 1, Prefetch: prefetch})
		require.NoError(t, err)
		_, err = l.Next(t.Context())
		var bug *caught.Panic
		require.ErrorAs(t, err, &bug)
		assert.Equal(t, "off by one", bug.Value)
		l.Close()
	}
}

// A part lies within the batches that there are; it may be empty.
func TestEvaluationRefusesParts(t *testing.T) {
	e, err := NewEvaluation(counting(50), 4, 2, 0)
	require.NoError(t, err)
	n := e.Batches()
	for _, part := range [][2]int{{-1, 1}, {0, -1}, {0, n + 1}, {1, n}, {n, 1}} {
		_, err := e.Part(part[0], part[1])
		assert.ErrorContains(t, err, fmt.Sprintf("batches [%d, %d): outside of [0, %d)", part[0], part[0]+part[1], n))
	}
	for _, part := range [][2]int{{0, n}, {n, 0}, {n - 1, 1}} {
		p, err := e.Part(part[0], part[1])
		require.NoError(t, err)
		assert.Equal(t, part[1], p.Batches())
	}
}
