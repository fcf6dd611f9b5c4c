package buffers

import (
	"bytes"
	"context"
	"encoding/binary"

	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/shaders"
)

// Draw is what kernels draw at one index of a key: a word, from [0, 1), and from the standard normal distribution in f32 and in bf16.
type Draw struct {
	Bits                  uint32
	Uniform, Normal, BF16 float32
}

// Draws draws on a device at indices from first, as the methods of prng.Key do on the host.
func Draws(ctx context.Context, dev *gpu.Device, key prng.Key, first uint64, count int) ([]Draw, error) {
	draws := make([]Draw, count)
	if count == 0 {
		return draws, nil
	}
	out, err := dev.NewBuffer("gputrain.buffers.draw", uint64(binary.Size(draws)))
	if err != nil {
		return nil, err
	}
	defer out.Release()
	rec := dev.Record("gputrain.buffers.draw")
	rec.Dispatch(gpu.NewKernel("gputrain.buffers.draw", "draw", shaders.Variant{}), gpu.Linear(uint64(count), 64, dev.Limits()), struct {
		Key   prng.Key
		First [2]uint32
		Count uint32
	}{key, [2]uint32{uint32(first >> 32), uint32(first)}, uint32(count)}, out.All())
	if err := rec.Submit(ctx); err != nil {
		return nil, err
	}
	raw := make([]byte, out.Bytes())
	if err := dev.Read(ctx, raw, out.All()); err != nil {
		return nil, err
	}
	return draws, binary.Read(bytes.NewReader(raw), binary.LittleEndian, draws)
}
