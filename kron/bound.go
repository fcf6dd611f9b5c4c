package kron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// boundUse is the use of the bounds of a stack of matrices.
type boundUse int

const (
	boundAlone  boundUse = iota // out: a bound a matrix
	boundFactor                 // of Grams: keep, L, and the coefficients of the update of the sides
	boundTurn                   // of R in Procrustes: turns, and the coefficients of R Rᵀ
)

// bounding bounds the spectral norm of the matrices of a stack, one dispatch. Ranges are by matrix.
type bounding struct {
	t    Stack // square, F32; symmetric, or skew where its transpose is its negative
	skew bool
	use  boundUse
	step float64 // of FACTOR: z = step rate/L

	update, sides gpu.Range // where the keys come from: the keys of the sides of the dense stack,
	keys          gpu.Range // or two words a matrix

	keep, lipschitz gpu.Range // of FACTOR; u32 and f32
	turns           gpu.Range // of TURN; vec4
	coefficients    gpu.Range // of FACTOR and TURN; vec2
	bounds          gpu.Range // of neither; f32

	spare gpu.Range // scratch of at least 32 bytes a row of t, for matrices too large for the memory of a workgroup
}

// boundProducts is how many products with its matrix a bound takes.
const boundProducts = 7

// boundParams is Params of kron_bound.wgsl.
type boundParams struct {
	Count, Size, BlockSize uint32
	Step                   float32
	Products               uint32
}

func (b bounding) record(rec *gpu.Recording, dev *gpu.Device, c Config) {
	n := b.t.Rows
	// On a software adapter a workgroup is one vector of eight invocations, for which a barrier is nearly free, and four quads of columns
	// each save loads of x; a GPU wants many invocations.
	lanes, quads := 8, min(4, max(1, 1<<bits.Len(uint((n/4+7)/8-1))))
	if !dev.Limits().Software {
		lanes, quads = min(256, max(32, 1<<bits.Len(uint(n/4-1)))), 1
	}
	room := 32
	for room < n {
		room *= 2
	}
	lim := dev.Limits()
	lanes = min(lanes, lim.Invocations)
	stored := 16*(2*room+2*lanes) > lim.WorkgroupBytes
	if stored {
		room = n
	}

	flags := map[string]bool{
		"SKEW": b.skew, "FACTOR": b.use == boundFactor, "TURN": b.use == boundTurn, "GIVEN": b.keys.Bytes > 0,
		"ALIGNED": c.Rules.AlignedBound, "SPLIT": c.Method == Skew, "STORED": stored,
	}
	constants := map[string]string{
		"LANES": strconv.Itoa(lanes), "BOTH_LANES": strconv.Itoa(2 * lanes), "QUADS": strconv.Itoa(quads),
		"ROOM": strconv.Itoa(room), "BOTH_ROOMS": strconv.Itoa(2 * room), "NORMAL": c.normalFunction(),
		"SPLIT_BY": map[bool]string{false: "0", true: "1"}[b.use == boundTurn],
	}
	var more []string
	bind := []gpu.Range{b.t.bound()}
	declare := func(r gpu.Range, space, name, element string) {
		if r.Bytes == 0 {
			return
		}
		more = append(more, fmt.Sprintf("@bind var<%s> %s: %s;", space, name, element))
		bind = append(bind, r)
	}
	const read, write = "storage, read", "storage, read_write"
	declare(b.update, "uniform", "update", "Update")
	declare(b.sides, read, "sides", "array<vec4<u32>>")
	declare(b.keys, read, "keys", "array<vec2<u32>>")
	declare(b.keep, read, "keep", "array<u32>")
	declare(b.lipschitz, write, "lipschitz", "array<f32>")
	declare(b.turns, write, "turns", "array<vec4<f32>>")
	declare(b.coefficients, write, "coefficients", "array<vec2<f32>>")
	declare(b.bounds, write, "bounds", "array<f32>")
	if stored {
		declare(b.spare, write, "x", "array<vec4<f32>>")
	}
	constants["MORE"] = strings.Join(more, "\n")
	suffix := map[boundUse]string{boundAlone: "", boundFactor: "_factor", boundTurn: "_turn"}[b.use]
	k := kernelOf("bound", suffix, shaders.Variant{Flags: flags, Constants: constants})
	rec.Dispatch(k, gpu.Linear(uint64(b.t.Count), 1, lim), boundParams{
		Count: uint32(b.t.Count), Size: uint32(n / 4), BlockSize: uint32(c.BlockSize), Step: float32(b.step),
		Products: boundProducts,
	}, bind...)
}

// normalFunction draws from the standard normal distribution in shaders, of the type that factors are stored in.
func (c Config) normalFunction() string {
	if c.DType == buffers.BF16 {
		return "normal_bf16"
	}
	return "normal_f32"
}
