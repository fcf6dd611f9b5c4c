package kron

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/internal/gputest"
)

// BenchmarkPaths times updates on the first adapter; 8 bytes an element are what one that reuses its factors moves at least.
func BenchmarkPaths(b *testing.B) {
	dev := gputest.Device(b)
	var layers []Leaf
	for i := range 50 {
		layers = append(layers, Leaf{Path: fmt.Sprintf("%02d", i), Shape: []int{768}})
	}
	for _, c := range []struct {
		name   string
		make   makePath
		leaves []Leaf
	}{
		{"50 vectors of 768", newVectors, layers},
		{"a vector of 1e6", newVectors, []Leaf{{Path: "v", Shape: []int{1000000}}}},
		{"both 2048x512", newDiagonals, []Leaf{{Path: "m", Shape: []int{2048, 512}}}},
		{"left 50257x64", newDiagonals, []Leaf{{Path: "m", Shape: []int{50257, 64}}}},
		{"right 64x50257", newDiagonals, []Leaf{{Path: "m", Shape: []int{64, 50257}}}},
		{"left 8192x256", newDiagonals, []Leaf{{Path: "m", Shape: []int{8192, 256}}}},
	} {
		maxDense := 256
		if c.name == "both 2048x512" {
			maxDense = 16
		}
		for _, kind := range []string{"eformer", "stable", "reuse"} {
			b.Run(c.name+" "+kind, func(b *testing.B) {
				config := Config{
					Method: Quad, BlockSize: 256, MaxSizeDense: maxDense, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.BF16,
					NoiseScale: 1e-9, Damping: 1e-3,
				}
				if kind == "stable" {
					config.Rules = Stable()
				}
				r := newPathRig(b, dev, c.make, config, c.leaves, nil)
				program := r.program(kind == "reuse")
				elements := 0
				for _, l := range c.leaves {
					elements += array.Elements(l.Shape)
				}
				run := func() {
					require.NoError(b, program.Submit(b.Context()))
					require.NoError(b, dev.Wait(b.Context()))
				}
				run()
				for b.Loop() {
					run()
				}
				b.ReportMetric(8*float64(elements)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				b.ReportMetric(float64(program.Dispatches()), "dispatches")
			})
		}
	}
}
