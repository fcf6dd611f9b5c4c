package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			for rank, err := range together(3, func(rank int, g *Group) error {
				g.config.Code = func(err error) int {
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
					if _, err := g.Gather(t.Context(), "agreement", []byte("1")); err != nil {
						_, again := g.Agree(t.Context(), err, Fatal, nil)
						assert.Equal(t, err, again)
						return err
					}
					return nil
				}
				all, err := g.Agree(t.Context(), own, c.weights[rank], fmt.Append(nil, rank))
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
	for rank, err := range together(2, func(rank int, g *Group) error {
		var own error
		if rank == 1 {
			own = errors.New("a signal")
		}
		_, err := g.Agree(t.Context(), own, Stop, nil)
		assert.Error(t, err)
		if rank == 0 {
			err = g.Conclude(t.Context(), errors.New("no space"), Fatal)
		} else {
			err = g.Conclude(t.Context(), err, Stop)
		}
		assert.Equal(t, rank == 0, g.Tells(err))
		return err
	}) {
		assert.ErrorContains(t, err, "no space", "rank %d", rank)
	}
}

// A wait that is too long names who did not come, and what for.
func TestWaitsEnd(t *testing.T) {
	over := make(chan struct{})
	errs := together(2, func(rank int, g *Group) error {
		if rank == 1 {
			<-over
			return nil
		}
		defer close(over)
		g.config.Timeout = 20 * time.Millisecond
		g.Expect(10 * time.Millisecond)
		_, err := g.Gather(context.Background(), "losses", nil)
		assert.True(t, g.Tells(err))
		_, again := g.Agree(context.Background(), nil, GoOn, nil)
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

// Ranks that came to different places have a bug, which is said.
func TestRanksOutOfStep(t *testing.T) {
	for _, err := range together(2, func(rank int, g *Group) error {
		_, err := g.Gather(t.Context(), []string{"losses", "tokens"}[rank], nil)
		return err
	}) {
		assert.ErrorContains(t, err, "a bug of gputrain")
	}
}

func TestJoin(t *testing.T) {
	facts := func() Facts {
		return Facts{Program: "v1", Data: "d", Settings: []Fact{{"a", "1"}, {"b", "2"}}, Adapters: []Adapter{{0, "x"}}}
	}
	for want, change := range map[string]func(f *Facts){
		"":                                  func(*Facts) {},
		"program: found v2, sha256 ":        func(f *Facts) { f.Program = "v2" },
		"b: found 3, wanted that of rank 0": func(f *Facts) { f.Settings[1].Value = "3" },
		"b: found none, wanted ":            func(f *Facts) { f.Settings = f.Settings[:1] },
		"c: found 1, wanted ":               func(f *Facts) { f.Settings = append(f.Settings, Fact{"c", "1"}) },
		"settings: found c, wanted ":        func(f *Facts) { f.Settings[1].Key = "c" },
		"data (fingerprint of the text): ":  func(f *Facts) { f.Data = "e" },
	} {
		for rank, err := range together(3, func(rank int, g *Group) error {
			f := facts()
			if rank == 1 {
				change(&f)
			}
			_, err := g.Join(t.Context(), f)
			if err != nil {
				assert.Equal(t, rank == 0, g.Tells(err))
			}
			return err
		}) {
			if want == "" {
				require.NoError(t, err)
				continue
			}
			var different *DifferentError
			require.ErrorAs(t, err, &different, "rank %d", rank)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "rank 1 on host ")
		}
	}
	together(3, func(rank int, g *Group) error {
		f := facts()
		if rank == 2 {
			f.Adapters = []Adapter{{1, "y"}, {2, "x"}}
		}
		j, err := g.Join(t.Context(), f)
		assert.NoError(t, err)
		assert.Equal(t, "x; y", j.Adapter())
		if assert.Len(t, j.Notes, 2) {
			assert.Contains(t, j.Notes[0], "ranks 0, 1 share adapter 0 on host ")
			assert.Contains(t, j.Notes[1], "adapters differ: x on rank 0, 1; x; y on rank 2")
		}
		return nil
	})
}

// Bytes that are no message of this program are refused.
func TestParse(t *testing.T) {
	for _, raw := range []string{"", "{}", "x\n", "{\n"} {
		_, err := parse([]byte(raw))
		assert.Error(t, err, "%q", raw)
	}
	m, err := parse(message{what: "a", payload: []byte("\n\n"), weight: Stop, text: "b\n", code: 3}.bytes())
	require.NoError(t, err)
	assert.Equal(t, message{what: "a", payload: []byte("\n\n"), weight: Stop, text: "b\n", code: 3}, m)
}
