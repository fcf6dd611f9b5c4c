package optim

import "math"

// normalizeByLeaf divides the update of each leaf by its norm:
//
//	u <- u / (|u| + eps)
func normalizeByLeaf(eps float64) Transform {
	if !(eps > 0) {
		return failed("normalize_by_leaf", "eps: found %g, wanted more than 0", eps)
	}
	return Elementwise(Element{
		Name: "normalize_by_leaf", Scalars: []Scalar{Fixed("eps", eps)}, FLOPs: 1,
		WGSL: "u = u / (sqrt($leaf_squares) + $eps);",
		Twin: func(c *Cell) { c.U /= math.Sqrt(c.LeafSquares) + c.Scalars[0] },
	})
}

// ClipByLeafRMS limits the root mean square of the update of each leaf (optax.clip_by_block_rms):
//
//	u <- u limit / max(RMS(u), limit)
func ClipByLeafRMS(limit float64) Transform {
	if err := inInterval("limit", limit, "(0,inf)"); err != nil {
		return failed("clip_by_leaf_rms", "%w", err)
	}
	return Elementwise(Element{
		Name: "clip_by_leaf_rms", Scalars: []Scalar{Fixed("limit", limit)}, FLOPs: 1,
		WGSL: "u = u * ($limit / max(sqrt($leaf_squares / $leaf_elements), $limit));",
		Twin: func(c *Cell) {
			c.U *= c.Scalars[0] / math.Max(math.Sqrt(c.LeafSquares/c.LeafElements), c.Scalars[0])
		},
	})
}
