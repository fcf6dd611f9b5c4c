package gpu_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

// dryLimits make every limit reachable with small buffers.
var dryLimits = gpu.Limits{
	BufferBytes: 1 << 20, BindingBytes: 4096, UniformBytes: 256, StorageBuffers: 3, Invocations: 128,
	WorkgroupSize: [3]int{128, 64, 1}, Workgroups: 8, StorageAlign: 256, UniformAlign: 256,
}

func dryBuffer(t *testing.T, d *gpu.Device, label string, bytes uint64) *gpu.Buffer {
	t.Helper()
	b, err := d.NewBuffer(label, bytes)
	require.NoError(t, err)
	return b
}

func TestRecordingText(t *testing.T) {
	d := gpu.Dry(dryLimits)
	a, b, out := dryBuffer(t, d, "a", 512), dryBuffer(t, d, "b", 512), dryBuffer(t, d, "out", 512)
	rb, err := d.NewReadback("loss", 16, 2)
	require.NoError(t, err)
	rec := d.Record("step 1")
	rec.Zero(out.All())
	rec.Group("forward")
	rec.Dispatch(addKernel, gpu.Linear(100, 64, d.Limits()), addParams(100, 2), a.All(), b.Range(256, 256), out.All())
	rec.Dispatch(addKernel, gpu.Linear(0, 64, d.Limits()), addParams(0, 2), a.All(), b.All(), out.All()) // skipped
	rec.Copy(a.Range(0, 256), out.Range(256, 256))
	rec.Copy(a.Range(0, 0), out.Range(0, 0)) // skipped
	rec.ReadBack(rb, out.Range(0, 8))
	require.NoError(t, rec.Err())
	want := strings.TrimLeft(`
recording "step 1"
0 zero out[0:512]
1 group forward
2 dispatch gputrain.test.add 2x1x1 params 64 40000000 0 0 a<a[0:512] b<b[256:512] out=out[0:512]
3 copy a[0:256] <- out[256:512]
4 readback loss <- out[0:8]
`, "\n")
	require.Equal(t, want, rec.String())
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	defer p.Release()
	require.Equal(t, want, p.String())
	require.Equal(t, 1, p.Dispatches())
	require.Equal(t, uint64(16), p.UniformBytes())
	require.ErrorIs(t, p.Submit(t.Context()), gpu.ErrNoAdapter)
	require.ErrorIs(t, d.Read(t.Context(), make([]byte, 4), a.Range(0, 4)), gpu.ErrNoAdapter)
	require.NoError(t, d.Write(a.Range(0, 4), make([]byte, 4)))
}

func TestParamsAreSharedAndAligned(t *testing.T) {
	d := gpu.Dry(dryLimits)
	a, b, out := dryBuffer(t, d, "a", 512), dryBuffer(t, d, "b", 512), dryBuffer(t, d, "out", 512)
	rec := d.Record("p")
	for i := range 10 {
		rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(i%3, 1), a.All(), b.All(), out.All())
	}
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2*256+16), p.UniformBytes(), "three distinct blocks at multiples of UniformAlign")
	require.Equal(t, 10, p.Dispatches())
}

