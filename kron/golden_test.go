package kron

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/buffers/safetensors"
)

// goldenCase is a case of an independent float64 oracle in the numerics of eformer.
type goldenCase struct {
	Kind              string
	FormatVersion     int `json:"format_version"`
	Optimizer         string
	Config            goldenConfig
	LearningRates     []float64       `json:"learning_rates"`
	ClipGrad          float64         `json:"clip_grad"`
	WeightDecay       float64         `json:"weight_decay"`
	WeightDecayMask   map[string]bool `json:"weight_decay_mask"`
	AccumulationSteps int             `json:"gradient_accumulation_steps"`
	Steps             int
	Params            []struct {
		Name    string
		Shape   []int
		Scanned bool
	}
	Expect []struct {
		Step        int
		UpdatesDone int64 `json:"updates_done"`
		State       bool
	}
	StateSlots  map[string][]string `json:"state_slots"`
	StateDTypes map[string]string   `json:"state_dtypes"`
	Layout      struct {
		Leaves map[string]struct {
			Path              string
			Batch, Size, M, N int
			Valid             [][2]int // of the blocks of a large leaf
		}
		DenseBlocks [][]any `json:"dense_blocks"` // leaf, batch, block row, block column, valid rows, valid columns
	}

	tensors *safetensors.File
}

type goldenConfig struct {
	Style            string `json:"lr_style"`
	B1               float64
	NormalizeGrads   bool    `json:"normalize_grads"`
	MaxSizeDense     int     `json:"max_size_dense"`
	PreconditionerLR float64 `json:"preconditioner_lr"`
	InitScale        float64 `json:"preconditioner_init_scale"`
	DType            string
	BlockSize        int             `json:"block_size"`
	NoiseScale       float64         `json:"noise_scale"`
	WeightDecay      float64         `json:"weight_decay"`
	WeightDecayMask  map[string]bool `json:"weight_decay_mask"`
}

type goldenTolerance struct {
	Rtol, Atol float64
	RelMax     float64 `json:"atol_rel_max"`
}

// compare returns the worst ratio of error to tolerance; more than 1 fails, and so does NaN.
func (tol goldenTolerance) compare(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	size := 0.0
	for _, w := range want {
		size = max(size, math.Abs(float64(w)))
	}
	worst := 0.0
	for i, w := range want {
		diff := math.Abs(float64(got[i]) - float64(w))
		if allowed := tol.Atol + tol.Rtol*math.Abs(float64(w)) + tol.RelMax*size; math.IsNaN(diff) {
			return math.Inf(1)
		} else if diff > 0 {
			worst = max(worst, diff/allowed)
		}
	}
	return worst
}

func TestGoldenToleranceRejects(t *testing.T) {
	tol := goldenTolerance{Rtol: 1e-3, Atol: 1e-6, RelMax: 1e-4}
	want := []float32{1, 0, -2}
	assert.LessOrEqual(t, tol.compare([]float32{1.001, 0.0002, -2}, want), 1.0)
	assert.Greater(t, tol.compare([]float32{1.002, 0, -2}, want), 1.0)
	assert.Greater(t, tol.compare([]float32{1, 0, 2}, want), 1.0)
	assert.Greater(t, tol.compare([]float32{1, float32(math.NaN()), -2}, want), 1.0)
	assert.Greater(t, tol.compare(want[:2], want), 1.0)
}

// goldens are the cases that the program has too; those in testdata are for tests alone.
const goldens = "../cmd/gputrain/doctor/cases"

