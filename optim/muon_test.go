package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/embeddings"
	"gputrain/internal/gputest"
)

// muonSpecs are matrices that share a stack, lying and standing, with zeros around and without; with parts in several slabs; more than a
// stack takes; too large for a binding in one direction and in both.
var muonSpecs = []buffers.Spec{
	{Path: "a.lying", Shape: []int{9, 33}},
	{Path: "a.one", Shape: []int{1, 50}},
	{Path: "a.padded", Shape: []int{11, 34}},
	{Path: "a.square", Shape: []int{12, 12}},
	{Path: "a.standing", Shape: []int{36, 12}},
	{Path: "a.slanted", Shape: []int{6, 5}},
	{Path: "bias", Shape: []int{40}},
	{Path: "c.1", Shape: []int{64, 100}},
	{Path: "c.2", Shape: []int{100, 64}},
	{Path: "c.3", Shape: []int{63, 99}},
	{Path: "c.4", Shape: []int{64, 97}},
	{Path: "empty", Shape: []int{0, 8}},
	{Path: "h.0.wte.weight", Shape: []int{20, 30}},
	{Path: "long", Shape: []int{600, 40}},
	{Path: "short", Shape: []int{30, 900}},
	{Path: "three", Shape: []int{2, 5, 6}},
	{Path: "wide", Shape: []int{150, 260}},
}

func TestMuonFollowsTheTwin(t *testing.T) {
	schedule := ScheduleConfig{Type: "cosine", LearningRate: 0.02, Steps: 8, WarmupSteps: 2}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for name, tx := range map[string]Transform{
			"defaults": built(t, "muon", Options{Schedule: schedule, SkipNonFinite: true}, `{}`),
			"adaptive": built(t, "muon", Options{Schedule: schedule, AccumulationSteps: 2},
				`{"adaptive":true,"nesterov":false,"ns_steps":4,"weight_decay":0.1,"weight_decay_mask":["^c"],"adamw":["lying"]}`),
			"even":       built(t, "muon", Options{Schedule: schedule, SkipNonFinite: true}, `{"normuon_b2":0.95,"adaptive":true,"ns_steps":2,"consistent_rms":0.2}`),
			"consistent": built(t, "muon", Options{Schedule: schedule, Numerics: EFormer}, `{"consistent_rms":0.2,"ns_steps":1}`),
		} {
			// Five steps magnify what is lost in the norm by 3.4445^5 = 485 at most, of some 2^-24 a product of 260 terms.
			t.Run(name, func(t *testing.T) { followTwin(t, d, tx, muonSpecs, 4, tolerance{2e-4, 2e-4}, tolerance{2e-4, 2e-4}) })
		}
	}, small)
}

