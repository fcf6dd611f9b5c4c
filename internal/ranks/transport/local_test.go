package transport_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/internal/ranks/transport"
	"gputrain/internal/ranks/transport/internal/transporttest"
)

func TestLocal(t *testing.T) {
	for _, c := range transporttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			for _, r := range transport.Local(transporttest.Ranks) {
				all.Go(func() { assert.NoError(t, c.Run(t.Context(), r), "rank %d", r.Rank()) })
			}
			all.Wait()
		})
	}
}

// The contract's checks can fail: ranks that lose, change, swap or forget.
func TestContractFindsWhatIsBroken(t *testing.T) {
	for name, breaks := range map[string]func(transport.Ranks) transport.Ranks{
		"order by tag":                 func(r transport.Ranks) transport.Ranks { return otherTag{r} },
		"messages larger than a piece": func(r transport.Ranks) transport.Ranks { return flipped{r} },
		"gather of unequal lengths":    func(r transport.Ranks) transport.Ranks { return swapped{r} },
		"gather waits for all":         func(r transport.Ranks) transport.Ranks { return open{r} },
		"receive: context ends":        func(r transport.Ranks) transport.Ranks { return blames0{r} },
		"receive: a rank has failed":   func(r transport.Ranks) transport.Ranks { return blames0{r} },
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			var mu sync.Mutex
			var found []error
			for _, c := range transporttest.Cases() {
				if c.Name != name {
					continue
				}
				for _, r := range transport.Local(transporttest.Ranks) {
					all.Go(func() {
						if err := c.Run(t.Context(), breaks(r)); err != nil {
							mu.Lock()
							defer mu.Unlock()
							found = append(found, err)
							r.Fail(err)
						}
					})
				}
			}
			all.Wait()
			assert.NotEmpty(t, found)
		})
	}
}

type otherTag struct{ transport.Ranks }

func (o otherTag) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	return o.Ranks.Receive(ctx, from, 3+transport.MaxTag-tag, b)
}

type flipped struct{ transport.Ranks }

func (f flipped) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	err := f.Ranks.Receive(ctx, from, tag, b)
	b[len(b)-1] ^= 1
	return err
}

type swapped struct{ transport.Ranks }

func (s swapped) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	all, err := s.Ranks.Gather(ctx, own)
	slices.Reverse(all)
	return all, err
}

type open struct{ transport.Ranks }

func (open) Gather(_ context.Context, own []byte) ([][]byte, error) {
	return slices.Repeat([][]byte{own}, transporttest.Ranks), nil
}

type blames0 struct{ transport.Ranks }

func (l blames0) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	err := l.Ranks.Receive(ctx, from, tag, b)
	if e, ok := errors.AsType[*transport.Error](err); ok {
		other := *e
		other.Rank = 0
		return &other
	}
	return err
}
