package kron

import (
	"fmt"
	"testing"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// TestBlockSizes: every kind of leaf with blocks of one element, of sizes that are no multiple of four, and larger than any leaf.
func TestBlockSizes(t *testing.T) {
	leaves := []Leaf{
		{Path: "dense", Shape: []int{31, 44}},
		{Path: "left", Shape: []int{50, 7}},
		{Path: "right", Shape: []int{6, 61}},
		{Path: "both", Shape: []int{60, 51}},
		{Path: "scanned", Shape: []int{2, 3, 5}, Scanned: true},
		{Path: "vector", Shape: []int{9}},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, size := range []int{1, 3, 7, 300} {
			for method, rules := range map[Method]Rules{Quad: Stable(), Skew: {}} {
				t.Run(fmt.Sprintf("%s %d", method, size), func(t *testing.T) {
					r := newRig(t, d, Config{
						Method: method, BlockSize: size, MaxSizeDense: 45, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.F32,
						NoiseScale: 1e-9, Damping: 0.03, Rules: rules,
					}, leaves...)
					for n := int64(98); n <= 101; n++ {
						r.update(n, r.gradientsOf(n, 0.01), false, 2e-4, "", Dense, diagonalBoth, diagonalLeft, diagonalRight, Vector)
					}
				})
			}
		}
	})
}
