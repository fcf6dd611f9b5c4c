package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/dynamic8"
	"gputrain/internal/gputest"
	"gputrain/internal/nf4"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// matching are the paths of a model's parameters that begin with one of the prefixes.
func matching(def model.Definition, prefixes ...string) (paths []string) {
	for _, p := range def.Params() {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p.Path, prefix) }) {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// withoutRate is the configuration in which the frozen parameters are trained at a rate of 0.
func withoutRate(c Config) Config {
	for _, path := range c.Frozen {
		c.Optimizer.Options.Rates = append(c.Optimizer.Options.Rates, optim.PathRate{Pattern: "^" + path + "$", Multiplier: 0})
	}
	c.Frozen = nil
	return c
}

// frozenOf are the trees of parameters that are not trained.
func frozenOf(s *TrainState) []*buffers.Tree {
	_, frozen, _ := trees(s.stages)
	return frozen
}

// read gives leaves of trees as they are.
func read(t *testing.T, trees ...*buffers.Tree) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	for _, tree := range trees {
		hosts, err := tree.Download(t.Context())
		require.NoError(t, err)
		for _, h := range hosts {
			require.NotContains(t, out, h.Path)
			out[h.Path] = h.Data
		}
	}
	return out
}

// What is trained beside frozen parameters gets the gradients and the bits that it gets beside parameters of a rate of 0, wherever in the model the
// frozen ones are; and what is not needed for that is not computed.
func TestFrozenParametersLeaveTheOthersTheirBits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for name, prefixes := range gputest.Some(t, dev, [][]string{
			{"wte", "wpe", "h.0."}, {"wte"}, {"h.1.", "ln_f"}, {"h.0.attn", "h.1.mlp.c_fc.weight"}, {"wte", "wpe", "h.0.", "h.1.", "ln_f.weight"},
		}) {
			c := tinyConfig(t)
			c.Definition = tinyModel(t, 0.1)
			c.Optimizer.Options.ClipGrad = nil
			c.Microbatches = 1 + name%2
			c.Frozen = matching(c.Definition, prefixes...)
			frozen, whole := create(t, dev, c), create(t, dev, withoutRate(c))
			begin := read(t, frozenOf(frozen)...)
			require.Len(t, begin, len(c.Frozen))
			got, want := train(t, frozen, 4), train(t, whole, 4)
			for i := range want {
				assert.Equal(t, want[i].Loss, got[i].Loss, prefixes)
				assert.Less(t, got[i].GradNorm, want[i].GradNorm, "frozen parameters have no share in it")
			}
			params, grads := frozen.Trees()
			allParams, allGrads := whole.Trees()
			wantParams, wantGrads := read(t, allParams...), read(t, allGrads...)
			for path, data := range read(t, params...) {
				assert.Equal(t, wantParams[path], data, path)
				assert.NotContains(t, c.Frozen, path)
			}
			for path, data := range read(t, grads...) {
				assert.Equal(t, wantGrads[path], data, path)
			}
			assert.Equal(t, begin, read(t, frozenOf(frozen)...))
			assert.Less(t, frozen.passes.(*onDevice).compute.Dispatches(), whole.passes.(*onDevice).compute.Dispatches())
			frozen.Release()
			whole.Release()
		}
	})
}

// The backward pass goes no further back than to the first parameter that is trained.
func TestBackwardPassEndsAtTheFirstTrainedParameter(t *testing.T) {
	c := tinyConfig(t)
	products := func(prefixes ...string) int64 {
		c.Frozen = matching(c.Definition, prefixes...)
		counted, err := jobOf(t, c).FLOPs()
		require.NoError(t, err)
		return counted["matmul"]
	}
	built, err := c.Definition.Build(c.Batch, testT, model.Options{Loss: true})
	require.NoError(t, err)
	forward := built.Graph.FLOPsByKind(built.LossSum)["matmul"]
	assert.Equal(t, 3*forward, products(), "a product backwards for each operand")
	assert.Equal(t, 2*forward, products("wte", "wpe", "h.0.", "ln_f"), "twice those of one layer of two")
	assert.Equal(t, forward, products("wte", "wpe", "h."), "nothing of a layer is differentiated")
}

// roomOf is what a tree of leaves takes in f32: each leaf is padded to whole blocks.
func roomOf(specs []buffers.Spec) (bytes uint64) {
	for _, s := range specs {
		n := (buffers.Leaf{Shape: s.Shape}).Elements()
		bytes += 4 * uint64((n+buffers.BlockElements-1)/buffers.BlockElements*buffers.BlockElements)
	}
	return bytes
}