func TestRecordingRefuses(t *testing.T) {
	one := gpu.Grid{X: 1, Y: 1, Z: 1}
	d, other := gpu.Dry(dryLimits), gpu.Dry(dryLimits)
	a, b, out := dryBuffer(t, d, "a", 8192), dryBuffer(t, d, "b", 8192), dryBuffer(t, d, "out", 8192)
	foreign, gone := dryBuffer(t, other, "foreign", 512), dryBuffer(t, d, "gone", 512)
	gone.Release()
	uniform, err := d.NewUniform("scalars", 16)
	require.NoError(t, err)
	rb, err := d.NewReadback("rb", 16, 1)
	require.NoError(t, err)
	foreignRing, err := other.NewReadback("rb", 16, 1)
	require.NoError(t, err)
	part := func(b *gpu.Buffer) gpu.Range { return b.Range(0, 512) }
	add := func(g gpu.Grid, params any, bind ...gpu.Range) func(*gpu.Recording) {
		return func(r *gpu.Recording) { r.Dispatch(addKernel, g, params, bind...) }
	}
	with := func(text, other string, params any, bind ...gpu.Range) func(*gpu.Recording) {
		k := gpu.KernelOf("changed", strings.Replace(addKernel.Source, text, other, 1))
		return func(r *gpu.Recording) { r.Dispatch(k, one, params, bind...) }
	}
	const inputB, uniformParams, size = "@group(0) @binding(2) var<storage, read> b", "var<uniform> params: Params", "@workgroup_size(64)"
	const written = "@group(0) @binding(2) var<storage, read_write> b"
	bound := []gpu.Range{part(a), part(b), part(out)}
	params := addParams(1, 1)
	cases := []struct {
		name string
		run  func(*gpu.Recording)
		want string
	}{
		{"no kernel", func(r *gpu.Recording) { r.Dispatch(nil, one, nil) }, "no kernel"},
		{"too few ranges", add(one, params, part(a)), "1 ranges bound, want 3 (a b out)"},
		{"no params", add(one, nil, bound...), "3 ranges bound, want 4 (params a b out)"},
		{"params too large", with("count: u32, scale: f32", strings.Repeat("m: vec4<u32>,", 17), [17][4]uint32{}, bound...), "params: 272 bytes, limit UniformBytes 256"},
		{"params without a uniform", with(uniformParams, "var<storage, read> params: Params", params, bound...), "binding 0 is not a uniform"},
		{"grid", add(gpu.Grid{X: 1, Y: 9, Z: 1}, params, bound...), "grid 1x9x1: dimension 1: 9 wanted, limit Workgroups 8"},
		{"nil range", add(one, params, part(a), gpu.Range{}, part(out)), `binding "b": no buffer`},
		{"empty range", add(one, params, part(a), b.Range(0, 0), part(out)), `binding "b": b[0:0]: is empty`},
		{"past the end", add(one, params, part(a), b.Range(8192-256, 512), part(out)), "ends past the buffer's 8192 bytes"},
		{"wrapping around", add(one, params, part(a), b.Range(256, ^uint64(0)-255), part(out)), "ends past the buffer's 8192 bytes"},
		{"multiple of 4", add(one, params, part(a), b.Range(0, 510), part(out)), "multiples of 4"},
		{"storage align", add(one, params, part(a), b.Range(128, 256), part(out)), "offset 128 is not a multiple of StorageAlign 256"},
		{"binding bytes", add(one, params, part(a), b.All(), part(out)), "b[0:8192]: 8192 bytes, limit BindingBytes 4096"},
		{"another device", add(one, params, foreign.All(), part(b), part(out)), "belongs to another device"},
		{"released", add(one, params, gone.All(), part(b), part(out)), "is released"},
		{"uniform as storage", add(one, params, uniform.All(), part(b), part(out)), "is a uniform buffer, want storage"},
		{"storage as uniform", add(one, nil, part(a), part(a), part(b), part(out)), "is a storage buffer, want one from NewUniform"},
		{"read and written", add(one, params, part(a), out.Range(4096, 256), part(out)), `buffer "out" is bound read as "b" and read_write as "out"`},
		{"written twice", with(inputB, written, params, part(a), out.Range(256, 512), part(out)), `"b" and "out" overlap`},
		{"storage buffers", with("@compute", "@group(0) @binding(4) var<storage, read> c: array<f32>;\n@compute", params, bound...), "storage bindings: 4 wanted, limit StorageBuffers 3"},
		{"invocations", with(size, "@workgroup_size(64, 4)", params, bound...), "workgroup: 256 wanted, limit Invocations 128"},
		{"workgroup dimension", with(size, "@workgroup_size( 1, 1, 2, )", params, bound...), "workgroup dimension 2: 2 wanted, limit WorkgroupSize 1"},
		{"workgroup of nothing", with(size, "@workgroup_size(64, 0)", params, bound...), "found no @workgroup_size in figures of at least 1"},
		{"no workgroup in figures", with(size, "@workgroup_size(side)", params, bound...), "found no @workgroup_size"},
		{"bindings out of order", with("@binding(2)", "@binding(4)", params, bound...), "binding 4 var<storage, read> b: want bindings in order from 0"},
		{"another address space", with("storage, read_write", "workgroup", params, bound...), "binding 3 var<workgroup> out: want"},
		{"copy sizes", func(r *gpu.Recording) { r.Copy(a.Range(0, 8), b.Range(0, 4)) }, "sizes differ"},
		{"copy in one buffer", func(r *gpu.Recording) { r.Copy(a.Range(0, 8), a.Range(8, 8)) }, "are one buffer"},
		{"copy align", func(r *gpu.Recording) { r.Copy(a.Range(2, 4), b.Range(0, 4)) }, "destination: a[2:6]: offset and size must be multiples of 4"},
		{"copy end", func(r *gpu.Recording) { r.Copy(a.Range(0, 4), b.Range(8192, 4)) }, "source: b[8192:8196]: ends past"},
		{"copy from uniform", func(r *gpu.Recording) { r.Copy(a.Range(0, 16), uniform.All()) }, "cannot be copied from"},
		{"zero end", func(r *gpu.Recording) { r.Zero(a.Range(8188, 8)) }, "ends past"},
		{"readback size", func(r *gpu.Recording) { r.ReadBack(rb, a.Range(0, 20)) }, "20 bytes do not fit its 16"},
		{"readback of another device", func(r *gpu.Recording) { r.ReadBack(foreignRing, a.Range(0, 4)) }, "belongs to another device"},
		{"readback nil", func(r *gpu.Recording) { r.ReadBack(nil, a.Range(0, 4)) }, "no readback"},
		{"readback of a uniform", func(r *gpu.Recording) { r.ReadBack(rb, uniform.All()) }, "cannot be read"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rec := d.Record("bad")
			rec.Zero(a.Range(0, 4))
			c.run(rec)
			rec.Copy(gpu.Range{}, a.All()) // a later error is not the one kept
			require.ErrorContains(t, rec.Err(), `gpu: record "bad": command 1: `)
			require.ErrorContains(t, rec.Err(), c.want)
			require.NotEmpty(t, rec.String())
			_, err := rec.Program(t.Context())
			require.Equal(t, rec.Err(), err)
		})
	}
	// What is allowed next to what is refused.
	rec := d.Record("good")
	with(inputB, written, params, part(a), out.Range(512, 512), part(out))(rec)
	add(one, params, part(a), a.Range(256, 256), part(out))(rec)
	add(one, nil, uniform.All(), part(a), part(b), part(out))(rec)
	add(gpu.Grid{X: 8, Y: 8, Z: 8}, params, bound...)(rec)
	require.NoError(t, rec.Err())
}

