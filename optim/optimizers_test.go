package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// built makes a registered optimizer.
func built(t testing.TB, name string, o Options, parameters string) Transform {
	tx, err := Build(name, o, []byte(parameters))
	require.NoError(t, err)
	return tx
}

// tolerance is what numbers may differ by: a part of themselves, and of the largest of their leaf.
type tolerance struct{ relative, share float64 }

// followTwin makes calls on a device and in the twin and compares params, all state and the norm after each.
func followTwin(t testing.TB, d *gpu.Device, tx Transform, specs []buffers.Spec, calls int, allowed, ofState tolerance) {
	r := rand.New(rand.NewPCG(21, 22))
	params := randomTree(r, specs, 1)
	dev := newRig(t, d, tx, params, buffers.F32)
	twin, err := NewTwin(tx, params)
	require.NoError(t, err)
	for call := range calls {
		grads := randomTree(r, specs, 0.1)
		dev.call(grads)
		require.NoError(t, twin.Update(grads))
		where := fmt.Sprintf("call %d", call)
		near(t, where+" params", dev.download(dev.params), twin.Params(), allowed.relative, allowed.share)
		tensors, want := dev.state.Tensors(), twin.Tensors()
		require.Len(t, tensors, len(want))
		for i, w := range want {
			require.True(t, slices.Equal(w.Shape, tensors[i].Shape), w.Path)
			got, err := tensors[i].Floats(t.Context())
			require.NoError(t, err)
			near(t, where+" state", []buffers.Host{{Path: tensors[i].Name, Data: got}}, []buffers.Host{w}, ofState.relative, ofState.share)
		}
		if dev.state.Statistics().Bytes > 0 && dev.state.Counts()["mini_step"] == 0 {
			norm := twin.Statistics().Norm
			assert.InDelta(t, norm, dev.statistics().Norm, 2e-6*float64(norm), where)
		}
	}
	assert.Equal(t, twin.Counts(), dev.state.Counts())
	planned, err := tx.Bytes(dev.params.Layout(), d.Limits())
	require.NoError(t, err)
	assert.Equal(t, planned, dev.state.Bytes())
}

func TestElementwiseOptimizersFollowTheTwin(t *testing.T) {
	clip, schedule := 3.0, ScheduleConfig{Type: "cosine", LearningRate: 0.05, Steps: 8, WarmupSteps: 2}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, tx := range map[string]Transform{
			"rmsprop":            built(t, "rmsprop", Options{Schedule: schedule}, `{"eps":1e-6}`),
			"rmsprop outside":    built(t, "rmsprop", Options{Schedule: schedule}, `{"eps_in_sqrt":false,"bias_correction":true}`),
			"rmsprop centered":   built(t, "rmsprop", Options{Schedule: schedule}, `{"centered":true,"bias_correction":true,"eps":1e-3,"momentum":0.9}`),
			"rmsprop from scale": built(t, "rmsprop", Options{Schedule: schedule}, `{"initial_scale":0.25,"momentum":0.8,"nesterov":true}`),
			"mars":               built(t, "mars", Options{Schedule: schedule, WeightDecay: 0.1, WeightDecayMask: MaskMatrices()}, `{}`),
			"mars, no clip":      built(t, "mars", Options{Schedule: schedule, ClipGrad: &clip, AccumulationSteps: 2}, `{"max_grad_norm":null}`),
			"mars, skip":         built(t, "mars", Options{Schedule: schedule, SkipNonFinite: true}, `{"max_grad_norm":2}`),
		} {
			// Some ten roundings of 2^-24 a call, more where sums cancel.
			t.Run(name, func(t *testing.T) { followTwin(t, d, tx, oddSpecs, 5, tolerance{5e-6, 5e-6}, tolerance{5e-6, 5e-6}) })
		}
	}, small)
}

