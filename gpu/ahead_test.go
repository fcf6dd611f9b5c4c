package gpu

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aheadSource does nothing much without its params.
const aheadSource = `
struct Params { count: u32, scale: f32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = vec4<f32>(%d.0);
    if (p.count == 0u) {
        sum.x = 2.0;
    } else {
        for (var i = 0u; i < p.count; i++) {
            sum += p.scale * sqrt(a[i]) * b[id.x + i] + exp(a[i + 1u]) * sin(b[i]);
        }
    }
    c[id.x] = sum;
}`

// Compile leaves nothing for the driver to compile when kernels run, on operands of any size: what Mesa keeps on disk tells.
func TestKernelsRunAhead(t *testing.T) {
	if dir := os.Getenv("MESA_SHADER_CACHE_DIR"); filepath.Base(dir) == "ahead" {
		testRunAhead(t, dir)
		return
	}
	a := anyAdapter(t)
	if !a.Limits.Software || a.Backend != "vulkan" || !strings.Contains(a.Name, "llvmpipe") {
		t.Skipf("skipped, needs llvmpipe: %s", a)
	}
	dir := filepath.Join(t.TempDir(), "ahead") // the driver reads it when the process first opens it
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKernelsRunAhead$", "-test.v")
	cmd.Env = append(os.Environ(), "MESA_SHADER_CACHE_DIR="+dir, "MESA_SHADER_CACHE_DISABLE=false")
	require.NoError(t, os.Mkdir(dir, 0o755))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func testRunAhead(t *testing.T, dir string) {
	aheadPatience = 0 // other devices help
	d, err := Open(t.Context(), anyAdapter(t), Options{Texels: TexelsForce})
	require.NoError(t, err)
	defer d.Release()
	rec := d.Record("ahead")
	buffers := map[uint64]*Buffer{}
	for _, size := range []uint64{4 << 10, 64 << 10, 256 << 10} {
		buffers[size], err = d.NewBuffer("b", size)
		require.NoError(t, err)
	}
	const kernels = 6
	for i := range kernels {
		k := KernelOf("gputrain.gpu.ahead", fmt.Sprintf(aheadSource, i))
		params := struct {
			Count uint32
			Scale float32
		}{uint32(1 + i), 1}
		rec.Dispatch(k, Grid{1, 1, 1}, params, buffers[4<<10].All(), buffers[64<<10].All(), buffers[256<<10].All())
		rec.Dispatch(k, Grid{1, 1, 1}, params, buffers[64<<10].All(), buffers[256<<10].All(), buffers[4<<10].All())
	}
	before := d.Counters()
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	defer p.Release()
	require.Equal(t, uint64(kernels), d.Counters().Pipelines-before.Pipelines)
	require.Equal(t, before.Dispatches, d.Counters().Dispatches)
	require.Eventually(t, func() bool { return keptCode(t, dir) == kernels }, 10*time.Second, 10*time.Millisecond, "each kernel is compiled once")
	require.NoError(t, p.Submit(t.Context()))
	require.NoError(t, d.Wait(t.Context()))
	require.Never(t, func() bool { return keptCode(t, dir) != kernels }, 300*time.Millisecond, 50*time.Millisecond, "they run as they are")
}

// keptCode counts the pieces of code that the driver keeps in a folder.
func keptCode(t *testing.T, dir string) (n int) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && len(e.Name()) == 38 {
			n++
		}
		return nil
	}))
	return n
}
