package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/ranks/transport"
)

// together runs do on each of n ranks, and returns their errors.
func together(n int, do func(rank int, m *Mesh) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, ranks := range transport.Local(n) {
		all.Go(func() { errs[rank] = do(rank, New(ranks, Config{Timeout: time.Minute})) })
	}
	all.Wait()
	return errs
}

// Of several reasons to end the heaviest is that of all, of the lowest rank that has it; and what meets it need not be an agreement.
func TestRanksEndTogether(t *testing.T) {
	stop, broken := errors.New("a signal"), errors.New("a disk")
	for name, c := range map[string]struct {
		weights [3]Weight
		reason  int // the rank whose it is; -1: they go on
	}{
		"none": {[3]Weight{}, -1}, "one": {[3]Weight{0, 0, Stop}, 2}, "two": {[3]Weight{0, Stop, Stop}, 1}, "heavier": {[3]Weight{Stop, Sound, Fatal}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			met := make([][][]byte, 3)
			for rank, err := range together(3, func(rank int, m *Mesh) error {
				m.config.Code = func(err error) int {
					if errors.Is(err, stop) {
						return 3
					}
					return 6
				}
				var own error
				switch c.weights[rank] {
				case Stop:
					own = stop
				case Sound, Fatal:
					own = broken
				}
				if own == nil && rank == 1 { // has come to something else, and learns of it there
					if _, err := m.Gather(t.Context(), "agreement", []byte("1")); err != nil {
						_, again := m.Agree(t.Context(), err, Fatal, nil)
						assert.Equal(t, err, again)
						return err
					}
					return nil
				}
				all, err := m.Agree(t.Context(), own, c.weights[rank], fmt.Append(nil, rank))
				met[rank] = all
				return err
			}) {
				switch {
				case c.reason < 0:
					require.NoError(t, err)
					if rank != 1 {
						assert.Equal(t, [][]byte{[]byte("0"), []byte("1"), []byte("2")}, met[rank])
					}
				case rank == c.reason:
					assert.True(t, err == stop || err == broken)
				default:
					var peer *PeerError
					require.ErrorAs(t, err, &peer)
					assert.Equal(t, c.reason, peer.Rank)
					assert.Equal(t, c.weights[c.reason], peer.Weight)
					assert.Equal(t, map[Weight]int{Stop: 3, Fatal: 6}[peer.Weight], peer.Code)
					assert.ErrorContains(t, err, fmt.Sprintf("rank %d on host %s: a ", c.reason, peer.Host))
				}
			}
		})
	}
}

// Who has agreed to stop may still fail, which all then end with; rank 0 alone tells of it, for all.
func TestConclude(t *testing.T) {
	for rank, err := range together(2, func(rank int, m *Mesh) error {
		var own error
		if rank == 1 {
			own = errors.New("a signal")
		}
		_, err := m.Agree(t.Context(), own, Stop, nil)
		assert.Error(t, err)
		if rank == 0 {
			err = m.Conclude(t.Context(), errors.New("no space"), Fatal)
		} else {
			err = m.Conclude(t.Context(), err, Stop)
		}
		assert.Equal(t, rank == 0, m.Tells(err))
		return err
	}) {
		assert.ErrorContains(t, err, "no space", "rank %d", rank)
	}
}

// A wait that is too long names who did not come, and what for.
func TestWaitsEnd(t *testing.T) {
	over := make(chan struct{})
	errs := together(2, func(rank int, m *Mesh) error {
		if rank == 1 {
			<-over
			return nil
		}
		defer close(over)
		m.config.Timeout = 20 * time.Millisecond
		m.Expect(10 * time.Millisecond)
		_, err := m.Gather(context.Background(), "losses", nil)
		assert.True(t, m.Tells(err))
		_, again := m.Agree(context.Background(), nil, GoOn, nil)
		assert.ErrorIs(t, again, err, "no other call succeeds")
		return err
	})
	var late *WaitError
	require.ErrorAs(t, errs[0], &late)
	assert.Equal(t, 30*time.Millisecond, late.Waited)
	assert.ErrorContains(t, errs[0], "cluster: rank 0 on host ")
	assert.ErrorContains(t, errs[0], "rank 1 (")
	assert.ErrorContains(t, errs[0], "waited 30ms for losses of all ranks")
}

// unreached are ranks of which one does not answer from a time on.
type unreached struct {
	transport.Ranks
	from time.Time
}

func (u unreached) Reach(ctx context.Context) error {
	if time.Now().After(u.from) {
		return errors.New("it does not answer")
	}
	return u.Ranks.Reach(ctx)
}

// A wait without a bound lasts as long as the others answer; it ends where one has left, and a while after one has stopped to answer.
func TestUnboundedWaits(t *testing.T) {
	const timeout = 30 * time.Millisecond
	for name, c := range map[string]struct {
		answers time.Duration
		works   func() error
		wanted  string
	}{
		"they answer":    {time.Hour, func() error { time.Sleep(5 * timeout); return nil }, ""},
		"one is silent":  {2 * timeout, func() error { time.Sleep(time.Second); return nil }, "for losses of all ranks"},
		"one has failed": {time.Hour, func() error { time.Sleep(5 * timeout); return errors.New("the disk is full") }, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			var ended time.Duration
			errs := together(2, func(rank int, m *Mesh) error {
				m.config.Timeout = timeout
				defer m.Unbounded()()
				if rank == 1 {
					if err := c.works(); err != nil {
						m.Fail(err)
						return err
					}
				} else {
					m.ranks = unreached{m.ranks, begun.Add(c.answers)}
				}
				_, err := m.Gather(context.Background(), "losses", nil)
				if rank == 0 {
					ended = time.Since(begun)
				}
				return err
			})
			if c.wanted == "" {
				require.NoError(t, errors.Join(errs...))
				assert.Greater(t, ended, 4*timeout)
				return
			}
			require.ErrorContains(t, errs[0], c.wanted)
			if name == "one is silent" {
				var late *WaitError
				require.ErrorAs(t, errs[0], &late)
				assert.GreaterOrEqual(t, late.Waited, timeout)
				assert.Less(t, ended, 20*timeout)
			}
		})
	}
	_ = together(2, func(_ int, m *Mesh) error {
		m.config.Timeout = timeout
		m.Unbounded()()
		assert.Equal(t, timeout, m.Patience())
		waiting, done := m.within(t.Context(), "losses")
		defer done()
		_, bounded := waiting.Deadline()
		assert.True(t, bounded, "as before")
		return nil
	})
}

// Ranks that came to different places have a bug, which is said.
func TestRanksOutOfStep(t *testing.T) {
	for _, err := range together(2, func(rank int, m *Mesh) error {
		_, err := m.Gather(t.Context(), []string{"losses", "tokens"}[rank], nil)
		return err
	}) {
		assert.ErrorContains(t, err, "a bug of gputrain")
	}
}

// Bytes that are no message of this program are refused.
func TestParse(t *testing.T) {
	for _, raw := range []string{"", "{}", "x\n", "{\n"} {
		_, err := parse([]byte(raw))
		assert.Error(t, err, "%q", raw)
	}
	said := message{what: "a", payload: []byte("\n\n"), note: []byte("\n"), weight: Stop, text: "b\n", code: 3}
	found, err := parse(said.bytes())
	require.NoError(t, err)
	assert.Equal(t, said, found)
}
