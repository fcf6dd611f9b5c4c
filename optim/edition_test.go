package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// updated are the params after one update of zeros, in the order of their paths.
func updated(t *testing.T, c Config, grads []buffers.Host, whole ...buffers.Spec) []buffers.Host {
	t.Helper()
	tx, err := c.Build()
	require.NoError(t, err)
	var params []buffers.Host
	for _, g := range grads {
		params = append(params, buffers.Host{Path: g.Path, Shape: g.Shape, Data: make([]float32, len(g.Data))})
	}
	twin, err := NewTwin(tx, params, whole...)
	require.NoError(t, err)
	require.NoError(t, twin.Update(grads))
	return twin.Params()
}

// eformer casts the corrected momentum to the type of the factors before these read it, and without a momentum the gradient: of the first gradient,
// which both are, comes what comes of the nearest numbers of bf16. In f32 nothing is rounded, nor was it in the first edition, nor is it in stable
// numerics.
func TestWhatFactorsReadIsOfTheirType(t *testing.T) {
	exact, rounded := buffers.Host{Path: "w", Shape: []int{2, 2}}, buffers.Host{Path: "w", Shape: []int{2, 2}}
	for _, x := range []float64{1, -3, 0.5, 2} {
		exact.Data = append(exact.Data, float32(x+x/512)) // bf16 has eight bits: a step at 1 is 1/128
		rounded.Data = append(rounded.Data, float32(x))
	}
	for _, c := range []struct {
		parameters string
		numerics   Numerics
		edition    Edition
		same       bool
	}{
		{`{"dtype":"bf16"}`, EFormer, 0, true},
		{`{"dtype":"bf16","b1":0}`, EFormer, Newest, true},
		{`{"dtype":"f32"}`, EFormer, 0, false},
		{`{"dtype":"bf16"}`, EFormer, First, false},
		{`{"dtype":"bf16"}`, Stable, 0, false},
	} {
		for _, name := range []string{"quad", "skew"} {
			with := Options{Schedule: rate(1), Numerics: c.numerics, Edition: c.edition}
			o := Config{Name: name, Parameters: []byte(c.parameters), Options: with}
			a, b := updated(t, o, []buffers.Host{exact})[0].Data, updated(t, o, []buffers.Host{rounded})[0].Data
			assert.Equal(t, c.same, math.Abs(float64(a[0]-b[0])) < 1e-9, "%s: %+v: %g and %g", name, c, a[0], b[0])
		}
	}
}

// Leaves draw in the tree's own order in eformer numerics: as do others whose paths have that order. In the first edition they drew in the order of
// their paths.
func TestLeavesDrawInTheTreesOrder(t *testing.T) {
	leaves := func(paths ...string) (grads []buffers.Host, whole []buffers.Spec) {
		for _, path := range paths {
			g := buffers.Host{Path: path, Shape: []int{3, 4}, Data: make([]float32, 12)}
			for k := range g.Data {
				g.Data[k] = float32(math.Sin(float64(len(path) + k)))
			}
			g.Data[0] += float32(len(whole)) // each has its own
			grads, whole = append(grads, g), append(whole, g.Spec())
		}
		return grads, whole
	}
	for _, edition := range []Edition{First, Newest} {
		with := Options{Schedule: rate(1), Numerics: EFormer, Edition: edition}
		c := Config{Name: "quad", Parameters: []byte(`{"noise_scale":0.5,"dtype":"f32"}`), Options: with}
		grads, whole := leaves("h.2.w1", "h.10.w") // of one length, so of the same numbers
		tree := updated(t, c, grads, whole...)     // by paths: h.10 first
		sorted, order := leaves("a.2.w1", "b.10.w")
		flat := updated(t, c, sorted, order...)
		same := assert.ObjectsAreEqual(flat[0].Data, tree[1].Data) && assert.ObjectsAreEqual(flat[1].Data, tree[0].Data)
		assert.Equal(t, edition == Newest, same, "edition %d", edition)
	}
}

