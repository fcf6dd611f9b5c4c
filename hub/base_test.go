package hub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	. "gputrain/model"
)

// part writes a directory with some of a model's parameters, whose base has the others.
func part(t *testing.T, dir string, def Definition, params []array.Host, own func(path string) bool, base *Base) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	store(t, def, "model.safetensors", dir, named(slices.DeleteFunc(slices.Clone(params), func(h array.Host) bool { return !own(h.Path) }), ""))
	if base != nil {
		text, err := base.Text()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, BaseFile), text, 0o666))
	}
}

func fingerprint(t *testing.T, params []array.Host) string {
	t.Helper()
	sum, err := Fingerprint(params)
	require.NoError(t, err)
	return sum
}

// A directory that lacks parameters has them from its base, which may have a base of its own; another base is refused
// by its name.
func TestWeightsWithABase(t *testing.T) {
	def, err := NewGPT2(GPT2Config{Layers: 2, Heads: 1, Width: 8, Vocab: 16, Context: 4})
	require.NoError(t, err)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	params, other := Init(def, 1), Init(def, 2)
	embedding := func(path string) bool { return strings.HasPrefix(path, "w") }
	lower := func(path string) bool { return embedding(path) || strings.HasPrefix(path, "h.0.") }
	without := func(in func(string) bool) (out []array.Host) {
		return slices.DeleteFunc(slices.Clone(params), func(h array.Host) bool { return !in(h.Path) })
	}
	part(t, at("whole"), def, params, func(string) bool { return true }, nil)
	part(t, at("middle"), def, params, func(p string) bool { return !embedding(p) }, &Base{Directory: at("whole"), Fingerprint: fingerprint(t, without(embedding))})
	top := Base{Directory: at("middle"), Fingerprint: fingerprint(t, without(lower))}
	part(t, at("top"), def, other, func(p string) bool { return !lower(p) }, &top)
	_, got, err := ReadHF(at("top"))
	require.NoError(t, err)
	for i, h := range got {
		want := other[i]
		if lower(h.Path) {
			want = params[i]
		}
		assert.Equal(t, want, h)
	}
	found, err := ReadBase(at("top"))
	require.NoError(t, err)
	assert.Equal(t, &top, found)
	found, err = ReadBase(at("whole"))
	require.NoError(t, err)
	assert.Nil(t, found)

	refused := func(says string, base Base) {
		t.Helper()
		part(t, at("top"), def, other, func(p string) bool { return !lower(p) }, &base)
		_, _, err := ReadHF(at("top"))
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, base.Directory)
	}
	changed := slices.Clone(params)
	changed[0].Data = slices.Clone(changed[0].Data)
	changed[0].Data[3]++
	part(t, at("changed"), def, changed, func(string) bool { return true }, nil)
	refused("found 14 parameters of fingerprint sha256:", Base{Directory: at("changed"), Fingerprint: top.Fingerprint})
	llama, err := New("llama", Keys{Layers: 1, Heads: 1, Width: 8, Vocab: 16, Context: 4})
	require.NoError(t, err)
	part(t, at("llama"), llama, Init(llama, 1), func(string) bool { return true }, nil)
	refused("found a model of kind llama, wanted gpt2", Base{Directory: at("llama"), Fingerprint: top.Fingerprint})
	refused("no such file", Base{Directory: at("gone"), Fingerprint: top.Fingerprint})
	refused("wanted an absolute path", Base{Directory: "whole", Fingerprint: top.Fingerprint})
	refused("found the directory itself", Base{Directory: at("top"), Fingerprint: top.Fingerprint})
	part(t, at("middle"), def, params, func(p string) bool { return !embedding(p) }, &Base{Directory: at("top"), Fingerprint: fingerprint(t, without(embedding))})
	refused("found a directory whose own base this is", top)
	_, _, err = ReadHF(at("top"))
	assert.Equal(t, 1, strings.Count(err.Error(), "model: read weights"), err)

	part(t, at("middle"), def, params, func(p string) bool { return !embedding(p) }, &Base{Directory: at("whole"), Fingerprint: fingerprint(t, without(embedding))})
	part(t, at("top"), def, other, func(p string) bool { return !lower(p) }, &top)
	assert.Equal(t, []string{at("middle"), at("whole")}, Bases(at("top")))
	assert.Empty(t, Bases(at("whole")))

	// A base that has moved is told, and known by its parameters alone.
	require.NoError(t, os.Rename(at("middle"), at("moved")))
	_, err = opened(t, at("top")).Weights(def)
	require.ErrorContains(t, err, "no such file")
	assert.NotContains(t, err.Error(), "\n")
	for _, place := range []string{at("moved"), at("whole")} { // where they are stored otherwise they are the same
		moved, err := openedOn(t, at("top"), place).Weights(def)
		require.NoError(t, err)
		assert.Equal(t, &Base{Directory: place, Fingerprint: top.Fingerprint}, moved.Base())
		data, err := moved.Read(params[0].Path)
		require.NoError(t, err)
		assert.Equal(t, params[0].Data, data)
	}
	_, err = openedOn(t, at("top"), at("changed")).Weights(def)
	require.ErrorContains(t, err, "wanted "+top.Fingerprint)
	_, err = openedOn(t, at("whole"), at("changed")).Weights(def)
	require.ErrorContains(t, err, "found all parameters in "+at("whole"))
}

// A fingerprint knows every path, shape and bit, and no order.
func TestFingerprint(t *testing.T) {
	a, b := array.Host{Path: "a", Shape: []int{2}, Data: []float32{1, 2}}, array.Host{Path: "b", Shape: []int{1}, Data: []float32{3}}
	first := fingerprint(t, []array.Host{a, b})
	assert.Equal(t, first, fingerprint(t, []array.Host{b, a}))
	for _, other := range [][]array.Host{
		{a}, {a, {Path: "c", Shape: b.Shape, Data: b.Data}}, {{Path: "a", Shape: []int{1, 2}, Data: a.Data}, b}, {{Path: "a", Shape: a.Shape, Data: []float32{1, 2.0000002}}, b},
	} {
		assert.NotEqual(t, first, fingerprint(t, other))
	}
}
