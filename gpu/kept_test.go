package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The next user of a kept device finds its pipelines and nothing else: it counts, checks and owns as on a new one.
func TestKeptDevices(t *testing.T) {
	a := anyAdapter(t)
	const source = `
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_id) id: vec3<u32>) { out[id.x] = 7u; }`
	options := Options{Keep: true, Texels: TexelsOff}
	use := func(o Options, source string) (*Device, error) {
		d, err := Open(t.Context(), a, o)
		require.NoError(t, err)
		if !o.Profile { // which takes buffers
			require.Zero(t, d.Counters())
		}
		return d, d.Compile(t.Context(), []*Kernel{KernelOf("test", source)}, nil)
	}

	first, err := use(options, source)
	require.NoError(t, err)
	pipeline := first.pipelines.slots[source].native
	_, err = first.NewBuffer("left behind", 64)
	require.NoError(t, err)
	first.Release()

	limited := options
	limited.Limits = &Limits{Invocations: 32}
	second, err := use(limited, source)
	require.ErrorContains(t, err, "Invocations 32", "what the one before compiled is checked against the limits of this one")
	require.Same(t, first.native, second.native)
	second.Release()
	first.Lose("pulled out") // its device is no longer its own

	third, err := use(options, source)
	require.NoError(t, err)
	require.Same(t, first.native, third.native)
	require.Equal(t, pipeline, third.pipelines.slots[source].native)
	require.Equal(t, uint64(1), third.Counters().Pipelines)

	beside, err := use(options, source)
	require.NoError(t, err)
	require.NotSame(t, third.native, beside.native, "a device has one user at a time")
	beside.Lose("pulled out")
	beside.Release()
	third.Release()

	profiled := options
	profiled.Profile = true
	fresh, err := use(Options{Texels: TexelsOff}, source)
	require.NoError(t, err)
	require.NotSame(t, third.native, fresh.native, "without Keep")
	fresh.Release()
	fourth, err := use(options, source)
	require.NoError(t, err)
	require.Same(t, third.native, fourth.native, "and not the one that was lost")
	if a.Timestamps {
		other, err := use(profiled, source)
		require.NoError(t, err)
		require.NotSame(t, third.native, other.native)
		other.Release()
	}
	fourth.Release()
}
