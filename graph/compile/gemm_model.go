package compile

import (
	"cmp"
	"math"

	"gputrain/gpu"
)

// How a GPU's tile and slices of K are chosen: by a model of the time of a product, in clocks, of a device with so many multiprocessors of so many lanes. It
// depends on shape and limits alone. Where Limits do not tell the number (gpu.Limits.Multiprocessors), the choice is made for devices of 40 to 80 of 64 lanes:
// it has the least product of the times on all of them, so that each device counts by ratios.
//
//	groups = tiles of C * products * slices       workgroups
//	turns  = ceil(groups / places)                of the busiest place: a multiprocessor for the 256 invocations of a tile of 128 x 128, else half of one
//	step   = max(turns * alu, alu + wait)         while a workgroup waits for memory, the others of its place compute
//	loads  = groups * depth * (rows + columns of a tile) * 4 bytes / rate
//	time   = max(step * steps of K a slice, loads) + sum
//	sum    = pass + 2 * slices * M * N * 4 bytes / rate of sums, or nothing for one slice
//
// A place is what one workgroup fills. AMD's compute unit has two SIMDs of 32 lanes: a wave of 64 invocations is on one of them, four waves share both.
// NVIDIA's multiprocessor and Apple's core have four: 64 invocations are two warps on two of them, in half the clocks; 256 are on all. An H100's products in
// f32 go by these places and their turns alone, whether there is one or many: base * (groups / places) / turns, of 28 to 32 TFLOP/s, meets every shape that
// its page has within 5 %. So a wait is counted where the number of places is a guess.
const (
	modelWait  = 560.  // clocks from a load to what the tile makes of it: 500 of memory, 60 of workgroup memory
	modelPass  = 4000. // of one more dispatch, which waits for the whole product: 2 us
	modelSaves = 0.05  // of the time, at least, by what takes more slices, and with them memory and a pass, or a smaller tile: what the model may be wrong by
	modelRate  = 2.5   // bytes a clock and 32 lanes from the second cache, assumed; at full rate a tile of 64 x 64 asks 4, one of 128 x 128 asks 2
	modelSum   = 3.    // the same of the sum of slices where the number of multiprocessors is known: 2.8 TB/s on an H100, by its page
)

// modelDevice is what a choice is made for; sums is the rate of sums.
type modelDevice struct{ multiprocessors, lanes, wait, sums float64 }

var someDevices = []modelDevice{
	{40, 64, modelWait, modelRate}, {50, 64, modelWait, modelRate}, {60, 64, modelWait, modelRate}, {70, 64, modelWait, modelRate}, {80, 64, modelWait, modelRate},
}

// devicesOf are those that the choices for some limits are made for.
func devicesOf(l gpu.Limits) []modelDevice {
	if l.Multiprocessors == 0 {
		return someDevices
	}
	return []modelDevice{{float64(l.Multiprocessors), float64(cmp.Or(l.MultiprocessorLanes, 128)), 0, modelSum}}
}

// moves is the clocks for bytes, at so many a clock and 32 lanes.
func (d modelDevice) moves(bytes, rate float64) float64 {
	return bytes / (rate * d.multiprocessors * d.lanes / 32)
}

// alu is the clocks that a workgroup's place of a multiprocessor of 64 lanes spends computing in a step of K, and how long that step is. For the tiles they
// are counted in what Mesa's compiler for AMD makes of them (navi21; a wave of 64 invocations takes two clocks an instruction, the four waves of the largest
// tile share two SIMDs); for the others they are the multiply-adds and about six instructions a load.
func (v gemmVariant) alu() (clocks float64, step int) {
	switch {
	case v.file == "matmul_scalar":
		return 2 * (16 + 6*8), 1
	case v.file == "matmul":
		return 2 * float64(16*v.rows*v.cols+6*(v.rows+4*v.cols)), 4
	}
	return map[int]float64{32: 1230, 64: 2270, 128: 2320}[v.tileM], v.step()
}

// time is what the model says of a variant with K in slices.
func (v gemmVariant) time(g gemm, slices int, d modelDevice) float64 {
	alu, step := v.alu()
	alu *= 64 / d.lanes
	places := 2 * d.multiprocessors
	if v.tileM == 128 && v.file == "matmul_tiled" {
		places /= 2
	}
	depth := (g.k + slices - 1) / slices
	groups := v.groups(g, slices)
	work := max(math.Ceil(groups/places)*alu, alu+d.wait) * float64(tiles(depth, step))
	loads := d.moves(groups*float64(depth*(v.tileM+v.tileN)*4), modelRate)
	return max(work, loads) + sumTime(g, slices, d)
}

