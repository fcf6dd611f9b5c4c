package optim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/embeddings"
	"gputrain/internal/gputest"
)

// landSpecs are matrices of all kinds: split by rows, with rows across in ones and in fours, rows longer than a run, stacked, of several
// dimensions; and leaves that are none.
var landSpecs = []buffers.Spec{
	{Path: "across", Shape: []int{600, 64}, InOut: true},
	{Path: "across.odd", Shape: []int{130, 37}, InOut: true},
	{Path: "four", Shape: []int{2, 3, 1, 5}},
	{Path: "long", Shape: []int{2, 8448}},
	{Path: "row", Shape: []int{1, 7}},
	{Path: "scalar"},
	{Path: "stack", Shape: []int{3, 5, 7}, Scanned: true},
	{Path: "stack.vector", Shape: []int{3, 5}, Scanned: true},
	{Path: "vector", Shape: []int{130}},
	{Path: "w.split", Shape: []int{900, 37}},
}

// narrow makes several slabs, and has room for a workgroup a row.
var narrow = gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10, Workgroups: 64})

// landRig is a rig whose leaves know what a model says of them.
func landRig(t testing.TB, d *gpu.Device, tx Transform, params []buffers.Host, dtype buffers.DType) *rig {
	r := &rig{t: t, dev: d, tx: tx, programs: map[Phase]*gpu.Program{}}
	var err error
	r.params, err = buffers.Upload(d, "params", params, dtype)
	require.NoError(t, err)
	t.Cleanup(r.params.Release)
	r.grads, err = buffers.NewTree(d, "grads", r.params.Layout(), buffers.F32)
	require.NoError(t, err)
	t.Cleanup(r.grads.Release)
	r.state, err = tx.InitStage(r.params, landSpecs)
	require.NoError(t, err)
	t.Cleanup(r.state.Release)
	for _, phase := range r.state.Phases() {
		r.programs[phase] = r.record(phase)
	}
	return r
}

// allLandings has every option at once.
func allLandings() Options {
	clip := 3.0
	return Options{
		Schedule: ScheduleConfig{Type: "cosine", LearningRate: 0.05, Steps: 8, WarmupSteps: 2}, ClipGrad: &clip, WeightDecay: 0.3, SkipNonFinite: true,
		Rates: []PathRate{{Pattern: "split|stack", Multiplier: 0.5}}, Hyperball: Hyperball{Mask: MaskPatterns("split", "odd", "^stack", "four")},
		CautiousDecay: true, UpdateFloor: 1.1, // above some rows of Adam's, below others
	}
}

func TestLandingsFollowTheTwin(t *testing.T) {
	all := allLandings()
	byMatrix, plain, eformer, accumulated := all, all, all, all
	byMatrix.FloorBy = "matrix"
	plain.CautiousDecay, plain.UpdateFloor = false, 0
	eformer.Numerics, accumulated.AccumulationSteps = EFormer, 2
	floor := Options{Schedule: rate(0.03), UpdateFloor: 0.9, WeightDecay: 0.1, WeightDecayMask: MaskMatrices()}
	cautious := Options{Schedule: rate(0.03), CautiousDecay: true, WeightDecay: 0.8, WeightDecayMask: MaskMatrices()}
	split, whole := gputest.Device(t, narrow), gputest.Device(t)
	for _, c := range []struct {
		what, name, parameters string
		options                Options
		allowed                tolerance
	}{
		{"all", "adamw", ``, all, tolerance{1e-5, 1e-5}},
		{"by matrix", "adamw", ``, byMatrix, tolerance{1e-5, 1e-5}},
		{"hyperball alone", "adamw", ``, plain, tolerance{1e-5, 1e-5}},
		{"floor alone", "adamw", `{"b1":0.5}`, floor, tolerance{1e-5, 1e-5}},
		{"cautious alone", "lion", ``, cautious, tolerance{1e-5, 1e-5}},
		{"accumulated", "rmsprop", `{"momentum":0.9}`, accumulated, tolerance{1e-5, 1e-5}},
		{"eformer, bf16", "adamw", `{"mu_dtype":"bf16"}`, eformer, tolerance{0x1p-7, 0x1p-7}},
		{"8 bits", "adamw", `{"state_dtype":"8bit"}`, all, tolerance{1. / 255, 1. / 255}},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := split
			if strings.Contains(c.parameters, "8bit") { // no part of a leaf may cut a run of codes
				d = whole
			}
			tx := built(t, c.name, c.options, c.parameters)
			r := rand.New(rand.NewPCG(71, 72))
			params := randomTree(r, landSpecs, 1)
			dev := landRig(t, d, tx, params, buffers.F32)
			twin, err := NewTwin(tx, params, landSpecs...)
			require.NoError(t, err)
			for call := range 4 {
				grads := randomTree(r, landSpecs, 0.1)
				dev.call(grads)
				require.NoError(t, twin.Update(grads))
				near(t, fmt.Sprintf("call %d", call), dev.download(dev.params), twin.Params(), c.allowed.relative, c.allowed.share)
			}
			assert.Equal(t, twin.Counts(), dev.state.Counts())
			planned, err := tx.StageBytes(dev.params.Layout(), landSpecs, d.Limits())
			require.NoError(t, err)
			assert.Equal(t, planned, dev.state.Bytes())
		})
	}
}

