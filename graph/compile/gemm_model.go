package compile

import "math"

// How a GPU's tile and slices of K are chosen: by a model of the time of a product, in clocks. WebGPU does not tell how many compute units
// a device has, so the choice is made for devices of 40 to 80, which is 80 to 160 SIMDs of 32 lanes: it has the least product of the times on
// all of them, so that each device counts by ratios. It depends on shape and limits alone.
//
//	groups = tiles of C * products * slices       workgroups
//	turns  = ceil(groups / places)                of the busiest place: a SIMD, or two of them for the 256 invocations of a tile of 128 x 128
//	step   = max(turns * alu, alu + wait)         while a workgroup waits for memory, the others of its place compute
//	loads  = groups * depth * (rows + columns of a tile) * 4 bytes / rate
//	time   = max(step * steps of K a slice, loads) + sum
//	sum    = pass + 2 * slices * M * N * 4 bytes / rate, or nothing for one slice
const (
	modelWait = 560.  // clocks from a load to what the tile makes of it: 500 of memory, 60 of workgroup memory
	modelPass = 4000. // of one more dispatch, which waits for the whole product: 2 us
	modelRate = 2.5   // bytes a clock and SIMD from the second cache, assumed; at full rate a tile of 64 x 64 asks 4, one of 128 x 128 asks 2
)

var modelSIMDs = []float64{80, 100, 120, 140, 160}

// alu is the clocks that a workgroup's place spends computing in a step of K, and how long that step is. For the tiles they are counted in
// what Mesa's compiler for AMD makes of them (navi21; a wave of 64 invocations takes two clocks an instruction, the four waves of
// the largest tile share two SIMDs); for the others they are the multiply-adds and about six instructions a load.
func (v gemmVariant) alu() (clocks float64, step int) {
	switch {
	case v.file == "matmul_scalar":
		return 2 * (16 + 6*8), 1
	case v.file == "matmul":
		return 2 * float64(16*v.rows*v.cols+6*(v.rows+4*v.cols)), 4
	}
	return map[int]float64{32: 1230, 64: 2270, 128: 2320}[v.tileM], v.step()
}

// time is what the model says of a variant with K in slices, on a device of so many SIMDs.
func (v gemmVariant) time(g gemm, slices int, simds float64) float64 {
	alu, step := v.alu()
	places := simds
	if v.tileM == 128 && v.file == "matmul_tiled" {
		places /= 2
	}
	depth := (g.k + slices - 1) / slices
	groups := float64(tiles(g.m, v.tileM)) * float64(tiles(g.n, v.tileN)) * float64(g.count*slices)
	work := max(math.Ceil(groups/places)*alu, alu+modelWait) * float64(tiles(depth, step))
	loads := groups * float64(depth*(v.tileM+v.tileN)*4) / (modelRate * simds)
	sum := 0.0
	if slices > 1 {
		sum = modelPass + float64(2*slices)*float64(g.m)*float64(g.n)*4/(modelRate*simds)
	}
	return max(work, loads) + sum
}

// gpuChoice is the variant and the slices with the least time among the variants that suit the form of g; what comes later in the list, or
// takes more slices and with them more memory, has to save a twentieth. The products of all slices fit one binding.
func (c *Compiler) gpuChoice(g gemm) (gemmVariant, int) {
	of := gemmForm{m: g.m, n: g.n, k: g.k, count: g.count, transA: g.transA, transB: g.transB, vec4: g.loadsVec4(), units: c.takesUnits(g)}
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
	units                bool
}

type gemmChoice struct {
	variant gemmVariant
	slices  int
}

// chooseGPU is gpuChoice of a product that was not asked about before.
func (c *Compiler) chooseGPU(g gemm) (best gemmVariant, slices int) {
	if c.takesUnits(g) {
		v, _ := units(c.limits)
		return v, min(unitSlices(g, v), c.mostSlices(g))
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
	clearly := math.Pow(0.95, float64(len(modelSIMDs)))
	least := math.Inf(1)
	for _, v := range variants {
		for s := 1; s <= most; s++ {
			product := 1.0
			for _, simds := range modelSIMDs {
				product *= v.time(g, s, simds)
			}
			if product < clearly*least {
				best, slices, least = v, s, product
			}
		}
	}
	return best, slices
}

// mostSlices is of how many slices of K the products fit one binding; at least 1.
func (c *Compiler) mostSlices(g gemm) int {
	return max(1, int(c.limits.BindingBytes)/(16*g.m*((g.n+3)/4)))
}
