package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

func TestDispatch(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		t.Log(d.Adapter(), d.Adapter().Driver, d.Adapter().Vendor, d.Adapter().Timestamps, d.Limits())
		const n = 1000
		a, err := d.NewBuffer("a", 4*n)
		require.NoError(t, err)
		b, err := d.NewBuffer("b", 4*n)
		require.NoError(t, err)
		out, err := d.NewBuffer("out", 4*n)
		require.NoError(t, err)
		require.NoError(t, d.Write(a.All(), raw(ramp(n)...)))
		require.NoError(t, d.Write(b.All(), raw(ramp(n)...)))
		rec := d.Record("add")
		rec.Dispatch(addKernel, gpu.Linear(n, 64, d.Limits()), addParams(n, 2), a.All(), b.All(), out.All())
		require.NoError(t, rec.Submit(t.Context()))
		got := make([]byte, 4*n)
		require.NoError(t, d.Read(t.Context(), got, out.All()))
		for i, v := range floats(got) {
			require.Equal(t, float32(3*i), v, "element %d", i)
		}
	})
}
