package optim

import "math"

// NormalizeByLeaf divides the update of each leaf by its norm:
//
//	u <- u / (|u| + eps)
func NormalizeByLeaf(eps float64) Transform {
	if !(eps > 0) {
		return failed("normalize_by_leaf", "eps: found %g, wanted more than 0", eps)
	}
	return single(element{
		name: "normalize_by_leaf", scalars: []scalar{fixed("eps", eps)}, flops: 1,
		wgsl: "u = u / (sqrt($leaf_squares) + $eps);",
		twin: func(c *cell) { c.u /= math.Sqrt(c.leafSquares) + c.scalars[0] },
	})
}

// ClipByLeafRMS limits the root mean square of the update of each leaf (optax.clip_by_block_rms):
//
//	u <- u limit / max(RMS(u), limit)
func ClipByLeafRMS(limit float64) Transform {
	if err := inInterval("limit", limit, "(0,inf)"); err != nil {
		return failed("clip_by_leaf_rms", "%w", err)
	}
	return single(element{
		name: "clip_by_leaf_rms", scalars: []scalar{fixed("limit", limit)}, flops: 1,
		wgsl: "u = u * ($limit / max(sqrt($leaf_squares / $leaf_elements), $limit));",
		twin: func(c *cell) {
			c.u *= c.scalars[0] / math.Max(math.Sqrt(c.leafSquares/c.leafElements), c.scalars[0])
		},
	})
}
