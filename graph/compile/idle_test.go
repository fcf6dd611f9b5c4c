package compile

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nearestOf is what idleTimes finds, by a look at all tenants: the buffer whose nearest tenant is nearest, -1 where none is free.
func nearestOf(st *storage, buffers [][]*storage) int {
	best, least := -1, 0
	for b, tenants := range buffers {
		near, free := int(^uint(0)>>1), true
		for _, t := range tenants {
			switch {
			case t.last < st.first:
				near = min(near, st.first-t.last)
			case st.last < t.first:
				near = min(near, t.first-st.last)
			default:
				free = false
			}
		}
		if free && (best < 0 || near < least) {
			best, least = b, near
		}
	}
	return best
}

func TestStoragesGoWhereTheLeastTimeIsIdle(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	reused := 0
	for range 300 {
		commands := 1 + random.IntN(40)
		var storages []*storage
		for range 1 + random.IntN(120) {
			first := random.IntN(commands)
			storages = append(storages, &storage{bytes: 16, first: first, last: first + random.IntN(min(1+random.IntN(12), commands-first))})
		}
		sizes := assign(storages, true, new(int))
		buffers := make([][]*storage, 0, len(sizes))
		for _, st := range storages { // of one size: placed in this order
			want := nearestOf(st, buffers)
			if want < 0 {
				want, buffers = len(buffers), append(buffers, nil)
			} else {
				reused++
			}
			require.Equal(t, want, st.buffer)
			buffers[want] = append(buffers[want], st)
		}
		require.Len(t, sizes, len(buffers))
	}
	assert.Greater(t, reused, 1000)
}