// Sums are cut by shapes alone: neither the slabs of a device, which split leaves, nor stages change a bit.
func TestLandingsHaveTheBitsOfAnyPlace(t *testing.T) {
	options := allLandings()
	options.ClipGrad = nil // whose norm is cut by parts
	few, many := gputest.Device(t), gputest.Device(t, narrow)
	for _, options.FloorBy = range []string{"row", "matrix"} {
		tx := built(t, "adamw", options, "")
		r := rand.New(rand.NewPCG(73, 74))
		params := randomTree(r, landSpecs, 1)
		grads := [][]buffers.Host{randomTree(r, landSpecs, 0.1), randomTree(r, landSpecs, 0.1)}
		run := func(d *gpu.Device, in func(i int) bool) map[string]buffers.Host {
			some := func(all []buffers.Host) (out []buffers.Host) {
				for i, h := range all {
					if in(i) {
						out = append(out, h)
					}
				}
				return out
			}
			rig := landRig(t, d, tx, some(params), buffers.F32)
			for _, g := range grads {
				require.NoError(t, rig.grads.WriteAll(some(g)))
				_, err := rig.state.Prepare()
				require.NoError(t, err)
				require.NoError(t, rig.programs[Emit].Submit(t.Context()))
			}
			out := map[string]buffers.Host{}
			for _, h := range rig.download(rig.params) {
				out[h.Path] = h
			}
			return out
		}
		want := run(few, func(int) bool { return true })
		places := []map[string]buffers.Host{run(many, func(int) bool { return true })}
		require.NotEqual(t, params[9].Data, want["w.split"].Data)
		for path, got := range places[0] {
			sameBits(t, []buffers.Host{want[path]}, []buffers.Host{got})
		}
	}
	whole := landSpecs
	tx := built(t, "adamw", options, "")
	r := rand.New(rand.NewPCG(75, 76))
	params := randomTree(r, whole, 1)
	stages := newStages(t, many, tx, params, []int{0, 1, 1, 0, 0, 1, 0, 1, 0, 1})
	together := newRig(t, many, tx, params, buffers.F32)
	for range 2 {
		g := randomTree(r, whole, 0.1)
		together.call(g)
		callStages(t, stages, g)
	}
	sameAsWhole(t, together, stages)
}