// Gradients, moments and params are what the trained leaves take, to the byte; what is planned is what is taken; and nothing is made after the first
// steps.
func TestPlanOfFrozenParameters(t *testing.T) {
	c := plannedConfig(t)
	for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
		part := c
		part.FrozenDType = dtype
		part.Frozen = matching(c.Definition, "wte", "wpe", "h.0.", "h.1.")
		t.Run(dtype.String(), func(t *testing.T) { testPlanOfFrozenParameters(t, c, part) })
	}
	adapters := c
	var err error
	adapters.Definition, err = model.WithLoRA(c.Definition, model.LoRA{Rank: 3, DoRA: true})
	require.NoError(t, err)
	t.Run("adapters", func(t *testing.T) { testPlanOfFrozenParameters(t, c, adapters) })
}

func testPlanOfFrozenParameters(t *testing.T, whole, c Config) {
	dev, dtype := gputest.Device(t), c.FrozenDType
	all, err := Plan(t.Context(), jobOf(t, whole), dev.Limits())
	require.NoError(t, err)
	plan, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
	require.NoError(t, err)
	trained, frozen := jobOf(t, c).Divide()
	assert.Equal(t, roomOf(trained), plan.Params)
	assert.Equal(t, roomOf(trained), plan.Gradients)
	assert.Equal(t, roomOf(frozen)*uint64(dtype.Bits())/32, plan.Frozen)
	if model.AdapterParams(c.Definition) == nil {
		assert.Equal(t, all.Params, plan.Params+roomOf(frozen))
	} else {
		assert.Equal(t, all.Params, roomOf(frozen))
		assert.Less(t, 8*plan.Params, all.Params)
	}
	if dtype == buffers.F32 {
		assert.Less(t, plan.Step, all.Step)
	}
	assert.Contains(t, plan.String(), ", frozen ")
	assert.NotContains(t, all.String(), "frozen")
	before := dev.Counters().LiveBytes
	s := create(t, dev, c)
	var moments uint64
	for _, tree := range s.Optimizers()[0].Trees() {
		moments += tree.Tree.Bytes()
	}
	assert.Equal(t, 2*roomOf(trained), moments, "mu and nu")
	assert.Equal(t, plan.Optimizer, s.Optimizers()[0].Bytes())
	_, err = frozenOf(s)[0].Read(t.Context(), "wte.weight") // the transfer buffer
	require.NoError(t, err)
	assert.InEpsilon(t, dev.Counters().LiveBytes-before, plan.Total(), 0.05)
	assert.Equal(t, plan, s.Memory()[0])

	long := func() {
		_, err := s.TrainStep(t.Context(), s.job.Rehearsal())
		require.NoError(t, err)
		<-s.awaited
	}
	long()
	long()
	made := dev.Counters()
	for range 3 {
		long()
	}
	after := dev.Counters()
	assert.Equal(t, []any{made.Pipelines, made.BindGroups, made.Buffers, made.LiveBytes}, []any{after.Pipelines, after.BindGroups, after.Buffers, after.LiveBytes})
}

// standFor is what a packed tree has of a matrix of a layer, and one in bf16 of everything.
func standFor(kept buffers.DType, h buffers.Host) []float32 {
	out := slices.Clone(h.Data)
	if kept.Packed() && (buffers.Spec{Path: h.Path, Shape: h.Shape}).MatrixOfLayer() {
		codes, maxima := make([]byte, (len(out)+1)/2), make([]float32, nf4.Blocks(len(out)))
		nf4.Quantize(codes, maxima, h.Data)
		if kept == buffers.NF4Nested {
			nested := dynamic8.Nest(maxima)
			for i := range maxima {
				maxima[i] = nested.Maximum(i)
			}
		}
		for i := range out {
			out[i] = nf4.Number(nf4.Code(codes, i), maxima[i/nf4.Block])
		}
		return out
	}
	for i, v := range out {
		out[i] = array.DecodeBF16(array.EncodeBF16(v))
	}
	return out
}