// groups is the workgroups of a product with K in slices.
func (v gemmVariant) groups(g gemm, slices int) float64 {
	return float64(tiles(g.m, v.tileM)) * float64(tiles(g.n, v.tileN)) * float64(g.count*slices)
}

// sumTime is that of the sum of slices.
func sumTime(g gemm, slices int, d modelDevice) float64 {
	if slices == 1 {
		return 0
	}
	return modelPass + d.moves(float64(2*slices)*float64(g.m)*float64(g.n)*4, d.sums)
}

// unitTime is time for a product by matrix units. Two workgroups of a multiprocessor wait for memory in turns, so that one alone takes three quarters of the
// time of both: an H100 takes 1.25 us for a step of 32 of one tile of 128 x 128 and 1.6 for two, 2,800 clocks; 1,600 are taken here, for operands that come
// in f16. Of a tile of more than four subgroups a multiprocessor has one: it takes what two have in its place.
func (v gemmVariant) unitTime(g gemm, slices int, d modelDevice) float64 {
	turns := math.Ceil(v.groups(g, slices) / d.multiprocessors)
	pairs, alone := math.Floor(turns/2), math.Mod(turns, 2)
	if v.subgroups() > 4 {
		pairs, alone = turns/2, 0
	}
	step := 1600 * float64(v.tileM*v.tileN*v.matrix.step) / (128 * 128 * 32)
	depth := (g.k + slices - 1) / slices
	return (pairs+0.75*alone)*step*float64(tiles(depth, v.matrix.step)) + sumTime(g, slices, d)
}

// gpuChoice is the variant and the slices with the least time among the variants that suit the form of g; what comes later in the list, or
// takes more slices, has to save a share of it. The products of all slices fit one binding.
func (c *Compiler) gpuChoice(g gemm) (gemmVariant, int) {
	of := gemmForm{
		m: g.m, n: g.n, k: g.k, count: g.count, transA: g.transA, transB: g.transB, vec4: g.loadsVec4(), units: c.takesUnits(g),
		halves: g.a.span.inHalves() && g.b.span.inHalves(),
	}
	chosen, known := c.chosen[of]
	if !known {
		chosen.variant, chosen.slices = c.chooseGPU(g)
		if c.chosen == nil {
			c.chosen = map[gemmForm]gemmChoice{}
		}
		c.chosen[of] = chosen
	}
	return chosen.variant, chosen.slices
}

// gemmForm is what the choice for a product depends on: layers have the same products, and are asked about several times each.
type gemmForm struct {
	m, n, k, count       int
	transA, transB, vec4 bool
	units, halves        bool
}

type gemmChoice struct {
	variant gemmVariant
	slices  int
}

// chooseGPU is gpuChoice of a product that was not asked about before.
func (c *Compiler) chooseGPU(g gemm) (best gemmVariant, slices int) {
	if c.takesUnits(g) {
		v, _ := units(c.limits)
		return unitChoice(c.limits, g, v, c.mostSlices(g))
	}
	shortest := 256 // of K a slice; of the tiles' less, as what they wait for is counted
	var variants []gemmVariant
	switch {
	case !g.loadsVec4():
		variants = []gemmVariant{{file: "matmul_scalar", tileM: 32, tileN: 32}}
	case g.m < 32 || g.n < 32:
		variants = []gemmVariant{registerTile(g, 64)}
	default:
		shortest, variants = 64, []gemmVariant{tiled(64), tiled(32)}
		if c.limits.Invocations >= 256 {
			variants = append(variants, tiled(128))
		}
	}
	most := 1
	if g.count == 1 {
		most = max(1, min(g.k/shortest, c.mostSlices(g)))
	}
	on := devicesOf(c.limits)
	clearly := math.Pow(1-modelSaves, float64(len(on)))
	least := math.Inf(1)
	for _, v := range variants {
		for s := 1; s <= most; s++ {
			product := 1.0
			for _, d := range on {
				product *= v.time(g, s, d)
			}
			if product < clearly*least {
				best, slices, least = v, s, product
			}
		}
	}
	return best, slices
}

// mostSlices is of how many slices of K the products, and a row of sums of each, fit one binding; at least 1.
func (c *Compiler) mostSlices(g gemm) int {
	return max(1, int(c.limits.BindingBytes)/(16*(g.m+1)*((g.n+3)/4)))
}
