package optim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/optim"
)

// updated are the params after one update of zeros, in the order of their paths.
func updated(t *testing.T, c optim.Config, grads []buffers.Host, whole ...buffers.Spec) []buffers.Host {
	t.Helper()
	tx, err := c.Build()
	require.NoError(t, err)
	var params []buffers.Host
	for _, g := range grads {
		params = append(params, buffers.Host{Path: g.Path, Shape: g.Shape, Data: make([]float32, len(g.Data))})
	}
	twin, err := optim.NewTwin(tx, params, whole...)
	require.NoError(t, err)
	require.NoError(t, twin.Update(grads))
	return twin.Params()
}

// What a record means that names no edition, and what runs that go on with it follow.
func TestRecordsOfTheFirstEdition(t *testing.T) {
	damped, still := []byte(`{"damping":0.5}`), []byte(`{"noise_scale":0.5}`)
	for _, c := range []struct {
		config  optim.Config
		edition optim.Edition
		earlier string
	}{
		{optim.Config{Name: "adamw"}, optim.Newest, ""},
		{optim.Config{Name: "quad"}, optim.Newest, ""},
		{optim.Config{Name: "quad", Parameters: damped}, optim.Newest, ""},
		{optim.Config{Name: "quad", Parameters: still}, optim.First, "parameters that its numerics do not read"},
		{optim.Config{Name: "skew", Parameters: damped, Options: optim.Options{Numerics: optim.EFormer}}, optim.First, "parameters"},
		{optim.Config{Name: "muon"}, optim.First, "[inputs, outputs]"},
		{optim.Config{Name: "muon", Options: optim.Options{Numerics: optim.EFormer}}, optim.First, "[inputs, outputs]"},
		{optim.Config{Name: "muon", Options: optim.Options{Edition: optim.Newest}}, optim.Newest, ""},
	} {
		got := c.config.AsRecorded()
		assert.Equal(t, c.edition, got.Options.Edition, "%+v", c.config)
		assert.Contains(t, got.Earlier(), c.earlier)
		assert.Equal(t, c.earlier == "", got.Earlier() == "")
		_, err := got.Build()
		assert.NoError(t, err)
		assert.Equal(t, c.edition, optim.Config{Name: c.config.Name}.Following(got).Options.Edition)
		assert.Equal(t, optim.Newest, optim.Config{Options: optim.Options{Edition: optim.Newest}}.Following(got).Options.Edition, "one that is named stays")
	}
	_, err := optim.Build("sgd", optim.Options{Edition: 3}, nil)
	assert.EqualError(t, err, "optim: sgd: edition: found 3, wanted 1 or 2, or 0 for the newest")
	// A parameter that is let pass does what it did: nothing. Nor did it matter what a leaf says.
	grads := []buffers.Host{{Path: "w", Shape: []int{3, 2}, Data: []float32{1, 2, 3, 5, 7, 9}}}
	outIn := []buffers.Host{{Path: "w", Shape: []int{3, 2}, OutIn: true, Data: grads[0].Data}}
	first := optim.Options{Schedule: rate(1), Edition: optim.First}
	newest := optim.Options{Schedule: rate(1)}
	muon := func(o optim.Options, grads []buffers.Host) []float32 {
		return updated(t, optim.Config{Name: "muon", Options: o}, grads, grads[0].Spec())[0].Data
	}
	assert.Equal(t, muon(newest, grads), muon(first, outIn))
	assert.NotEqual(t, muon(newest, grads), muon(newest, outIn))
	decay := optim.Config{Name: "muon", Parameters: []byte(`{"adam_weight_decay":0.5,"adamw":["w"]}`), Options: first}
	decay.Options.Numerics = optim.EFormer
	ones := []buffers.Host{{Path: "w", Shape: []int{1, 1}, Data: []float32{1}}}
	tx, err := decay.Build()
	require.NoError(t, err)
	twin, err := optim.NewTwin(tx, ones)
	require.NoError(t, err)
	require.NoError(t, twin.Update([]buffers.Host{{Path: "w", Data: []float32{0}}}))
	assert.Equal(t, ones[0].Data, twin.Params()[0].Data)
	plain := optim.Config{Name: "quad", Options: first}
	assert.Equal(t, updated(t, plain, grads), updated(t, optim.Config{Name: "quad", Options: first, Parameters: still}, grads))
}