// Every optimizer lands with all options at once, its own among them, and what stands around the update behind: as its twin, to the same bits when it is
// restored amid an accumulation, and without a trace of a gradient that is not finite.
func TestEveryOptimizerLands(t *testing.T) {
	landsLikeItsTwin := func(t *testing.T, d *gpu.Device, name string) {
		clip := 2.0
		options := Options{
			Schedule: rate(0.05), ClipGrad: &clip, WeightDecay: 0.2, CautiousDecay: true, AccumulationSteps: 2, SkipNonFinite: true, UpdateFloor: 1.1,
			Hyperball: Hyperball{Mask: MaskPatterns("^w", "tall")},
			Lookahead: &Lookahead{Scale: 0.5, Decay: 0.8, From: 2}, Average: &Averaging{From: 2, Horizon: 2, Blend: 0.6, Without: []string{"^m"}},
		}
		own := map[string]string{
			"adamw": `{"b2_1d":0.9}`, "muon": `{"normuon_b2":0.9,"adam_b2_1d":0.9}`, "quad": `{"block_size":16,"whiten":"gradient"}`, "skew": `{"block_size":16,"whiten":"gradient"}`,
		}
		tx := built(t, name, options, cmp.Or(own[name], smallOf(t, name)))
		specs := []buffers.Spec{{Path: "m", Shape: []int{9, 13}}, {Path: "tall", Shape: []int{310, 9}}, {Path: "v", Shape: []int{17}}, {Path: "w", Shape: []int{40, 33}}}
		r := rand.New(rand.NewPCG(77, 78))
		params := randomTree(r, specs, 1)
		first := newRig(t, d, tx, params, buffers.F32)
		twin, err := NewTwin(tx, params)
		require.NoError(t, err)
		for range 3 {
			g := randomTree(r, specs, 0.1)
			first.call(g)
			require.NoError(t, twin.Update(g))
		}
		row, err := Find(name)
		require.NoError(t, err)
		allowed := max(20*row.Tolerance, 1e-4) // a gradient's noise is drawn alike, and the floor lifts rows of little
		near(t, name, first.download(first.params), twin.Params(), allowed, allowed)
		second := first.again(func(to buffers.Tensor, raw []byte) error { return to.Write(raw) })
		bad := randomTree(r, specs, 0.1)
		bad[3].Data[5] = float32(math.Inf(1))
		before := first.download(first.params)
		first.call(bad)
		second.call(bad)
		sameBits(t, before, first.download(first.params))
		require.NoError(t, twin.Update(bad))
		for range 4 {
			g := randomTree(r, specs, 0.1)
			first.call(g)
			second.call(g)
			require.NoError(t, twin.Update(g))
		}
		sameBits(t, first.download(first.params), second.download(second.params))
		for _, slot := range []string{"ahead", "average"} {
			sameBits(t, first.slot(slot), second.slot(slot))
			near(t, slot, first.slot(slot), twin.State(slot), allowed, allowed)
		}
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, name := range gputest.Some(t, d, registered()) {
			t.Run(name, func(t *testing.T) { landsLikeItsTwin(t, d, name) })
		}
	}, narrow)
}

// The norm of an update is that of what becomes of the parameters.
func TestLandingsNormIsOfTheStep(t *testing.T) {
	d := gputest.Device(t, narrow)
	options := allLandings()
	options.Schedule = rate(0.05)
	tx := GuardUpdates(Guard{Losses: 1, Update: true}, built(t, "adamw", options, ""))
	r := rand.New(rand.NewPCG(81, 82))
	rig := landRig(t, d, tx, randomTree(r, landSpecs, 1), buffers.F32)
	for range 2 {
		before := rig.download(rig.params)
		rig.call(randomTree(r, landSpecs, 0.1))
		moved := 0.0
		for i, h := range rig.download(rig.params) {
			for k, v := range h.Data {
				moved += math.Pow(float64(v)-float64(before[i].Data[k]), 2)
			}
		}
		raw := make([]byte, StatisticsBytes)
		require.NoError(t, d.Read(t.Context(), raw, rig.state.UpdateStatistics()))
		found, err := ParseStatistics(raw)
		require.NoError(t, err)
		assert.InEpsilon(t, math.Sqrt(moved), found.Norm, 1e-4)
	}
}

// norms are the Frobenius norms of matrices, by path.
func normsOf(trees []buffers.Host) map[string]float64 {
	out := map[string]float64{}
	for _, h := range trees {
		sum := 0.0
		for _, v := range h.Data {
			sum += float64(v) * float64(v)
		}
		out[h.Path] = math.Sqrt(sum)
	}
	return out
}

// A sphere is kept to rounding, in bf16 too, whose parameters are rounded at random; a rate of 0 keeps every bit.
func TestSpheresAreKept(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for dtype, within := range map[buffers.DType]float64{buffers.F32: 2e-6, buffers.BF16: 0.02} {
			tx := built(t, "adamw", Options{Schedule: rate(0.01), WeightDecay: 0.5, Hyperball: Hyperball{Mask: MaskMatrices()}}, "")
			r := rand.New(rand.NewPCG(79, 80))
			rig := landRig(t, d, tx, randomTree(r, landSpecs, 1), dtype)
			before := rig.download(rig.params)
			for range 20 {
				require.NoError(t, rig.grads.WriteAll(randomTree(r, landSpecs, 1)))
				_, err := rig.state.Prepare()
				require.NoError(t, err)
				require.NoError(t, rig.programs[Emit].Submit(t.Context()))
			}
			after := rig.download(rig.params)
			want, got := normsOf(before), normsOf(after)
			for i, h := range after {
				assert.NotEqual(t, before[i].Data, h.Data, h.Path)
				if path := h.Path; path != "scalar" && path != "vector" && path != "stack.vector" {
					assert.InDelta(t, 1, got[path]/want[path], within, "%s %s", dtype, path)
				}
			}
		}
		still := landRig(t, d, built(t, "adamw", func() Options { o := allLandings(); o.Schedule = rate(0); return o }(), ""), randomTree(rand.New(rand.NewPCG(1, 2)), landSpecs, 1), buffers.F32)
		before := still.download(still.params)
		still.call(randomTree(rand.New(rand.NewPCG(3, 4)), landSpecs, 1))
		sameBits(t, before, still.download(still.params))
	}, narrow)
}

