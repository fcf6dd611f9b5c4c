package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/embeddings"
)

// smallKeys size a network of any family.
var smallKeys = Keys{Layers: 2, Heads: 2, Width: 8, Vocab: 13, Context: 6, RopeTheta: 10000}

// What a row says of paths holds for the networks of the family, as New makes them and with a head of their own.
func TestEveryFamily(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		family, err := familyOf(def.Kind())
		require.NoError(t, err)
		params := def.Params()
		paths := map[string]bool{}
		for _, p := range params {
			paths[p.Path] = true
			for _, untied := range []bool{false, true} {
				assert.Equal(t, p.Path, family.path(family.name(p.Path, untied)), "what is written is read")
			}
		}
		for _, table := range family.Embeddings {
			assert.True(t, paths[table] || table == perLayerTable, "%s: no parameter %q", def.Kind(), table)
			assert.True(t, embeddings.Has(table), table)
		}
		if family.hasHead(params) {
			assert.True(t, embeddings.Has(family.Head))
		}
	}
	assert.Subset(t, Kinds(), []string{"gpt2", "llama"})
	assert.NotContains(t, Kinds(), "mlp")
	assert.False(t, embeddings.Has("h.0.attn.c_attn.weight"))
}

func TestNewRefuses(t *testing.T) {
	_, err := New("mlp", smallKeys)
	require.EqualError(t, err, `model: new: found "mlp", wanted one of `+strings.Join(Kinds(), ", "))
	_, err = New("mamba", smallKeys)
	require.ErrorContains(t, err, `model_type: "mamba", want one of ["`)
	k := smallKeys
	k.Dropout = 0.1
	_, err = New("llama", k)
	require.EqualError(t, err, "model: llama: dropout: 0.1, want 0: it has none")
	for _, f := range []Family{{Kind: "gpt2", Read: readGPT2}, {Kind: "new"}, {Read: readGPT2}} {
		assert.Panics(t, func() { Register(f) }, f.Kind)
	}
}

// foreign is a definition as another package may bring it, with as little as it must have.
type foreign struct{ params []Param }

func (foreign) Kind() string             { return "foreign" }
func (foreign) Vocab() int               { return 3 }
func (foreign) Context() int             { return 4 }
func (f foreign) Params() []Param        { return f.params }
func (foreign) Settings() map[string]any { return map[string]any{} }

// Build reads "a" through the Builder and "b" past it.
func (f foreign) Build(batch, seq int, o Options) (*Built, error) {
	b, err := NewBuilder(f, batch, seq, o)
	if err != nil {
		return nil, err
	}
	x := b.MatMul(b.flat(b.Tokens(b.Read("1.a")), 2), b.Param("2.b", 2, 2), false, true)
	return b.Finish(x, b.Read("1.a"))
}

// A definition that reads a parameter past the Builder cannot be quantized there, and one that belongs to no family cannot be stored.
func TestForeignDefinition(t *testing.T) {
	def := foreign{[]Param{{Path: "1.a", Shape: []int{3, 2}}, {Path: "2.b", Shape: []int{2, 2}}}}
	built, err := def.Build(1, 2, Options{Loss: true})
	require.NoError(t, err)
	assert.Len(t, built.Params, 2)
	q, err := WithQuantization(def, Quantization{Mode: "nf4", Match: []string{"a"}})
	require.NoError(t, err)
	built, err = q.Build(1, 2, Options{Loss: true})
	require.NoError(t, err)
	assert.Equal(t, graph.Quantize{Mode: "nf4", Group: 64}, built.Graph.Nodes()[1].Op)
	q, err = WithQuantization(def, Quantization{Mode: "nf4"})
	require.NoError(t, err)
	_, err = q.Build(1, 2, Options{Loss: true})
	require.EqualError(t, err, `model: foreign: build: quantize: parameter "2.b" is read as it is, want it read through Builder.Read`)

	_, err = WithDropout(def, 0)
	require.NoError(t, err)
	_, err = WithDropout(q, 0.5)
	require.EqualError(t, err, "model: foreign: dropout: 0.5, want 0: it has none")
	_, err = Tensors(def, "F32", nil)
	require.ErrorContains(t, err, `"foreign", want one of`)
	_, err = ConfigJSON(def, "F32")
	require.ErrorContains(t, err, `"foreign", want one of`)
	def.params[0], def.params[1] = def.params[1], def.params[0]
	_, err = def.Build(1, 2, Options{Loss: true})
	require.ErrorContains(t, err, "want them sorted by path")
}
