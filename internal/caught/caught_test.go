package caught

import (
	"errors"
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

func hasABug() error { panic("seven") }
