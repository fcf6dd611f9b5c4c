package buffers

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/shaders"
)

// quadsPerGroup is how many quads of four elements a workgroup of map.wgsl and cast.wgsl goes through, with 256 invocations. On lavapipe these
// and 4 quads an invocation move 1.4 times as much as 64 and one, and no choice of up to 16 quads more than a few per cent above that.
const quadsPerGroup = 1024

// storage says how WGSL sees four elements of a dtype: in memory, as a value, and the way between.
var storage = map[DType]struct{ memory, value, load, store string }{
	F32:  {"vec4<f32>", "vec4<f32>", "%s", "%s"},
	BF16: {"vec2<u32>", "vec4<f32>", "bf16_unpack4(%s)", "bf16_pack4(%s)"},
	I32:  {"vec4<i32>", "vec4<i32>", "%s", "%s"},
	U32:  {"vec4<u32>", "vec4<u32>", "%s", "%s"},
}

// Map records dst = expression for every element, one dispatch a slab. The expression is WGSL over a, b, c, ...: four elements
// of each of srcs, in order, vec4<f32> for F32 and BF16 (which rounds to nearest even when stored), vec4<i32> and vec4<u32>
// for the integers; it has the type of dst. All trees have one layout; dst may be among srcs.
//
//	buffers.Map(rec, p, "a - vec4(0.1) * b", p, g)
//
// Errors: trees that do not match, more than 26 sources. A wrong expression is found when the recording becomes a program.
func Map(rec *gpu.Recording, dst *Tree, expression string, srcs ...*Tree) error {
	if len(srcs) > 26 {
		return fmt.Errorf("buffers: map: %d trees, want at most 26", len(srcs))
	}
	for _, src := range srcs {
		if err := dst.same("map", src); err != nil {
			return err
		}
	}
	return recordMap(rec, dst, expression, 0, srcs)
}

// Fill records dst = value in every element; integers must be whole and in range.
func Fill(rec *gpu.Recording, dst *Tree, value float64) error {
	word := math.Float32bits(float32(value))
	low, high := math.Inf(-1), math.Inf(1)
	switch dst.dtype {
	case I32:
		low, high, word = math.MinInt32, math.MaxInt32, uint32(int32(value))
	case U32:
		low, high, word = 0, math.MaxUint32, uint32(value)
	}
	if whole := dst.dtype == I32 || dst.dtype == U32; whole && !(value >= low && value <= high && value == math.Trunc(value)) {
		return fmt.Errorf("buffers: fill: tree %q: value %v, want a whole number that fits %v", dst.label, value, dst.dtype)
	}
	if word == 0 {
		for i := range dst.slabs {
			rec.Zero(dst.Slab(i))
		}
		return nil
	}
	value4 := storage[dst.dtype].value // bits of the value, four times
	return recordMap(rec, dst, "bitcast<"+value4+">(vec4<u32>(params.value))", word, nil)
}

func recordMap(rec *gpu.Recording, dst *Tree, expression string, value uint32, srcs []*Tree) error {
	extents, err := dst.extentTables()
	if err != nil {
		return err
	}
	var inputs []*Tree // each once; dst is read through its own binding
	for _, src := range srcs {
		if src != dst && !slices.Contains(inputs, src) {
			inputs = append(inputs, src)
		}
	}
	for i, n := range dst.layout.Slabs() {
		k := mapKernel(dst, expression, inputs, srcs, extents[i] != nil)
		quads := uint64(n / 4)
		params := struct{ Quads, Value uint32 }{uint32(quads), value}
		var bind []gpu.Range
		for _, in := range inputs {
			bind = append(bind, in.Slab(i))
		}
		if extents[i] != nil {
			bind = append(bind, extents[i].All())
		}
		rec.Dispatch(k, gpu.Linear(quads, quadsPerGroup, dst.device.Limits()), params, append(bind, dst.Slab(i))...)
	}
	return rec.Err()
}

// mapKernel writes the kernel for trees of these dtypes; the same text every time, so that the device has one pipeline for it.
func mapKernel(dst *Tree, expression string, inputs, srcs []*Tree, padded bool) *gpu.Kernel {
	var declarations, loads []string
	declare := func(name string, access gpu.Access, element string) {
		declarations = append(declarations, fmt.Sprintf("@bind var<storage, %v> %s: array<%s>;", access, name, element))
	}
	for i, in := range inputs {
		declare(fmt.Sprintf("src%d", i), gpu.Read, storage[in.dtype].memory)
	}
	if padded {
		declare("extents", gpu.Read, "u32")
	}
	declare("dst", gpu.ReadWrite, storage[dst.dtype].memory)
	for i, src := range srcs {
		name := "dst[i]"
		if src != dst {
			name = fmt.Sprintf("src%d[i]", slices.Index(inputs, src))
		}
		loads = append(loads, fmt.Sprintf("let %c = %s;", 'a'+i, fmt.Sprintf(storage[src.dtype].load, name)))
	}
	return gpu.NewKernel("gputrain.buffers.map", "map", shaders.Variant{
		Flags: map[string]bool{"PADDED": padded},
		Constants: map[string]string{
			"BINDINGS":   strings.Join(declarations, "\n"),
			"LOADS":      strings.Join(loads, "\n        "),
			"TYPE":       storage[dst.dtype].value,
			"EXPRESSION": expression,
			"STORE":      fmt.Sprintf(storage[dst.dtype].store, "value"),
		},
	})
}
