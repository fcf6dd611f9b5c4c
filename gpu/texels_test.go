package gpu_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// mixKernel reads vec4s, single floats and words: out[i] = a[i] * b[i] + f32(n[i] & 15).
var mixKernel = gpu.KernelOf("gputrain.test.mix", `
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read> n: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (4u * i < arrayLength(&out) * 4u) {
        out[i] = a[i] * vec4<f32>(b[4u * i], b[4u * i + 1u], b[4u * i + 2u], b[4u * i + 3u]) + vec4<f32>(n[i] & vec4<u32>(15u)) + a[0].x;
    }
}
`)

// The same bits from buffers and from texels: sizes below, at and above a row of a texture, ranges inside buffers, values written by a
// kernel, a copy and a zero between readers.
func TestTexelsHaveTheBitsOfBuffers(t *testing.T) {
	for _, a := range gputest.Adapters(t) {
		if a.Limits.TexelBindings == 0 {
			continue
		}
		t.Run(a.Backend+" "+a.Name, func(t *testing.T) {
			for _, count := range []int{4, 100, 4 * 4096, 4*4096 + 4, 4*4096*2 + 20} {
				var results [][]float32
				for _, use := range []gpu.TexelUse{gpu.TexelsOff, gpu.TexelsForce} {
					d, err := gpu.Open(t.Context(), a, gpu.Options{Texels: use})
					require.NoError(t, err)
					results = append(results, mixed(t, d, count))
					d.Release()
				}
				require.Equal(t, results[0], results[1], "%d elements", count)
			}
		})
	}
}

// mixed runs a program of dispatches that read what others, a copy and a zero have written.
func mixed(t *testing.T, d *gpu.Device, count int) []float32 {
	t.Helper()
	n := uint64(4 * count)
	values := ramp(count + 64)
	a, b, words := storage(t, d, "a", values...), storage(t, d, "b", values...), storage(t, d, "n", values...)
	x, y := storage(t, d, "x", make([]float32, count)...), storage(t, d, "y", make([]float32, count)...)
	grid := gpu.Linear(uint64(count/4), 64, d.Limits())
	rec := d.Record("mixed")
	rec.Dispatch(mixKernel, grid, nil, a.Range(256, n), b.Range(0, n), words.Range(256, n), x.All())
	rec.Dispatch(mixKernel, grid, nil, x.All(), b.Range(0, n), words.Range(0, n), y.All())
	rec.Copy(b.Range(0, n), y.All())
	rec.Dispatch(mixKernel, grid, nil, x.All(), b.Range(0, n), words.Range(0, n), y.All())
	rec.Zero(x.Range(0, 16))
	rec.Dispatch(mixKernel, grid, nil, x.All(), y.All(), words.Range(0, n), b.Range(0, n))
	require.NoError(t, rec.Err())
	require.NoError(t, rec.Submit(t.Context()))
	return append(read(t, d, y.All()), read(t, d, b.Range(0, n))...)
}

// dryTexels is a device without hardware that reads all it can as texels.
func dryTexels() *gpu.Device {
	return gpu.Dry(gpu.Limits{TexelBindings: 8, Texels: gpu.TexelsForce, StorageAlign: 16})
}

