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
	return Elementwise(Element{
		Name: "clip_by_global_norm", Scalars: []Scalar{Fixed("max", max)}, FLOPs: 2,
		WGSL: "if ($bad || !($norm < $max)) { u = (u / $norm) * $max; }",
		Twin: func(c *Cell) {
			if !(c.Norm < c.Scalars[0]) {
				c.U = c.U / c.Norm * c.Scalars[0]
			}
		},
	})
}

// clip is the clip of an optimizer: that of whole trees, or of eformer's stage-local path in calls of State.SetStageLocal, if the numerics have it.
func (o Options) clip(max float64) Transform {
	if !o.rules().clipStageLocal {
		return ClipByGlobalNorm(max)
	}
	whole, staged := ClipByGlobalNorm(max).elements[0], ClipStageLocal(max).elements[0]
	e := whole
	e.Scalars = append(e.Scalars, Scalar{Name: "staged", At: func(int64) float64 { return 0 }, staged: true})
	e.WGSL = "if ($staged != 0.0) {\n" + staged.WGSL + "\n} else {\n" + whole.WGSL + "\n}"
	e.Twin = func(c *Cell) {
		if c.Scalars[1] != 0 {
			staged.Twin(c)
		} else {
			whole.Twin(c)
		}
	}
	return Elementwise(e)
}

// StageLocalClip is the clip that eformer's stage-local path has by the numerics.
func (o Options) StageLocalClip(max float64) Transform {
	if o.rules().clipStageLocal {
		return ClipStageLocal(max)
	}
	return ClipByGlobalNorm(max)
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
	return Elementwise(Element{
		Name: "clip_stage_local", Scalars: []Scalar{Fixed("max", max)}, FLOPs: 1,
		WGSL: "let factor = $max / ($norm + 1e-6);\nif (factor < 1.0) { u = u * factor; }",
		Twin: func(c *Cell) {
			if factor := c.Scalars[0] / (c.Norm + 1e-6); factor < 1 {
				c.U *= factor
			}
		},
	})
}

// globalNorm leaves updates alone and measures them: norm and non-finite flag of all leaves together come to
// stand in State.Statistics. A clip at the same place shares the measurement.
func globalNorm() Transform {
	return Elementwise(Element{Name: "global_norm", keeps: true, WGSL: measured, Twin: func(*Cell) {}})
}

// measured is the body of an element that wants the statistics and does nothing with them.
const measured = "// $norm"