// Blocks are as large as eformer's where its numerics are in force, unless a run began with another default; a record says so.
func TestDefaultsFollowTheNumerics(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"quad"}`: `"block_size":128`,
		`{"name":"skew","options":{"numerics":"eformer"}}`:                                     `"block_size":256`,
		`{"name":"quad","options":{"numerics":"eformer","edition":1}}`:                         `"block_size":128`,
		`{"name":"quad","options":{"numerics":"eformer"},"parameters":{"block_size":64}}`:      `"block_size":64`,
		`{"name":"quad","options":{"numerics":"eformer"},"parameters":{"block_size":128}}`:     `"block_size":128`,
		`{"name":"quad","options":{"schedule":{"type":"cosine","learning_rate":1,"steps":2}}}`: `"block_size":128`,
	} {
		c, err := ParseConfig([]byte(text))
		require.NoError(t, err)
		assert.Contains(t, string(c.Parameters), want, text)
		again, err := c.Build()
		require.NoError(t, err, text)
		assert.NotEmpty(t, again.Name())
	}
}

// What a record means that names no edition, and what runs that go on with it follow.
func TestRecordsOfTheFirstEdition(t *testing.T) {
	damped, still := []byte(`{"damping":0.5}`), []byte(`{"noise_scale":0.5}`)
	for _, c := range []struct {
		config  Config
		edition Edition
		earlier string
	}{
		{Config{Name: "adamw"}, Newest, ""},
		{Config{Name: "quad"}, Newest, ""},
		{Config{Name: "quad", Parameters: damped}, Newest, ""},
		{Config{Name: "quad", Parameters: still}, First, "parameters that its numerics do not read"},
		{Config{Name: "skew", Parameters: damped, Options: Options{Numerics: EFormer}}, First, "leaves draw"},
		{Config{Name: "muon"}, First, "[inputs, outputs]"},
		{Config{Name: "muon", Options: Options{Numerics: EFormer}}, First, "[inputs, outputs]"},
		{Config{Name: "muon", Options: Options{Edition: Newest}}, Newest, ""},
	} {
		got := c.config.AsRecorded()
		assert.Equal(t, c.edition, got.Options.Edition, "%+v", c.config)
		assert.Contains(t, got.Earlier(), c.earlier)
		assert.Equal(t, c.earlier == "", got.Earlier() == "")
		_, err := got.Build()
		assert.NoError(t, err)
		assert.Equal(t, c.edition, Config{Name: c.config.Name}.Following(got).Options.Edition)
		assert.Equal(t, Newest, Config{Options: Options{Edition: Newest}}.Following(got).Options.Edition, "one that is named stays")
	}
	_, err := Build("sgd", Options{Edition: 3}, nil)
	assert.EqualError(t, err, "optim: sgd: edition: found 3, wanted 1 or 2, or 0 for the newest")
	// A parameter that is let pass does what it did: nothing. Nor did it matter what a leaf says.
	grads := []buffers.Host{{Path: "w", Shape: []int{3, 2}, Data: []float32{1, 2, 3, 5, 7, 9}}}
	outIn := []buffers.Host{{Path: "w", Shape: []int{3, 2}, OutIn: true, Data: grads[0].Data}}
	first := Options{Schedule: rate(1), Edition: First}
	newest := Options{Schedule: rate(1)}
	muon := func(o Options, grads []buffers.Host) []float32 {
		return updated(t, Config{Name: "muon", Options: o}, grads, grads[0].Spec())[0].Data
	}
	assert.Equal(t, muon(newest, grads), muon(first, outIn))
	assert.NotEqual(t, muon(newest, grads), muon(newest, outIn))
	decay := Config{Name: "muon", Parameters: []byte(`{"adam_weight_decay":0.5,"adamw":["w"]}`), Options: first}
	decay.Options.Numerics = EFormer
	ones := []buffers.Host{{Path: "w", Shape: []int{1, 1}, Data: []float32{1}}}
	tx, err := decay.Build()
	require.NoError(t, err)
	twin, err := NewTwin(tx, ones)
	require.NoError(t, err)
	require.NoError(t, twin.Update([]buffers.Host{{Path: "w", Data: []float32{0}}}))
	assert.Equal(t, ones[0].Data, twin.Params()[0].Data)
	plain := Config{Name: "quad", Options: first}
	assert.Equal(t, updated(t, plain, grads), updated(t, Config{Name: "quad", Options: first, Parameters: still}, grads))
}