// A range is refreshed once for the readers that follow each other, again after each write of it, and again where its
// texels were not kept.
func TestTexelsAreRefreshedAfterWrites(t *testing.T) {
	d := dryTexels()
	a, b, out, other := buffer(t, d, "a", 1024), buffer(t, d, "b", 1024), buffer(t, d, "out", 1024), buffer(t, d, "other", 1024)
	sum := func(rec *gpu.Recording, out, a, b gpu.Range) {
		rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(64, 1), a, b, out)
	}
	for _, c := range []struct {
		name      string
		record    func(rec *gpu.Recording)
		refreshes map[string]int // by range
	}{
		{"two readers", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.All(), b.All())
			sum(rec, other.All(), a.All(), b.All())
		}, map[string]int{"a[0:1024]": 1, "b[0:1024]": 1}},
		{"a writer between", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.All(), b.All())
			sum(rec, a.All(), b.All(), b.All())
			sum(rec, out.All(), a.All(), b.All())
		}, map[string]int{"a[0:1024]": 2, "b[0:1024]": 1}},
		{"a copy into half of it", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.All(), b.All())
			rec.Copy(a.Range(512, 512), b.Range(0, 512))
			sum(rec, out.All(), a.All(), b.All())
		}, map[string]int{"a[0:1024]": 2, "b[0:1024]": 1}},
		{"a write beside it", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.Range(0, 512), b.All())
			rec.Zero(a.Range(512, 512))
			sum(rec, out.All(), a.Range(0, 512), b.All())
		}, map[string]int{"a[0:512]": 1, "b[0:1024]": 1}},
		{"its own result", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.All(), b.All())
			sum(rec, other.All(), out.All(), b.All())
			sum(rec, out.All(), other.All(), b.All())
			sum(rec, other.All(), out.All(), b.All())
		}, map[string]int{"a[0:1024]": 1, "b[0:1024]": 1, "out[0:1024]": 2, "other[0:1024]": 1}},
		{"long after", func(rec *gpu.Recording) {
			sum(rec, out.All(), a.All(), b.All())
			for range 20 {
				sum(rec, out.All(), b.All(), b.All())
			}
			sum(rec, out.All(), a.All(), b.All())
		}, map[string]int{"a[0:1024]": 2, "b[0:1024]": 1}},
	} {
		rec := d.Record("refresh")
		c.record(rec)
		p, err := rec.Program(t.Context())
		require.NoError(t, err, c.name)
		found := map[string]int{}
		for line := range strings.Lines(p.String()) {
			if _, from, ok := strings.Cut(strings.TrimSpace(line), "<- "); ok && strings.Contains(line, " refresh ") {
				found[from]++
			}
		}
		require.Equal(t, c.refreshes, found, "%s\n%s", c.name, p)
		require.NotContains(t, rec.String(), " refresh ", "the recording is as it was recorded")
		p.Release()
	}
}

// Programs share textures, which are in the account and go with the last program.
func TestTexelsAreSharedAndAccounted(t *testing.T) {
	d := dryTexels()
	a, b, out := buffer(t, d, "a", 4096), buffer(t, d, "b", 100<<10), buffer(t, d, "out", 100<<10)
	buffers := d.Counters().LiveBytes
	program := func(x, y *gpu.Buffer) *gpu.Program {
		rec := d.Record("p")
		rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(64, 1), x.All(), y.All(), out.All())
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		return p
	}
	const row = 64 << 10
	first := program(a, b)
	require.Equal(t, uint64(3*row+3*4096), d.TexelBytes(), "rows of two, and those of a small one")
	second := program(b, a)
	require.Equal(t, uint64(3*row+3*4096), d.TexelBytes(), "the same")
	third := program(b, b)
	require.Equal(t, uint64(3*row+3*4096), d.TexelBytes(), "one of them")
	require.Equal(t, buffers+d.TexelBytes()+first.UniformBytes()+second.UniformBytes()+third.UniformBytes(), d.Counters().LiveBytes)
	first.Release()
	second.Release()
	require.Equal(t, uint64(3*row), d.TexelBytes(), "what the third reads")
	third.Release()
	require.Zero(t, d.TexelBytes())
	require.Equal(t, buffers, d.Counters().LiveBytes)
}

// moveKernel writes out[i + p] = in[i] for whole vec4s.
var moveKernel = gpu.KernelOf("gputrain.test.move", `
@group(0) @binding(0) var<uniform> p: vec4<u32>; // first, count
@group(0) @binding(1) var<storage, read> in: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < p.y) {
        out[id.x + p.x] = in[id.x];
    }
}
`)

