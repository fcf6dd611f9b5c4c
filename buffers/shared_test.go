package buffers

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/shaders"
)

// TestSharedFunctions calls the functions of shared/bf16.wgsl and shared/threefry.wgsl that no kernel of this package uses.
func TestSharedFunctions(t *testing.T) {
	source := ""
	for _, name := range []string{"shared/bf16.wgsl", "shared/threefry.wgsl"} {
		s, err := shaders.Source(name, shaders.Variant{})
		require.NoError(t, err)
		source += s
	}
	source += `
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<array<u32, 4>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < arrayLength(&x)) {
        let f = bitcast<f32>(x[i]);
        let w = bf16_unpack2(bf16_pack2(vec2<f32>(f, -f)));
        out[i][0] = bf16_round(f);
        out[i][1] = bitcast<u32>(w.x);
        out[i][2] = bitcast<u32>(w.y);
        out[i][3] = threefry_fold(vec2<u32>(3u, x[i]), i).y;
    }
}`
	k := gpu.KernelOf("gputrain.buffers.shared", source)
	var finite []uint32 // drivers may change NaN and flush denormals in float arithmetic, as in -f
	for _, f := range sampleFloats(132) {
		bits := math.Float32bits(f)
		if e := bits >> 23 & 0xff; e != 0 && e != 0xff {
			finite = append(finite, bits)
		}
	}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		x, err := dev.NewBuffer("x", uint64(4*len(finite)))
		require.NoError(t, err)
		defer x.Release()
		out, err := dev.NewBuffer("out", 4*x.Bytes())
		require.NoError(t, err)
		defer out.Release()
		var raw []byte
		for _, bits := range finite {
			raw = binary.LittleEndian.AppendUint32(raw, bits)
		}
		require.NoError(t, dev.Write(x.All(), raw))
		submit(t, dev, func(rec *gpu.Recording) error {
			rec.Dispatch(k, gpu.Linear(uint64(len(finite)), 64, dev.Limits()), nil, x.All(), out.All())
			return nil
		})
		raw = make([]byte, out.Bytes())
		require.NoError(t, dev.Read(context.Background(), raw, out.All()))
		for i, bits := range finite {
			f := math.Float32frombits(bits)
			half := uint32(array.EncodeBF16(f))
			want := [4]uint32{half, half << 16, half<<16 ^ 1<<31, prng.Key{3, bits}.FoldIn(uint32(i))[1]}
			var got [4]uint32
			for j := range got {
				got[j] = binary.LittleEndian.Uint32(raw[16*i+4*j:])
			}
			assert.Equal(t, want, got, "%08x", bits)
		}
	})
}
