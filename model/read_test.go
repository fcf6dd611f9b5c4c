package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// readHF reads a directory that holds a whole model, or adapters upon one.
func readHF(dir string) (Definition, []array.Host, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, nil, err
	}
	def, err := ParseConfig(raw)
	if err != nil {
		return nil, nil, err
	}
	s, err := openWeights(dir, def)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := s.All()
	return def, hosts, err
}

// openWeights finds the weights of def in a directory's model.safetensors.
func openWeights(dir string, def Definition) (*Stored, error) {
	name := "model.safetensors"
	if len(AdapterParams(def)) > 0 {
		name = AdapterWeightsFile
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Parse(raw)
	if err != nil {
		return nil, err
	}
	return Bind(def, dir, f.Tensors())
}

// openAdapters is what a directory's adapters make of the model in base, and their weights.
func openAdapters(t *testing.T, dir, base string) (Definition, *Stored) {
	t.Helper()
	below, _, err := readHF(base)
	require.NoError(t, err)
	config, err := os.ReadFile(filepath.Join(dir, AdapterConfigFile))
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, AdapterWeightsFile))
	require.NoError(t, err)
	f, err := safetensors.Parse(raw)
	require.NoError(t, err)
	def, err := ParseAdapter(config, below, f.Tensors()...)
	require.NoError(t, err)
	s, err := openWeights(dir, def)
	require.NoError(t, err)
	under, err := openWeights(base, below)
	require.NoError(t, err)
	s.StandOn(under, nil)
	return def, s
}