// What kernels write to texels that are their own is what other programs read there, beside what was written before and zeros.
func TestNewTexels(t *testing.T) {
	for _, a := range gputest.Adapters(t) {
		t.Run(a.Backend+" "+a.Name, func(t *testing.T) {
			d, err := gpu.Open(t.Context(), a, gpu.Options{})
			require.NoError(t, err)
			defer d.Release()
			for _, quads := range []int{1, 64, 4096, 2*4096 + 5} {
				values, bytes := ramp(4*quads), uint64(16*quads)
				in, out := storage(t, d, "in", values...), storage(t, d, "out", make([]float32, 4*quads)...)
				kept, err := d.NewTexels("kept", bytes)
				require.NoError(t, err)
				run := func(first, count int, from, to gpu.Range) {
					rec := d.Record("move")
					rec.Dispatch(moveKernel, gpu.Linear(uint64(count), 64, d.Limits()), [4]uint32{uint32(first), uint32(count)}, from, to)
					require.NoError(t, rec.Submit(t.Context()))
				}
				half := quads / 2
				run(half, quads-half, in.All(), kept.Range(0, bytes))
				run(0, quads, kept.Range(0, bytes), out.All())
				want := append(make([]float32, 4*half), values[:4*(quads-half)]...)
				require.Equal(t, want, read(t, d, out.All()), "%d quads", quads)
				run(0, half, in.All(), kept.Range(0, bytes))
				run(0, quads, kept.Range(0, bytes), out.All())
				copy(want, values[:4*half])
				require.Equal(t, want, read(t, d, out.All()), "%d quads", quads)
				kept.Release()
			}
		})
	}
}

// Nothing but kernels that read them, or write whole vec4s, has to do with texels of their own. They are in the account.
func TestNewTexelsRefused(t *testing.T) {
	d := dryTexels()
	a, live := buffer(t, d, "a", 1024), d.Counters().LiveBytes
	kept, err := d.NewTexels("kept", 1024)
	require.NoError(t, err)
	require.Equal(t, live+kept.Bytes(), d.Counters().LiveBytes)
	part, one := kept.Range(0, 1024), gpu.Grid{X: 1, Y: 1, Z: 1}
	back, err := d.NewReadback("back", 1024, 1)
	require.NoError(t, err)
	for want, record := range map[string]func(rec *gpu.Recording){
		"source: kept[0:1024]: is of texels":         func(rec *gpu.Recording) { rec.Copy(a.All(), part) },
		"destination: kept[0:1024]: is of texels":    func(rec *gpu.Recording) { rec.Copy(part, a.All()) },
		"zero: kept[0:1024]: is of texels":           func(rec *gpu.Recording) { rec.Zero(part) },
		"readback: kept[0:1024]: is of texels":       func(rec *gpu.Recording) { rec.ReadBack(back, part) },
		`binding "out": bound to texels`:             func(rec *gpu.Recording) { rec.Dispatch(addKernel, one, addParams(64, 1), a.All(), a.All(), part) },
		`kept[256:1024]: is of texels, want it from`: func(rec *gpu.Recording) { rec.Dispatch(moveKernel, one, [4]uint32{}, kept.Range(256, 768), a.All()) },
	} {
		rec := d.Record("refused")
		record(rec)
		require.ErrorContains(t, rec.Err(), want)
	}
	require.ErrorContains(t, d.Write(part, make([]byte, 1024)), "is of texels")
	_, err = gpu.Dry(gpu.Limits{TexelBindings: 8, Texels: gpu.TexelsForce, BindingBytes: 512}).NewTexels("kept", 1024)
	require.ErrorContains(t, err, `"kept"`)
	kept.Release()
	back.Release()
	require.Equal(t, live, d.Counters().LiveBytes)
}