func readGolden(t *testing.T, folder, kind string, out any) *safetensors.File {
	text, err := os.ReadFile(filepath.Join(folder, "case.json"))
	require.NoError(t, err)
	var head struct {
		Kind          string
		FormatVersion int `json:"format_version"`
	}
	require.NoError(t, json.Unmarshal(text, &head))
	require.Equal(t, kind, head.Kind)
	require.Equal(t, 1, head.FormatVersion)
	require.NoError(t, json.Unmarshal(text, out))
	file, err := safetensors.Open(filepath.Join(folder, "tensors.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func float32Tensor(t *testing.T, file *safetensors.File, name string) []float32 {
	data, err := file.Float32(name)
	require.NoError(t, err)
	return data
}

func float64Tensor(t *testing.T, file *safetensors.File, name string) []float64 {
	var out []float64
	for _, x := range float32Tensor(t, file, name) {
		out = append(out, float64(x))
	}
	return out
}

// TestTwinFollowsGoldenCases puts the plain surroundings of the two optimizers around the twin: mean of gradients, clip, momentum, RMS
// limit, decay, rate.
func TestTwinFollowsGoldenCases(t *testing.T) {
	var folders []string
	for _, pattern := range []string{"testdata/*", goldens + "/quad_*", goldens + "/skew_*"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		folders = append(folders, found...)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var c goldenCase
			var tolerances struct {
				Tolerance struct {
					Params goldenTolerance
					State  map[string]goldenTolerance
				}
			}
			c.tensors = readGolden(t, folder, "optimizer", &c)
			readGolden(t, folder, "optimizer", &tolerances)
			r := newGoldenRun(t, &c)
			requireLayout(t, r.plan, &c)
			worst := 0.0
			check := func(name string, tol goldenTolerance, got []float32) {
				ratio := tol.compare(got, float32Tensor(t, c.tensors, name))
				assert.LessOrEqual(t, ratio, 1.0, name)
				worst = max(worst, ratio)
			}
			for step := range c.Steps {
				r.call(t, step)
				for _, e := range c.Expect {
					if e.Step != step {
						continue
					}
					prefix := fmt.Sprintf("expect/%d/", step)
					require.Equal(t, e.UpdatesDone, r.updates)
					for _, p := range c.Params {
						check(prefix+"params/"+p.Name, tolerances.Tolerance.Params, narrow(r.params[p.Name]))
					}
					if !e.State {
						continue
					}
					state := r.state()
					for _, slot := range slices.Sorted(maps.Keys(c.StateSlots)) {
						for _, leaf := range c.StateSlots[slot] {
							got, ok := state[slot+"/"+leaf]
							require.True(t, ok, "%s of %s", slot, leaf)
							check(prefix+"state/"+slot+"/"+leaf, tolerances.Tolerance.State[slot], got)
							if c.StateDTypes[slot] == "bfloat16" {
								assert.Equal(t, exactBF16(got), got)
							}
						}
					}
				}
			}
			t.Logf("worst error: %.3g of what is allowed", worst)
		})
	}
}

// TestBoundAndProcrustesGolden runs single matrices.
func TestBoundAndProcrustesGolden(t *testing.T) {
	var c struct {
		Entries []struct {
			Index, N, Valid int
			Key             prng.Key
		}
		Tolerance goldenTolerance
	}
	file := readGolden(t, goldens+"/wk_unit", "wk_unit", &c)
	require.NotEmpty(t, c.Entries)
	for _, e := range c.Entries {
		config := Config{BlockSize: e.N, DType: buffers.F32}
		load := func(name string) []float64 {
			padded := float64Tensor(t, file, fmt.Sprintf("%s/%d", name, e.Index))
			var out []float64
			for _, row := range rowsOf(padded, e.N)[:e.Valid] {
				out = append(out, row[:e.Valid]...)
			}
			return out
		}
		check := func(name string, got []float32) {
			want := float32Tensor(t, file, fmt.Sprintf("expect/%d/%s", e.Index, name))
			assert.LessOrEqual(t, c.Tolerance.compare(got, want), 1.0, "%s of %d", name, e.Index)
		}
		check("norm_lower_bound_sym", []float32{float32(twinBound(e.Key, load("sym"), e.Valid, false, config))})
		if e.Valid > 1 {
			check("norm_lower_bound_skew", []float32{float32(twinBound(e.Key, load("skew"), e.Valid, true, config))})
		}
		turned := procrustesTwin(e.Key, load("q"), e.Valid, config)
		check("procrustes", padMatrices(buffers.Host{Shape: []int{1, e.Valid, e.Valid}, Data: narrow(turned)}, e.N))
	}
}
