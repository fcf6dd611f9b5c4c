package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gputrain/shaders"
)

// lowered are parts of the names of adapters whose driver has the extension without a unit, and makes plain code of it: Intel's before Alchemist, and
// Meteor Lake, as Mesa calls them.
var lowered = []string{"(tgl", "(rkl", "(adl", "(rpl", "(dg1", "(mtl"}

// chooseMatrix settles the units that kernels get: those of the adapter of which what this relies on holds. Where there are none, a line says why.
func (d *Device) chooseMatrix(ctx context.Context, o Options) {
	listed := d.limits.Matrix
	d.limits.Matrix = MatrixUnits{}
	if !o.Matrix {
		return
	}
	off := func(reason any) { d.logger.Warn("gpu: matrix units: off", "adapter", d.adapter.Name, "reason", reason) }
	switch {
	case len(listed.Shapes) == 0:
		off("found none, wanted some that multiply f16 and add up in f32")
		return
	case lowersMatrix(d.adapter.Name):
		off("the driver makes plain code of them")
		return
	case !d.native.matrix:
		off("the driver makes no device with them")
		return
	}
	if o.Unproven {
		d.limits.Matrix = listed
		return
	}
	var hold []MatrixShape
	for _, s := range listed.Shapes {
		d.limits.Matrix = MatrixUnits{Shapes: []MatrixShape{s}, Lanes: listed.Lanes, Subgroups: listed.Subgroups}
		if err := d.probeMatrix(ctx, matrixProbeKernel(s, listed.Lanes), s); err != nil {
			off(fmt.Errorf("%s: %w", s, err))
			continue
		}
		hold = append(hold, s)
	}
	d.limits.Matrix.Shapes = hold
}

func lowersMatrix(name string) bool {
	for _, part := range lowered {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}

// probeSubgroups are the subgroups of a probe's workgroup: which invocations are a subgroup is part of what is probed.
const probeSubgroups = 4

// Specialise has a shader import shared/matrix.wgsl for units of that shape, by subgroups of so many invocations.
func (s MatrixShape) Specialise(lanes int, v shaders.Variant) {
	for name, n := range map[string]int{"UNIT_M": s.M, "UNIT_N": s.N, "UNIT_K": s.K, "LANES": lanes, "UNIT_QUADS": s.M * s.N / lanes / 4, "UNIT_EIGHTS": s.K / 8} {
		v.Constants[name] = strconv.Itoa(n)
	}
}

func matrixProbeKernel(s MatrixShape, lanes int) *Kernel {
	v := shaders.Variant{Flags: map[string]bool{}, Constants: map[string]string{
		"SUBGROUPS": strconv.Itoa(probeSubgroups), "INVOCATIONS": strconv.Itoa(probeSubgroups * lanes),
		"TILE": strconv.Itoa(probeSubgroups * (s.M*s.K/8 + s.N*s.K/8 + s.M*s.N/4)),
	}}
	s.Specialise(lanes, v)
	return NewKernel("gputrain.gpu.matrix_probe_"+s.String(), "matrix_probe", v)
}

// matrixProbe makes operands, what they are when they are rounded to f16, and the results of each subgroup, all of them exact in f32. Rows of A are in turn
// whole numbers, numbers on the half between two of f16, and multiples of the smallest of f16; what is stored as f16 is of the last two, too.
func matrixProbe(s MatrixShape) (a, b []float32, results [5][]float32) {
	number := func(i int) float32 { return float32(i*7%17 - 8) }
	rounded := make([]float32, probeSubgroups*s.M*s.K)
	for i := range rounded {
		switch n := number(i); i / s.K % 3 {
		case 0:
			a, rounded[i] = append(a, n), n
		case 1: // half of the way: to the even neighbour, which of 2049 is below and of 2051 above
			even := []float32{2048, 2052}[i%2]
			a, rounded[i] = append(a, []float32{2049, 2051}[i%2]), even
		default:
			a, rounded[i] = append(a, n*0x1p-24), n*0x1p-24
		}
	}
	for i := range probeSubgroups * s.N * s.K {
		b = append(b, number(3*i+1))
	}
	for g := range probeSubgroups {
		for i := range s.M {
			for j := range s.N {
				along, across := float32(0), float32(0)
				for k := range s.K {
					along += rounded[(g*s.M+i)*s.K+k] * b[(g*s.N+j)*s.K+k]
					across += b[g*s.N*s.K+k*s.M+i] * b[g*s.N*s.K+k*s.N+j]
				}
				for n, x := range []float32{along, 2 * along, across, halfOf(len(results[0]))} {
					results[n] = append(results[n], x)
				}
			}
		}
		scores := results[2][g*s.M*s.N:]
		for range 3 {
			scores = s.product(func(i, k int) float32 {
				x := float64(scores[(i*s.K+k)%len(scores)])
				return float32(x - 16*math.Floor(x/16) - 8)
			}, b[g*s.N*s.K:])
			halves := scores // whole numbers that f16 holds
			scores = s.product(func(i, k int) float32 { return halves[i*s.N+k%s.N] }, b[g*s.N*s.K:])
		}
		results[4] = append(results[4], scores...)
	}
	return a, b, results
}

// product is A B^T, of B [N,K].
func (s MatrixShape) product(a func(i, k int) float32, b []float32) (c []float32) {
	for i := range s.M {
		for j := range s.N {
			sum := float32(0)
			for k := range s.K {
				sum += a(i, k) * b[j*s.K+k]
			}
			c = append(c, sum)
		}
	}
	return c
}

// halfOf is the i-th number that is stored as f16, rounded to it, to even on half of the way: its numbers are 1 apart below 2048, 2 above, and 2^-24 below its
// normal ones.
func halfOf(i int) float32 {
	x, scale := 1537+0.5*float64(i*7%2041), 1.0
	if i/4%2 == 1 {
		scale = 0x1p-26
	}
	apart := 1.0
	switch {
	case scale < 1:
		apart = 4 // of 2^-26
	case x >= 2048:
		apart = 2
	}
	return float32(scale * apart * math.RoundToEven(x/apart))
}

// probeMatrix runs a kernel that uses every function of shared/matrix.wgsl, and compares what comes out.
func (d *Device) probeMatrix(ctx context.Context, k *Kernel, s MatrixShape) error {
	a, b, results := matrixProbe(s)
	var bound []Range
	for _, n := range []int{len(a), len(b), len(results[0]), len(results[0]), len(results[0]), len(results[0]), len(results[0])} {
		buffer, err := d.NewBuffer("gputrain.gpu.matrix_probe", uint64(4*n))
		if err != nil {
			return err
		}
		defer buffer.Release()
		bound = append(bound, buffer.All())
	}
	for i, operand := range [][]float32{a, b} {
		if err := d.Write(bound[i], Bytes(operand)); err != nil {
			return err
		}
	}
	rec := d.Record("gputrain.gpu.matrix_probe")
	rec.Dispatch(k, Grid{1, 1, 1}, nil, bound...)
	p, err := rec.Program(ctx)
	if err != nil {
		return err
	}
	defer p.Release()
	if err := p.Submit(ctx); err != nil {
		return err
	}
	for i, result := range results {
		raw := make([]byte, 4*len(result))
		if err := d.Read(ctx, raw, bound[2+i]); err != nil {
			return err
		}
		for j, want := range result {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])); got != want {
				return fmt.Errorf("result %d of %d subgroups with known numbers, element %d: found %g, wanted %g", i, probeSubgroups, j, got, want)
			}
		}
	}
	return nil
}