// What landings refuse, by name, and what a start refuses.
func TestLandingsRefuse(t *testing.T) {
	cautious := Options{CautiousDecay: true, WeightDecay: 0.1, Numerics: EFormer}
	for _, c := range []struct {
		name, parameters string
		options          Options
		want             string
	}{
		{"adamw", `{"weight_decay":0.1}`, cautious, "adamw: land: cautious_decay: found a decay inside of the optimizer besides"},
		{"quad", ``, cautious, "quad: land: cautious_decay: found a decay inside"},
		{"lion", ``, cautious, "lion: land: cautious_decay: found a decay inside"},
		{"adamw", ``, Options{UpdateFloor: -1}, "update_floor: found -1, wanted 0 or more"},
		{"adamw", ``, Options{FloorBy: "rows"}, `floor_by: found "rows", wanted row or matrix, did you mean "row"?`},
	} {
		_, err := Build(c.name, c.options, []byte(c.parameters))
		assert.ErrorContains(t, err, c.want)
	}
	model := []buffers.Spec{{Path: "h.0.up.lora_A.weight", Shape: []int{2, 8}}, {Path: "h.0.up.lora_B.weight", Shape: []int{8, 2}}}
	assert.NoError(t, built(t, "adamw", Options{Hyperball: Hyperball{Hidden: true}}, "").Check(model))
	assert.ErrorContains(t, built(t, "adamw", Options{Hyperball: Hyperball{Mask: MaskPatterns("up")}}, "").Check(model), `hyperball: leaf "h.0.up.lora_B.weight": found the B of an adapter`)
	assert.ErrorContains(t, built(t, "adamw", Options{Hyperball: Hyperball{Mask: MaskPatterns("down")}}, "").Check(model), `hyperball: mask: pattern "down": matches none`)

	d := gputest.Device(t, narrow)
	for spoiled, want := range map[int]string{-1: "", 0: "", 6: `"stack": found a matrix of zeros`, 9: `"w.split": found a matrix of zeros`} {
		params := randomTree(rand.New(rand.NewPCG(1, 2)), landSpecs, 1)
		if spoiled >= 0 {
			data := params[spoiled].Data
			clear(data[len(data)-35:]) // of three matrices the last
			if spoiled != 6 {
				clear(data)
			}
		}
		rig := landRig(t, d, built(t, "adamw", allLandings(), ""), params, buffers.F32)
		err := rig.state.CheckStart(t.Context(), rig.params)
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// What the word true chooses, and the forms of a choice.
func TestHyperballChooses(t *testing.T) {
	embeddings.Register("wte.weight")
	for text, want := range map[string][]int{
		"true": {0}, "false": {}, "null": {}, `["wte"]`: {1}, `"matrices"`: {0, 1},
		`{"h.0.w":true,"wte.weight":false,"h.0.b":true,"h.0.w.lora_B.weight":false}`: {0},
	} {
		var h Hyperball
		require.NoError(t, json.Unmarshal([]byte(text), &h), text)
		written, err := json.Marshal(h)
		require.NoError(t, err)
		var again Hyperball
		require.NoError(t, json.Unmarshal(written, &again), text)
		leaves := unplaced([]buffers.Spec{{Path: "h.0.w", Shape: []int{2, 3}}, {Path: "wte.weight", Shape: []int{2, 3}}, {Path: "h.0.b", Shape: []int{3}}, {Path: "h.0.w.lora_B.weight", Shape: []int{3, 2}}})
		if text == `"matrices"` {
			leaves = leaves[:3]
		}
		for _, h := range []Hyperball{h, again} {
			rows, _, err := (&rowRule{sphere: h.mask()}).of(leaves, []string{"h.0.w", "wte.weight", "h.0.b", "h.0.w.lora_B.weight"})
			require.NoError(t, err)
			found := []int{}
			for i, g := range rows {
				if g.count > 0 {
					found = append(found, i)
				}
			}
			assert.Equal(t, want, found, text)
		}
	}
	assert.ErrorContains(t, json.Unmarshal([]byte("3"), new(Hyperball)), "hyperball: found 3, wanted true, false")
}
