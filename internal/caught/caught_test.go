package caught

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDo(t *testing.T) {
	require.NoError(t, Do(func() error { return nil }))
	want := errors.New("x")
	assert.Equal(t, want, Do(func() error { return want }))
	var p *Panic
	require.ErrorAs(t, Do(hasABug), &p)
	assert.Equal(t, "a bug of gputrain: seven", p.Error())
	assert.Contains(t, string(p.Stack), "hasABug", "the stack is that of where it was")
}

func TestEach(t *testing.T) {
	var beside, most atomic.Int32
	done := make([]bool, 9)
	err := Each(9, 3, func(i int) error {
		most.Store(max(most.Load(), beside.Add(1)))
		defer beside.Add(-1)
		done[i] = true
		switch {
		case i == 7:
			return hasABug()
		case i > 4:
			return fmt.Errorf("error %d", i)
		}
		return nil
	})
	require.EqualError(t, err, "error 5")
	assert.NotContains(t, done, false, "all are done whatever one comes to")
	assert.LessOrEqual(t, most.Load(), int32(3))
	var p *Panic
	require.ErrorAs(t, Each(1, 1, func(int) error { return hasABug() }), &p)
	assert.NoError(t, Each(0, 1, nil))
}

func hasABug() error { panic("seven") }
