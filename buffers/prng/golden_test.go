package prng

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
)

// TestGolden runs a golden case of kind "prng" (made by a float64 oracle, checked against printed JAX values).
func TestGolden(t *testing.T) {
	const folder = "../../cmd/gputrain/doctor/cases/prng"
	text, err := os.ReadFile(folder + "/case.json")
	require.NoError(t, err)
	var c struct {
		Kind    string
		Format  int `json:"format_version"`
		Entries []struct {
			Op, Dtype, Tensor string
			Seed              uint64
			Key               Key
			Data              uint32
			N                 int
			Out               json.RawMessage
		}
		Table     []float32 `json:"bf16_table"`
		Tolerance struct {
			F32  struct{ Rtol, Atol float64 } `json:"normal_f32"`
			BF16 struct{ Rtol, Atol float64 } `json:"normal_bf16"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &c))
	require.Equal(t, "prng", c.Kind)
	require.Equal(t, 1, c.Format)
	require.Equal(t, normalBF16[:], c.Table)
	tensors, err := safetensors.Open(folder + "/tensors.safetensors")
	require.NoError(t, err)
	defer tensors.Close()

	ran := map[string]int{}
	for i, e := range c.Entries {
		ran[e.Op]++
		switch e.Op {
		case "key":
			requireJSON(t, e.Out, NewKey(e.Seed))
		case "fold_in":
			requireJSON(t, e.Out, e.Key.FoldIn(e.Data))
		case "split":
			requireJSON(t, e.Out, e.Key.Split(e.N))
		case "bits32":
			var want []uint32
			require.NoError(t, json.Unmarshal(e.Out, &want))
			require.NotEmpty(t, want)
			for j, w := range want {
				require.Equal(t, w, e.Key.Bits32(uint64(j)), "entry %d element %d", i, j)
			}
		case "normal":
			want, err := tensors.Float32(e.Tensor)
			require.NoError(t, err)
			draw, tol := e.Key.Normal, c.Tolerance.F32
			if e.Dtype == "bfloat16" {
				draw, tol = e.Key.NormalBF16, c.Tolerance.BF16
			}
			for j, w := range want {
				got, w := float64(draw(uint64(j))), float64(w)
				require.True(t, math.Abs(got-w) <= tol.Atol+tol.Rtol*math.Abs(w), "entry %d element %d: %v, want %v", i, j, got, w)
			}
		default:
			t.Fatalf("entry %d: op %q is unknown", i, e.Op)
		}
	}
	require.Len(t, ran, 5, "the case has every op: %v", ran)
}

func requireJSON[T any](t *testing.T, want json.RawMessage, got T) {
	t.Helper()
	var w T
	require.NoError(t, json.Unmarshal(want, &w))
	require.Equal(t, w, got)
}
