package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/kron"
	"gputrain/optim"
)

// The plan that is read out of a checkpoint's record is the one that the optimizer has made: its stack and its leaves are those of the state.
func TestKronPlanIsTheOptimizers(t *testing.T) {
	specs := []buffers.Spec{
		{Path: "wte", Shape: []int{300, 24}}, {Path: "h.0.w", Shape: []int{3, 24, 40}}, {Path: "h.0.b", Shape: []int{40}}, {Path: "k", Shape: []int{4, 5, 6}},
	}
	layout, err := buffers.NewLayout(specs, gpu.DefaultLimits())
	require.NoError(t, err)
	params, err := buffers.NewTree(gpu.Dry(gpu.DefaultLimits()), "params", layout, buffers.F32)
	require.NoError(t, err)
	for _, parameters := range []string{
		``, `{"block_size":16}`, `{"block_size":16,"max_size_dense":100}`, `{"block_size":8,"scanned_layers":["^h"]}`,
		`{"scanned_layers":{"wte":false,"h.0.w":true,"h.0.b":false,"k":true}}`, `{"block_size":8,"scanned_layers":"matrices"}`,
	} {
		for _, c := range []optim.Config{
			{Name: "quad"}, {Name: "skew"}, {Name: "quad", Options: optim.Options{Numerics: optim.EFormer}}, // which has its blocks in the order of specs
			{Name: "quad", Options: optim.Options{Numerics: optim.EFormer, Edition: optim.First}},
		} {
			name := c.Name
			c.Parameters = []byte(parameters)
			tx, err := c.Build()
			require.NoError(t, err)
			s, err := tx.InitStage(params, specs)
			require.NoError(t, err)
			plan, err := kronPlan(c, specs)
			require.NoError(t, err)
			shapes := map[string][]int{}
			for _, tensor := range s.Tensors() {
				shapes[tensor.Name] = tensor.Shape
			}
			own := 0
			for _, m := range plan.Leaves {
				if m.Kind == kron.Dense {
					continue
				}
				own++
				require.Contains(t, shapes, "leaf/"+m.Path+"/Ql", "%s %s", name, parameters)
				assert.Equal(t, m.Blocks, shapes["leaf/"+m.Path+"/Ql"][0], "%s %s %s", name, parameters, m.Path)
			}
			if plan.DenseBlocks() > 0 {
				require.Contains(t, shapes, "dense/Ql", "%s %s", name, parameters)
				assert.Equal(t, plan.DenseBlocks(), shapes["dense/Ql"][0], "%s %s", name, parameters)
				var rows []float32
				for _, m := range plan.Leaves {
					for _, b := range plan.BlocksOf(m) {
						if m.Kind == kron.Dense {
							rows = append(rows, float32(b.Rows))
						}
					}
				}
				for _, tensor := range s.Tensors() {
					if tensor.Name == "dense/valid_rows" {
						found, err := tensor.Floats(t.Context())
						require.NoError(t, err)
						assert.Equal(t, rows, found, "%+v", c)
					}
				}
			}
			assert.Positive(t, own)
		}
	}
	none, err := kronPlan(optim.Config{Name: "adamw"}, specs)
	require.NoError(t, err)
	assert.Nil(t, none)
	_, err = kronPlan(optim.Config{Name: "quad", Parameters: []byte(`{"scanned_layers":["("]}`)}, specs)
	assert.ErrorContains(t, err, "scanned_layers")
}
