package gpu_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"gputrain/gpu"
)

// One kernel run once.
func Example() {
	ctx := context.Background()
	adapter, err := gpu.Select("") // $GPUTRAIN_ADAPTER, else the best
	if err != nil {
		log.Fatal(err)
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Release()

	double := gpu.KernelOf("example.double", `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&x)) { x[id.x] *= 2.0; }
}`)
	x, err := dev.NewBuffer("x", 4)
	if err != nil {
		log.Fatal(err)
	}
	bytes := binary.LittleEndian.AppendUint32(nil, math.Float32bits(21))
	if err := dev.Write(x.All(), bytes); err != nil {
		log.Fatal(err)
	}
	rec := dev.Record("example")
	rec.Dispatch(double, gpu.Linear(1, 64, dev.Limits()), nil, x.All())
	if err := rec.Submit(ctx); err != nil {
		log.Fatal(err)
	}
	if err := dev.Read(ctx, bytes, x.All()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(bytes)))
}