// The steps act on each singular value by itself, and the singular values of a diagonal matrix stand on its diagonal.
func TestMuonByHand(t *testing.T) {
	o := muonOptions{Coefficients: [3]float64{3.4445, -4.775, 2.0315}, Steps: 5, Beta: 0.9, Eps: 1e-8}
	step := func(s float64) float64 {
		s /= math.Sqrt(14)
		for range 5 {
			s = 3.4445*s - 4.775*math.Pow(s, 3) + 2.0315*math.Pow(s, 5)
		}
		return s
	}
	run := func(o muonOptions, rows, cols int, grads ...[]float32) []float32 {
		h := buffers.Host{Path: "m", Shape: []int{rows, cols}, Data: make([]float32, rows*cols)}
		twin, err := NewTwin(scaleByMuon(o), []buffers.Host{h})
		require.NoError(t, err)
		for _, g := range grads {
			require.NoError(t, twin.Update([]buffers.Host{{Path: "m", Data: g}}))
		}
		return twin.Params()[0].Data
	}
	diagonal := []float32{3, 0, 0, 0, -2, 0, 0, 0, 1}
	want := []float64{step(3), 0, 0, 0, -step(2), 0, 0, 0, step(1)}
	assert.InDeltaSlice(t, want, run(o, 3, 3, diagonal), 1e-6)
	for _, s := range []float64{step(3), step(2), step(1)} {
		assert.InDelta(t, 0.908, s, 0.227, "singular values end between 0.68183 and 1.13436")
	}
	o.Nesterov = true
	assert.InDeltaSlice(t, want, run(o, 3, 3, diagonal), 1e-6, "of one gradient, the same direction")
	o.ConsistentRMS = 0.2
	assert.InDelta(t, 0.2*math.Sqrt(3)*step(3), run(o, 3, 3, diagonal)[0], 1e-6)
	o.ConsistentRMS, o.Adaptive = 0, true
	assert.InDelta(t, step(3)*(3*step(3)+2*step(2)+step(1))*factorOfFirst(0.9), run(o, 3, 3, diagonal)[0], 1e-5)
	o.Adaptive = false
	assert.Equal(t, make([]float32, 9), run(o, 3, 3, make([]float32, 9)), "of zero, zero")
	// A row is its direction, times sqrt(cols) for one input; a column is not scaled.
	lone := math.Sqrt(14) * step(math.Sqrt(14)) / math.Sqrt(14)
	assert.InDelta(t, lone/math.Sqrt(14)*math.Sqrt(3), run(o, 1, 3, []float32{1, 2, 3})[0], 1e-6)
	assert.InDelta(t, lone/math.Sqrt(14), run(o, 3, 1, []float32{1, 2, 3})[0], 1e-6)
	// Where rows are outputs it is the column that is scaled, whoever says so: the tree or the model.
	for _, says := range []string{"tree", "model"} {
		for shape, factor := range map[[2]int]float64{{1, 3}: 1, {3, 1}: math.Sqrt(3)} {
			h := buffers.Host{Path: "m", Shape: shape[:], OutIn: says == "tree", Data: make([]float32, 3)}
			twin, err := NewTwin(scaleByMuon(o), []buffers.Host{h}, buffers.Spec{Path: "m", Shape: shape[:], OutIn: says == "model"})
			require.NoError(t, err)
			require.NoError(t, twin.Update([]buffers.Host{{Path: "m", Data: []float32{1, 2, 3}}}))
			assert.InDelta(t, lone/math.Sqrt(14)*factor, twin.Params()[0].Data[0], 1e-6, "%v, as the %s says", shape, says)
		}
	}
	// Without Nesterov the second momentum is 0.1·0.9 g1 + 0.1 g2: its direction is g2 + 0.9 g1; with it 0.9 of that,
	// over 1 - 0.9³, and g2 over 1 - 0.9².
	second := func(nesterov bool) float64 {
		o.Nesterov = nesterov
		after := run(o, 1, 2, []float32{1, 0}, []float32{0, 1})
		first := run(o, 1, 2, []float32{1, 0})
		return float64(after[1]) / float64(after[0]-first[0])
	}
	assert.InDelta(t, 1/0.9, second(false), 1e-5)
	ahead := 0.9 * 0.1 / (1 - 0.9*0.9*0.9)
	assert.InDelta(t, (ahead+0.1/(1-0.81))/(ahead*0.9), second(true), 1e-5)
}

// factorOfFirst is what the first momentum of Nesterov's form is of its gradient: the two bias corrections are of different updates.
func factorOfFirst(beta float64) float64 { return beta*(1-beta)/(1-beta*beta) + 1 }

// The names that package model would register.
func init() {
	embeddings.Register("wte.weight", "wpe.weight", "model.embed_tokens.weight", "lm_head.weight")
}

// What goes where: leaves of two dimensions to Muon, but embeddings and head in stable numerics, or what the patterns say.
func TestMuonRoutes(t *testing.T) {
	var params []buffers.Host
	for path, shape := range map[string][]int{
		"wte.weight": {6, 4}, "wpe.weight": {6, 4}, "lm_head.weight": {6, 4}, "model.embed_tokens.weight": {6, 4}, "h.0.attn.weight": {4, 4},
		"h.0.bias": {4}, "conv": {2, 2, 2}, "mywte.weight": {4, 4},
	} {
		params = append(params, buffers.Host{Path: path, Shape: shape, Data: make([]float32, buffers.Leaf{Shape: shape}.Elements())})
	}
	routed := func(n Numerics, parameters string) (muon, adam []string) {
		twin, err := NewTwin(built(t, "muon", Options{Numerics: n}, parameters), params)
		require.NoError(t, err)
		for _, h := range twin.State("mu") {
			muon = append(muon, h.Path)
		}
		for _, h := range twin.State("adam_mu") {
			adam = append(adam, h.Path)
		}
		assert.Len(t, twin.State("adam_nu"), len(adam))
		return muon, adam
	}
	muon, adam := routed(Stable, `{}`)
	assert.Equal(t, []string{"h.0.attn.weight", "mywte.weight"}, muon)
	assert.Equal(t, []string{"conv", "h.0.bias", "lm_head.weight", "model.embed_tokens.weight", "wpe.weight", "wte.weight"}, adam)
	muon, adam = routed(EFormer, `{}`)
	assert.Len(t, muon, 6)
	assert.Equal(t, []string{"conv", "h.0.bias"}, adam)
	muon, _ = routed(Stable, `{"adamw":[]}`)
	assert.Len(t, muon, 6)
	for _, n := range []Numerics{Stable, EFormer} {
		_, adam = routed(n, `{"adamw":["attn"]}`)
		assert.Equal(t, []string{"conv", "h.0.attn.weight", "h.0.bias"}, adam)
	}
	for want, parameters := range map[string]string{
		`adamw: pattern "atn": matches none of the 8 paths`: `{"adamw":["atn"]}`,
		`mask: pattern "x": matches none`:                   `{"weight_decay":0.1,"weight_decay_mask":["x"]}`,
	} {
		_, err := NewTwin(built(t, "muon", Options{}, parameters), params)
		assert.ErrorContains(t, err, want)
	}
	_, err := NewTwin(scaleByMuon(muonOptions{Steps: 1, Eps: 1e-8}), params)
	assert.ErrorContains(t, err, `leaf "conv": shape [2 2 2], wanted two dimensions`)
}