// Frozen parameters in bf16, nf4 and nf4-nested are read as those that f32 has of them when they are rounded, by training, evaluation and samples, quantized or not,
// in half of the memory or less: planned as it is taken.
func TestFrozenParametersInFewerBits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for i, prefixes := range [][]string{{"wte", "wpe", "h.0."}, {"h.", "ln_f.weight"}, {"wte", "h."}, {"wte", "h."}} {
			if testing.Short() && i%2 == 0 {
				continue
			}
			kept := []buffers.DType{buffers.BF16, buffers.BF16, buffers.NF4, buffers.NF4Nested}[i]
			c := plannedConfig(t)
			if i == 1 {
				var err error
				c.Definition, err = model.WithQuantization(c.Definition, model.Quantization{Mode: "nf4", Match: []string{"attn.*weight"}})
				require.NoError(t, err)
			}
			c.Frozen, c.Microbatches = matching(c.Definition, prefixes...), 1+i%3
			params := model.Init(c.Definition, 3)
			for _, h := range params {
				for k := range h.Data { // also of what is drawn as ones and zeros
					h.Data[k] += 1e-3
				}
			}
			rounded := slices.Clone(params)
			for i, h := range rounded {
				if slices.Contains(c.Frozen, h.Path) {
					rounded[i].Data = standFor(kept, h)
				}
			}
			full, err := CreateFrom(t.Context(), dev, jobOf(t, c), rounded)
			require.NoError(t, err)
			t.Cleanup(full.Release)
			fullPlan := full.Memory()[0]
			c.FrozenDType = kept
			half, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
			require.NoError(t, err)
			t.Cleanup(half.Release)
			if planned := half.Memory()[0].Frozen; kept == buffers.BF16 {
				assert.Equal(t, fullPlan.Frozen, 2*planned)
			} else {
				assert.Less(t, 2*planned, fullPlan.Frozen)
				assert.Equal(t, frozenOf(half)[0].Bytes(), planned)
			}
			assert.Equal(t, fullPlan.Gradients, half.Memory()[0].Gradients)
			for range 3 {
				for _, s := range []*TrainState{full, half} {
					b := s.job.Rehearsal()
					b.Tokens, b.Labels, b.Rows = slices.Repeat(b.Tokens, c.Microbatches), slices.Repeat(b.Labels, c.Microbatches), b.Rows*c.Microbatches
					_, err := s.TrainStep(t.Context(), b)
					require.NoError(t, err)
				}
			}
			want, err := full.Drain(t.Context())
			require.NoError(t, err)
			got, err := half.Drain(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, got)
			wantParams, wantGrads := full.Trees()
			gotParams, gotGrads := half.Trees()
			assert.Equal(t, read(t, wantParams...), read(t, gotParams...))
			assert.Equal(t, read(t, wantGrads...), read(t, gotGrads...))
			assert.Equal(t, read(t, frozenOf(full)...), read(t, frozenOf(half)...))
			one, err := full.Logits(t.Context(), []int32{1, 2, 3})
			require.NoError(t, err)
			other, err := half.Logits(t.Context(), []int32{1, 2, 3})
			require.NoError(t, err)
			assert.Equal(t, one, other)
			whole, narrow := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "narrow")
			require.NoError(t, full.Save(t.Context(), whole, checkpoint.Run{}))
			if err := half.Save(t.Context(), narrow, checkpoint.Run{}); kept == buffers.NF4Nested {
				require.ErrorContains(t, err, "found it in nf4-nested and no base")
			} else {
				require.NoError(t, err)
				assert.Equal(t, contents(t, whole), contents(t, narrow))
			}
			full.Release()
			half.Release()
		}
	})
}