// What a configuration refuses, by name.
func TestOptimizersRefuse(t *testing.T) {
	for parameters, want := range map[[2]string]string{
		{"adafactor", `{"decay_offset":1}`}:                   "decay_offset: found 1, wanted at most 0",
		{"adafactor", `{"decay_rate":0}`}:                     "decay_rate: found 0, wanted more than 0, at most 1",
		{"adafactor", `{"decay_rate":1.5}`}:                   "decay_rate: found 1.5",
		{"adafactor", `{"eps":0}`}:                            "eps: found 0, wanted 1e-30 or more",
		{"adafactor", `{"min_dim_size_to_factor":0}`}:         "min_dim_size_to_factor: found 0",
		{"adafactor", `{"clipping_threshold":0}`}:             "clipping_threshold: found 0, wanted more than 0",
		{"adafactor", `{"momentum":1}`}:                       "momentum: found 1",
		{"adafactor", `{"dtype_momentum":"u32"}`}:             `dtype_momentum: found "u32"`,
		{"adafactor", `{"weight_decay_rate":-1}`}:             "weight_decay_rate: found -1",
		{"lion", `{"b1":1}`}:                                  "b1: found 1, wanted 0 to less than 1",
		{"lion", `{"b2":-0.1}`}:                               "b2: found -0.1",
		{"lion", `{"state_dtype":"8bits"}`}:                   `state_dtype: found "8bits", wanted f32 or 8bit, did you mean "8bit"?`,
		{"adamw", `{"state_dtype":"8bit","mu_dtype":"bf16"}`}: "mu_dtype: found bf16 beside a state_dtype of 8bit",
		{"muon", `{"state_dtype":"8bit"}`}:                    `unknown key "state_dtype"`,
		{"lion", `{"mu_dtype":"i32"}`}:                        `mu_dtype: found "i32", wanted f32 or bf16`,
		{"rmsprop", `{"decay":1.5}`}:                          "decay: found 1.5",
		{"rmsprop", `{"eps":-1}`}:                             "eps: found -1, wanted 0 or more",
		{"rmsprop", `{"initial_scale":-1}`}:                   "initial_scale: found -1",
		{"rmsprop", `{"momentum":1}`}:                         "momentum: found 1",
		{"mars", `{"beta1":1}`}:                               "beta1: found 1",
		{"mars", `{"beta2":2}`}:                               "beta2: found 2",
		{"mars", `{"gamma":-1}`}:                              "gamma: found -1",
		{"mars", `{"epsilon":-1}`}:                            "epsilon: found -1",
		{"mars", `{"max_grad_norm":-1}`}:                      "max_grad_norm: found -1, wanted 0 or more",
		{"mars", `{"mu_dtype":"u8"}`}:                         "mu_dtype",
		{"muon", `{"beta":1}`}:                                "beta: found 1",
		{"muon", `{"eps":0}`}:                                 "eps: found 0, wanted 1e-15 or more",
		{"muon", `{"ns_steps":0}`}:                            "ns_steps: found 0, wanted 1 to 100",
		{"muon", `{"consistent_rms":-1}`}:                     "consistent_rms: found -1",
		{"muon", `{"adam_b1":1}`}:                             "adam_b1: found 1",
		{"muon", `{"adam_b2":1}`}:                             "adam_b2: found 1",
		{"muon", `{"adam_eps_root":-1}`}:                      "adam_eps_root: found -1",
		{"muon", `{"adam_weight_decay":-1}`}:                  "adam_weight_decay: found -1",
		{"muon", `{"weight_decay":-1}`}:                       "weight_decay: found -1",
		{"muon", `{"mu_dtype":"i32"}`}:                        `mu_dtype: found "i32"`,
		{"muon", `{"adamw":["("]}`}:                           "adamw: pattern \"(\": error parsing",
		{"mars", `{"weight_decay":0.1}`}:                      `unknown key "weight_decay"`,
		{"lion", `{"weight_decay":0.001}`}:                    `unknown key "weight_decay"`,
	} {
		_, err := Build(parameters[0], Options{}, []byte(parameters[1]))
		assert.ErrorContains(t, err, want, parameters)
		assert.ErrorContains(t, err, "optim: "+parameters[0]+": ", parameters)
	}
}

// Bytes a parameter as counted by hand: each array read or written once.
func TestOptimizersCost(t *testing.T) {
	for parameters, want := range map[[2]string]Cost{
		{"lion", `{}`}:                      {StateBytes: 4, TrafficBytes: 20},
		{"lion", `{"mu_dtype":"bf16"}`}:     {StateBytes: 2, TrafficBytes: 16},
		{"lion", `{"state_dtype":"8bit"}`}:  {StateBytes: 1 + 4./256, TrafficBytes: 14 + 8./256},
		{"adamw", `{"state_dtype":"8bit"}`}: {StateBytes: 2 + 8./256, TrafficBytes: 16 + 16./256},
		{"mars", `{"state_dtype":"8bit"}`}:  {StateBytes: 3 + 12./256, TrafficBytes: 23 + 28./256},
		{"rmsprop", `{}`}:                   {StateBytes: 4, TrafficBytes: 20},
		{"rmsprop", `{"momentum":0.9}`}:     {StateBytes: 8, TrafficBytes: 28},
		{"mars", `{"max_grad_norm":null}`}:  {StateBytes: 12, TrafficBytes: 36},
		{"mars", `{"max_grad_norm":0}`}:     {StateBytes: 12, TrafficBytes: 36},
		{"mars", `{}`}:                      {StateBytes: 12, TrafficBytes: 44}, // the norm reads gradient and mog once more
	} {
		got := built(t, parameters[0], Options{}, parameters[1]).Cost()
		flops := got.FLOPs
		if strings.Contains(parameters[1], "8bit") {
			flops -= 70 * math.Trunc(want.StateBytes)
		}
		assert.InDelta(t, 12, flops, 12, parameters)
		got.FLOPs = 0
		assert.Equal(t, want, got, parameters)
	}
}