// AdamW's decay inside is honoured in stable numerics; eformer's drop it, so there it is refused.
func TestMuonDecays(t *testing.T) {
	params := []buffers.Host{{Path: "m", Shape: []int{2, 2}, Data: []float32{8, 8, 8, 8}}, {Path: "n", Shape: []int{1, 1}, Data: []float32{8}}, vector("v", 8)}
	run := func(n Numerics, o Options, parameters string) []float32 {
		o.Schedule, o.Numerics = rate(0.5), n
		twin, err := NewTwin(built(t, "muon", o, parameters), params)
		require.NoError(t, err)
		require.NoError(t, twin.Update([]buffers.Host{{Path: "m", Data: make([]float32, 4)}, {Path: "n", Data: make([]float32, 1)}, vector("v", 0)}))
		p := twin.Params()
		return []float32{p[0].Data[0], p[1].Data[0], p[2].Data[0]}
	}
	only := Options{WeightDecayMask: MaskPatterns("m")}
	for _, n := range []Numerics{Stable, EFormer} {
		assert.Equal(t, []float32{8, 8, 8}, run(n, Options{}, `{}`))
		assert.Equal(t, []float32{6, 6, 8}, run(n, Options{}, `{"weight_decay":0.5}`), "matrices alone")
		assert.Equal(t, []float32{8, 6, 8}, run(n, only, `{"weight_decay":0.5,"weight_decay_mask":{"m":false,"n":true,"v":true}}`))
		assert.Equal(t, []float32{6, 6, 6}, run(n, Options{WeightDecay: 0.5}, `{}`))
	}
	assert.Equal(t, []float32{6, 8, 8}, run(Stable, only, `{"weight_decay":0.5}`))
	assert.Equal(t, []float32{6, 6, 8}, run(EFormer, only, `{"weight_decay":0.5}`), "its builder knows no other mask")
	assert.Equal(t, []float32{8, 8, 6}, run(Stable, Options{}, `{"adam_weight_decay":0.5}`))
	_, err := Build("muon", Options{Numerics: EFormer}, []byte(`{"adam_weight_decay":0.5}`))
	assert.ErrorContains(t, err, "adam_weight_decay: found 0.5, wanted 0")
	_, err = Build("muon", Options{WeightDecay: 0.1}, []byte(`{"adam_weight_decay":0.5}`))
	assert.ErrorContains(t, err, "wanted one")
}

// The transposed gradient gives the transposed update, where the shape's factor is the same for both.
func TestMuonTransposes(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := scaleByMuon(muonOptions{Coefficients: [3]float64{3.4445, -4.775, 2.0315}, Steps: 5, Beta: 0.95, Eps: 1e-8, Nesterov: true, ConsistentRMS: 1})
		// The same bits except for the norm, whose terms are in another order; it goes in with a power of 485.
		transposes(t, d, tx, [2]int{23, 41}, 2, 1e-4)
	}, small)
}

// Of a gradient of zeros comes zero, and one as small as eps is not brought to the norm of 1; others in the stack do not mind.
func TestMuonOfSmallGradients(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := built(t, "muon", Options{Schedule: rate(0.1)}, `{"ns_steps":1,"eps":1e-4}`)
		var params, grads []buffers.Host
		for i, size := range []float32{0, 3e-5, 1} {
			h := buffers.Host{Path: string(rune('a' + i)), Shape: []int{3, 4}, Data: make([]float32, 12)}
			params = append(params, h)
			h.Data = make([]float32, 12)
			for k := range h.Data {
				h.Data[k] = size * float32(k%5-2)
			}
			grads = append(grads, h)
		}
		dev := newRig(t, d, tx, params, buffers.F32)
		twin, err := NewTwin(tx, params)
		require.NoError(t, err)
		dev.call(grads)
		require.NoError(t, twin.Update(grads))
		got := dev.download(dev.params)
		near(t, "params", got, twin.Params(), 1e-5, 1e-5)
		sameBits(t, params[:1], got[:1])
		assert.NotEqual(t, got[1].Data, got[2].Data, "eps counts")
	})
}