func TestLinear(t *testing.T) {
	lim := gpu.Limits{Workgroups: 10}
	cases := []struct {
		items uint64
		want  gpu.Grid
	}{
		{0, gpu.Grid{}},
		{1, gpu.Grid{X: 1, Y: 1, Z: 1}},
		{64, gpu.Grid{X: 1, Y: 1, Z: 1}},
		{65, gpu.Grid{X: 2, Y: 1, Z: 1}},
		{640, gpu.Grid{X: 10, Y: 1, Z: 1}},
		{641, gpu.Grid{X: 6, Y: 2, Z: 1}},
		{6400, gpu.Grid{X: 10, Y: 10, Z: 1}},
	}
	for _, c := range cases {
		g := gpu.Linear(c.items, 64, lim)
		require.Equal(t, c.want, g, "%d items", c.items)
		require.GreaterOrEqual(t, uint64(g.X)*uint64(g.Y)*64, c.items)
	}
}

func TestDryLimitsAndErrors(t *testing.T) {
	d := gpu.Dry(gpu.Limits{BufferBytes: 1024})
	require.Equal(t, gpu.DefaultLimits().BindingBytes, d.Limits().BindingBytes)
	_, err := d.NewBuffer("big", 1028)
	var limit *gpu.LimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, gpu.LimitError{Subject: `"big"`, Bytes: 1028, Limit: 1024, Name: "BufferBytes"}, *limit)
	require.EqualError(t, err, `gpu: new buffer: "big": 1028 bytes, limit BufferBytes 1024`)
	_, err = d.NewUniform("u", 1<<20)
	require.ErrorContains(t, err, "limit UniformBytes 65536")
	b, err := d.NewBuffer("odd", 5)
	require.NoError(t, err)
	require.Equal(t, uint64(8), b.Bytes())
	require.ErrorContains(t, d.Write(b.All(), make([]byte, 5)), "odd[0:8]: 5 bytes of data")
	require.ErrorContains(t, d.Write(b.Range(0, 12), make([]byte, 12)), "ends past")
	require.Equal(t, uint64(8), d.Counters().LiveBytes)
	b.Release()
	b.Release()
	require.Zero(t, d.Counters().LiveBytes)
	require.ErrorContains(t, d.Write(b.All(), make([]byte, 8)), "is released")
	_, err = gpu.Open(t.Context(), gpu.Adapter{}, gpu.Options{})
	require.ErrorIs(t, err, gpu.ErrNoAdapter)
}

// TestDryKernels: a dry device lists what its programs would compile, each once, as another one lists what it has compiled.
func TestDryKernels(t *testing.T) {
	d := gpu.Dry(gpu.Limits{})
	require.Empty(t, d.Kernels())
	in, err := d.NewBuffer("in", 512)
	require.NoError(t, err)
	out, err := d.NewBuffer("out", 256)
	require.NoError(t, err)
	twin := gpu.KernelOf(addKernel.Label, addKernel.Source)
	other := gpu.KernelOf("gputrain.test.other", addKernel.Source+"\n")
	rec := d.Record("sums")
	for _, k := range []*gpu.Kernel{other, addKernel, twin, addKernel} {
		rec.Dispatch(k, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(64, 1), in.Range(0, 256), in.Range(256, 256), out.All())
	}
	require.Empty(t, d.Kernels(), "a recording is not yet a program")
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	defer p.Release()
	require.Equal(t, []*gpu.Kernel{addKernel, other}, d.Kernels())
	require.Zero(t, d.Counters().Pipelines)
}