// A run with frozen parameters goes on from its checkpoints with every bit, the factors of its optimizer, their bounds and the cadence of their refreshes
// too, and not from those of a run that trains others.
func TestFrozenParametersAreResumed(t *testing.T) {
	for _, name := range []string{"adamw", "quad"} {
		t.Run(name, func(t *testing.T) {
			dev, dir := gputest.Device(t), t.TempDir()
			c := tinyConfig(t)
			c.Optimizer.Name = name
			if name == "quad" {
				c.Optimizer.Parameters = []byte(`{"block_size":12,"max_size_dense":40,"refresh":{"every":1,"anneal":true,"min_probability":0.2,"decay":0.3,"flat_start":1}}`)
			}
			c.Frozen = matching(c.Definition, "h.0.", "wpe")
			whole := create(t, dev, c)
			train(t, whole, 3)
			early, late, again := filepath.Join(dir, "early"), filepath.Join(dir, "late"), filepath.Join(dir, "again")
			require.NoError(t, whole.Save(t.Context(), early, checkpoint.Run{}))
			want := train(t, whole, 6)
			require.NoError(t, whole.Save(t.Context(), late, checkpoint.Run{}))

			own := c
			own.Frozen, own.Optimizer, own.Definition = nil, optim.Config{}, nil // the checkpoint's own
			for _, c := range []Config{c, own} {
				s, record, err := Load(t.Context(), dev, c, early)
				require.NoError(t, err)
				assert.Equal(t, whole.job.Frozen, record.Frozen)
				assert.Equal(t, want, train(t, s, 6))
				require.NoError(t, s.Save(t.Context(), again, checkpoint.Run{}))
				assert.Equal(t, contents(t, late), contents(t, again))
				s.Release()
			}
			v, _, err := LoadValue(t.Context(), dev, early, LoadOptions{})
			require.NoError(t, err)
			s, err := Train(t.Context(), v, c)
			require.NoError(t, err)
			assert.Equal(t, want, train(t, s, 6))
			s.Release()

			for text, frozen := range map[string][]string{
				`parameter "h.0.attn.c_attn.bias": found it frozen, wanted it trained`: {},
				`parameter "ln_f.bias": found it trained, wanted it frozen`:            append(slices.Clone(c.Frozen), "ln_f.bias"),
			} {
				other := c
				other.Frozen = frozen
				_, _, err := Load(t.Context(), dev, other, early)
				assert.ErrorIs(t, err, checkpoint.ErrMismatch)
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

// A value keeps its parameters divided, wherever it goes, and is divided anew where another training wants that.
func TestValueWithFrozenParameters(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		c := tinyConfig(t)
		c.Frozen = matching(c.Definition, "h.0.")
		s := create(t, dev, c)
		straight := create(t, dev, c)
		want := train(t, straight, 6)
		require.Equal(t, want[:3], train(t, s, 3))
		logits, err := s.Logits(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		v, err := s.Value(t.Context())
		require.NoError(t, err)
		clone, err := v.Clone(t.Context())
		require.NoError(t, err)
		assert.Equal(t, c.Frozen, fieldsOf(t, clone).frozen())
		m, err := clone.Model()
		require.NoError(t, err)
		same, err := m.Logits(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		assert.Equal(t, logits, same)
		assert.Contains(t, clone.String(), " of them frozen at step 3")
		s, err = Train(t.Context(), v, Config{Batch: c.Batch, Seed: c.Seed, Optimizer: c.Optimizer})
		require.NoError(t, err)
		assert.Equal(t, want[3:], train(t, s, 6))
		s.Release()

		before := read(t, fieldsOf(t, clone).Params, fieldsOf(t, clone).Frozen)
		_, err = Train(t.Context(), clone, Config{Batch: c.Batch, Frozen: []string{}})
		require.ErrorContains(t, err, "optimizer state", "it remembers other leaves")
		all, err := clone.With(func(f *Fields) { f.OptimizerState, f.Optimizer, f.Transform = nil, optim.Config{}, optim.Transform{} })
		require.NoError(t, err)
		s, err = Train(t.Context(), all, Config{Batch: c.Batch, Optimizer: c.Optimizer, Frozen: []string{}})
		require.NoError(t, err)
		assert.Empty(t, frozenOf(s))
		params, _ := s.Trees()
		assert.Equal(t, before, read(t, params...))
		s.Release()
	})
}

// Frozen parameters in fewer bits have them wherever a value goes, and are rounded from those in f32 as those of a directory are.
func TestValueWithFrozenParametersInFewerBits(t *testing.T) {
	dev := gputest.Device(t)
	for _, kept := range []buffers.DType{buffers.BF16, buffers.NF4, buffers.NF4Nested} {
		c := tinyConfig(t)
		c.Frozen = matching(c.Definition, "wte", "h.")
		whole := create(t, dev, c)
		v, err := whole.Value(t.Context())
		require.NoError(t, err)
		c.FrozenDType = kept
		straight := create(t, dev, c)
		want := read(t, frozenOf(straight)...)
		bytes := frozenOf(straight)[0].Bytes()
		straight.Release()
		narrow := func(v Value) {
			frozen := fieldsOf(t, v).Frozen
			assert.Equal(t, want, read(t, frozen), kept)
			assert.Equal(t, bytes, frozen.Bytes(), kept)
		}
		s, err := Train(t.Context(), v, c)
		require.NoError(t, err)
		v, err = s.Value(t.Context())
		require.NoError(t, err)
		narrow(v)
		clone, err := v.Clone(t.Context())
		require.NoError(t, err)
		narrow(clone)
		v.Release()
		two := Placement{Devices: []*gpu.Device{dev, dev}, Stage: map[string]int{}}
		for _, p := range c.Definition.Params() {
			if strings.HasPrefix(p.Path, "h.1.") || strings.HasPrefix(p.Path, "ln_f") {
				two.Stage[p.Path] = 1
			} else {
				two.Stage[p.Path] = 0
			}
		}
		apart, err := clone.Place(t.Context(), two)
		require.NoError(t, err)
		again, err := apart.Place(t.Context(), Placement{Devices: []*gpu.Device{dev}})
		require.NoError(t, err)
		narrow(again)
		again.Release()
	}
}

func TestWrongFrozenParameters(t *testing.T) {
	c := tinyConfig(t)
	for text, frozen := range map[string][]string{
		`frozen: "wte.weigth": found no such parameter, did you mean "wte.weight"?`: {"wte.weigth"},
		`frozen: "wte.weight": given twice`:                                         {"wte.weight", "wte.weight"},
		`frozen: found all 28 parameters, wanted one or more left to train`:         matching(c.Definition, ""),
	} {
		c.Frozen = frozen
		assert.ErrorContains(t, c.Validate(), text)
	}
	dev := gputest.Device(t)
	hosts := model.Init(c.Definition, 1)
	c.Frozen = []string{"wte.weight"}
	own, frozen, err := jobOf(t, c).upload(dev, hosts)
	require.NoError(t, err)
	var wrong *FieldsError
	for field, f := range map[string]Fields{
		"Params": {Definition: c.Definition, Params: own},
		"Frozen": {Params: own, Frozen: frozen},
	} {
		_, err := New(f)
		require.True(t, errors.As(err, &wrong), field)
		assert.Equal(t, field, wrong.Field)
	}
	own.Release()
	frozen.Release()
	_, err = CreateFrom(context.Background(), dev, jobOf(t, c), hosts[1:])
	assert.Error(t, err)
}

// A checkpoint that names a base goes on naming it, whatever the configuration has besides, unless that has moved; a base of other weights is refused.
func TestBaseOfACheckpoint(t *testing.T) {
	dev := gputest.Device(t)
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	c := tinyConfig(t)
	c.Frozen = matching(c.Definition, "wte", "h.0.")
	whole := func(dir string, seed uint64) []buffers.Host {
		hosts := model.Init(c.Definition, seed)
		require.NoError(t, model.Export(dir, c.Definition, func(path string) ([]float32, error) {
			return hosts[slices.IndexFunc(hosts, func(h buffers.Host) bool { return h.Path == path })].Data, nil
		}, model.ExportOptions{}))
		return hosts
	}
	params := whole(at("base"), 1)
	whole(at("other"), 2)
	saved := func(c Config, params []buffers.Host, name string) *model.Base {
		s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
		require.NoError(t, err)
		defer s.Release()
		require.NoError(t, s.Save(t.Context(), at(name), checkpoint.Run{}))
		base, err := hub.ReadBase(at(name))
		require.NoError(t, err)
		return base
	}
	again := func(c Config, from, to string) (*model.Base, error) {
		s, _, err := Load(t.Context(), dev, c, at(from))
		if err != nil {
			return nil, err
		}
		defer s.Release()
		require.NoError(t, s.Save(t.Context(), at(to), checkpoint.Run{}))
		return hub.ReadBase(at(to))
	}
	require.Nil(t, saved(c, params, "full"))
	c.Base = at("base")
	first := saved(c, params, "part")
	require.Equal(t, at("base"), first.Directory)

	other := c
	other.Base = at("other") // as a run directory has other weights later
	base, err := again(other, "part", "later")
	require.NoError(t, err)
	assert.Equal(t, first, base)
	_, err = again(other, "full", "none")
	require.ErrorContains(t, err, at("other")+`": found frozen parameters of fingerprint sha256:`)
	require.ErrorContains(t, err, "wanted "+first.Fingerprint)
	base, err = again(c, "full", "left out")
	require.NoError(t, err)
	assert.Equal(t, first, base)

	require.NoError(t, os.Rename(at("base"), at("moved")))
	c.Base = at("moved")
	_, err = again(c, "part", "none")
	require.ErrorContains(t, err, at("base"))
	c.BaseAt = at("moved")
	base, err = again(c, "part", "followed")
	require.NoError(t, err)
	assert.Equal(t, &model.Base{Directory: at("moved"), Fingerprint: first.Fingerprint, DType: "f32"}, base)
	c.BaseAt = at("other")
	_, err = again(c, "part", "none")
	require.ErrorContains(t, err, "wanted "+first.Fingerprint)
}
