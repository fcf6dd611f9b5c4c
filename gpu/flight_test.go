package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// However fast programs are submitted, no more than inFlight are under way, and their fences are used again.
func TestSubmitsInFlight(t *testing.T) {
	a := anyAdapter(t)
	d, err := Open(t.Context(), a, Options{})
	require.NoError(t, err)
	defer d.Release()
	b, err := d.NewBuffer("b", 8<<20)
	require.NoError(t, err)
	rec := d.Record("zero")
	rec.Zero(b.All())
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, p.Submit(t.Context()))
		require.LessOrEqual(t, len(d.queue.flight), inFlight)
	}
	require.NoError(t, d.Wait(t.Context()))
	require.Empty(t, d.queue.flight)
	require.LessOrEqual(t, len(d.queue.spare), inFlight)
	require.NoError(t, d.Record("empty").Submit(t.Context()))
	require.Len(t, d.queue.flight, 1)
}