// Which kernels read texels depends on the use and on the sizes alone, and Recording.Kernels tells which a program runs.
func TestTexelUsePays(t *testing.T) {
	reuse := *addKernel
	reuse.Reuse = true
	for _, c := range []struct {
		use    gpu.TexelUse
		kernel *gpu.Kernel
		bytes  uint64
		grid   uint32
		want   bool
	}{
		{gpu.TexelsOff, &reuse, 1 << 20, 1000, false},
		{gpu.TexelsReuse, addKernel, 1 << 20, 1000, false},
		{gpu.TexelsReuse, &reuse, 1 << 20, 1, true},
		{gpu.TexelsReuse, &reuse, 4 << 10, 1, false},
		{gpu.TexelsAll, &reuse, 4 << 10, 1, true},
		{gpu.TexelsAll, addKernel, 1 << 20, 1000, true},
		{gpu.TexelsAll, addKernel, 1 << 20, 15, false},
		{gpu.TexelsForce, addKernel, 256, 1, true},
	} {
		d := gpu.Dry(gpu.Limits{TexelBindings: 8, Texels: c.use, StorageAlign: 16})
		a, out := buffer(t, d, "a", c.bytes), buffer(t, d, "out", c.bytes)
		rec := d.Record("p")
		rec.Dispatch(c.kernel, gpu.Grid{X: c.grid, Y: 1, Z: 1}, addParams(64, 1), a.All(), a.All(), out.All())
		require.NoError(t, rec.Err())
		reads := rec.Kernels()[0].Bindings[1].Access == gpu.Texels
		require.Equal(t, c.want, reads, fmt.Sprintf("%s %v %d bytes, %d groups", c.use, c.kernel.Reuse, c.bytes, c.grid))
	}
}

// No adapter but a software one has texels, and asking for them elsewhere is an error.
func TestTexelsAreForSoftwareAdapters(t *testing.T) {
	for _, a := range gputest.Adapters(t) {
		if !a.Limits.Software {
			require.Zero(t, a.Limits.TexelBindings, "%s", a)
			_, err := gpu.Open(t.Context(), a, gpu.Options{Texels: gpu.TexelsAll})
			require.ErrorContains(t, err, "found no texels on this adapter")
		}
	}
	_, err := gpu.ParseTexelUse("most")
	require.EqualError(t, err, `gpu: texels: found "most", wanted one of auto, off, reuse, all, force`)
}

// The measurement is remembered, and made again where its file is damaged.
func TestTexelProbeIsRemembered(t *testing.T) {
	a := gputest.Adapters(t)[0]
	if a.Limits.TexelBindings == 0 {
		t.Skipf("skipped, %s has no texels", a)
	}
	for _, c := range []struct {
		file string
		want []gpu.TexelUse
	}{
		{`{"ratio": 9}`, []gpu.TexelUse{gpu.TexelsAll}},
		{`{"ratio": 1.7}`, []gpu.TexelUse{gpu.TexelsReuse}},
		{`{"ratio": 0.8}`, []gpu.TexelUse{gpu.TexelsOff}},
		{`{"ratio": 9`, []gpu.TexelUse{gpu.TexelsOff, gpu.TexelsReuse, gpu.TexelsAll}}, // measured
	} {
		t.Setenv("GPUTRAIN_CACHE", t.TempDir())
		path := a.CacheFile("texels")
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		d, err := gpu.Open(t.Context(), a, gpu.Options{})
		require.NoError(t, err)
		require.Contains(t, c.want, d.Limits().Texels, c.file)
		d.Release()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, len(c.want) > 1, strings.Contains(string(text), "driver"), "%s is written where it was damaged", text)
	}
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	d, err := gpu.Open(t.Context(), a, gpu.Options{Limits: &gpu.Limits{Workgroups: 2, BindingBytes: 1024}, MemoryLimit: 1})
	require.NoError(t, err)
	defer d.Release()
	require.Zero(t, d.Counters(), "measuring takes nothing of the device that is asked for")
}

func buffer(t *testing.T, d *gpu.Device, label string, bytes uint64) *gpu.Buffer {
	t.Helper()
	b, err := d.NewBuffer(label, bytes)
	require.NoError(t, err)
	t.Cleanup(b.Release)
	return b
}
