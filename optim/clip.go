package optim

// ClipByGlobalNorm is optax.clip_by_global_norm, N the norm of all leaves of the update together:
//
//	u <- u                 if N < max (every bit as it was)
//	     (u / N) max       otherwise; there is no eps
//
// What is not finite poisons everything: wrap in SkipNonFinite where that is not wanted.
func ClipByGlobalNorm(max float64) Transform {
	if err := inInterval("max", max, "(0,inf)"); err != nil {
		return failed("clip_by_global_norm", "%w", err)
	}
	return single(element{
		name: "clip_by_global_norm", scalars: []scalar{fixed("max", max)}, flops: 2,
		wgsl: "if ($bad || !($norm < $max)) { u = (u / $norm) * $max; }",
		twin: func(c *cell) {
			if !(c.norm < c.scalars[0]) {
				c.u = c.u / c.norm * c.scalars[0]
			}
		},
	})
}

// ClipStageLocal is the clip of eformer's stage-local path, N the norm of all leaves of the update together:
//
//	u <- u min(1, max/(N + 1e-6))
//
// A norm that is not a number leaves u as it is.
func ClipStageLocal(max float64) Transform {
	if err := inInterval("max", max, "(0,inf)"); err != nil {
		return failed("clip_stage_local", "%w", err)
	}
	return single(element{
		name: "clip_stage_local", scalars: []scalar{fixed("max", max)}, flops: 1,
		wgsl: "let factor = $max / ($norm + 1e-6);\nif (factor < 1.0) { u = u * factor; }",
		twin: func(c *cell) {
			if factor := c.scalars[0] / (c.norm + 1e-6); factor < 1 {
				c.u *= factor
			}
		},
	})
}

// GlobalNorm leaves updates alone and measures them: norm and non-finite flag of all leaves together come to
// stand in State.Statistics. A clip at the same place shares the measurement.
func GlobalNorm() Transform {
	return single(element{name: "global_norm", keeps: true, wgsl: measured, twin: func(*cell) {}})
}

// measured is the body of an element that wants the statistics and does nothing with them.
const measured = "// $norm"