// Dispatches depend on shapes, not on leaves: there and back, the norm in two, three products a step.
func TestMuonDispatches(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	count := func(leaves int, shapes ...[]int) int {
		var specs []buffers.Spec
		for i := range leaves {
			specs = append(specs, buffers.Spec{Path: string(rune('a' + i)), Shape: shapes[i%len(shapes)]})
		}
		tx := built(t, "muon", Options{Schedule: rate(0.1)}, `{}`)
		return newRig(t, d, tx, randomTree(rand.New(rand.NewPCG(1, 1)), specs, 1), buffers.F32).programs[Emit].Dispatches()
	}
	const around, steps, small = 2, 4 + 5*3, 4 + 2 + 5*2 + 4*2 + 4
	assert.Equal(t, around+steps, count(1, []int{64, 64}))
	assert.Equal(t, around+steps, count(24, []int{64, 64}))
	assert.Equal(t, around+small, count(24, []int{64, 128}, []int{128, 64}))
	assert.Equal(t, around+steps+small, count(24, []int{64, 128}, []int{64, 64}))
}

// Gradients of few tokens have few directions, and what lies beside them is near nothing: steps on A alone, of which the small values are
// squares, must not make something of it.
func TestMuonOfLowRank(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		tx := built(t, "muon", Options{Schedule: rate(1)}, `{}`)
		r := rand.New(rand.NewPCG(61, 62))
		const rows, cols, rank = 48, 160, 3
		params := []buffers.Host{{Path: "w", Shape: []int{rows, cols}, Data: make([]float32, rows*cols)}}
		for _, beside := range []float64{0, 1e-6, 1e-4, 1e-3} {
			left, right := randomTree(r, []buffers.Spec{{Shape: []int{rows, rank}}}, 1)[0].Data, randomTree(r, []buffers.Spec{{Shape: []int{rank, cols}}}, 1)[0].Data
			grads := randomTree(r, []buffers.Spec{{Path: "w", Shape: []int{rows, cols}}}, beside)
			for i := range rows {
				for j := range cols {
					for k := range rank {
						grads[0].Data[i*cols+j] += left[i*rank+k] * right[k*cols+j]
					}
				}
			}
			dev := newRig(t, d, tx, params, buffers.F32)
			twin, err := NewTwin(tx, params)
			require.NoError(t, err)
			dev.call(grads)
			require.NoError(t, twin.Update(grads))
			// Singular values end at 1; rounding of A is 2^-24 of its largest, and grows by 3.4445^2 a step at most.
			got, want := dev.download(dev.params)[0].Data, twin.Params()[0].Data
			worst := 0.0
			for i := range want {
				worst = max(worst, math.Abs(float64(got[i]-want[i])))
			}
			t.Logf("%g beside: %.2g", beside, worst)
			assert.Less(t, worst, 1e-4)
		}
	})
}

// Leaves of AdamW in muon have the decay of their second moment from adam_b2_1d where they are vectors or scalars, as AdamW's have it from b2_1d.
func TestMuonHasADecayForVectors(t *testing.T) {
	options := Options{Schedule: ScheduleConfig{LearningRate: 0.1}}
	start := []buffers.Host{{Path: "v", Shape: []int{3}, Data: []float32{1, -2, 3}}}
	run := func(name, parameters string) []buffers.Host {
		tx, err := Build(name, options, []byte(parameters))
		require.NoError(t, err)
		w, err := NewTwin(tx, start)
		require.NoError(t, err)
		for i := range 3 {
			require.NoError(t, w.Update([]buffers.Host{{Path: "v", Shape: []int{3}, Data: []float32{1, float32(i), -2}}}))
		}
		return w.Params()
	}
	want := run("adamw", `{"b2":0.9,"b2_1d":0.5,"nesterov":true}`)
	assert.Equal(t, want, run("muon", `{"adam_b2":0.9,"adam_b2_1d":0.5}`))
	assert.NotEqual(t, want, run("muon", `{"adam_b2":0.9}`))
	for _, name := range []string{"lion", "quad", "skew", "sgd"} {
		_, err := Build(name, options, []byte(`{"b2_1d":0.5}`))
		assert.ErrorContains(t, err, `unknown key "b2_1d"`, name)
	}
}
