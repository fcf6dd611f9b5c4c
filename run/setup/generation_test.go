package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/run/train"
	"gputrain/tests/frugal"
)

func TestSampling(t *testing.T) {
	for _, c := range []struct {
		generation, config string // "": no such file
		want               train.SampleConfig
		says               string
	}{
		{"", `{}`, train.SampleConfig{Temperature: .8, TopK: 40}, ""},
		{"", `{"eos_token_id": 3, "temperature": 1.0, "top_k": "many"}`, train.SampleConfig{Temperature: .8, TopK: 40, Stop: []int32{3}}, ""},
		{"{}", `{"eos_token_id": null}`, train.SampleConfig{Temperature: .8, TopK: 40}, ""},
		{
			`{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [7, 9], "transformers_version": "4.51.0"}`, `{"eos_token_id": 7}`,
			train.SampleConfig{Temperature: .6, TopK: 20, TopP: .95, Stop: []int32{7, 9}},
			"temperature 0.6, top_k 20, top_p 0.95",
		},
		{
			`{"do_sample": false, "temperature": 0.6, "min_p": 0.1, "repetition_penalty": 1.1}`, "",
			train.SampleConfig{TopK: 40, MinP: .1, RepetitionPenalty: 1.1},
			"temperature 0, min_p 0.1, repetition_penalty 1.1",
		},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{generationFile: c.generation, "config.json": c.config} {
			if text != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
		}
		got := train.SampleConfig{Temperature: .8, TopK: 40}
		says, err := Sampling(hub.Open(dir), &got)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.says, says)
	}
	for text, says := range map[string]string{
		`{"eos_token_id": "</s>"}`: `eos_token_id: found "</s>", wanted an id or a list of ids`, `{`: `generation_config.json": unexpected end`, `{"top_k": "a"}`: "top_k: found a text, wanted a whole number",
		`{"temperature": "x"}`: `generation_config.json": temperature: found a text, wanted a number`, `[]`: "found a list, wanted an object", "\ufeff{}": "byte-order mark",
		`{"top_k": 1e99}`: "top_k: found 1e99, wanted a whole number of at most 64 bits",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, generationFile), []byte(text), 0o600))
		_, err := Sampling(hub.Open(dir), &train.SampleConfig{})
		assert.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "Go ")
		assert.IsType(t, &ModelError{}, err)
	}
}

// FuzzSampling: whatever generation_config.json says, it is read or refused, in words of the file.
func FuzzSampling(f *testing.F) {
	for _, text := range []string{
		`{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [7, 9]}`, `{"do_sample": 1}`, `{"eos_token_id": 1e9}`, `{"eos_token_id": [[]]}`,
		`{"temperature": -1e308, "min_p": null}`, `[]`, `null`, "\ufeff{}", `{"top_k": 9223372036854775808}`, `{"TEMPERATURE": "x"}`, "<html>",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, generationFile), text, 0o600))
		frugal.Parse(t, len(text), func() {
			says, err := Sampling(hub.Open(dir), &train.SampleConfig{})
			if err != nil {
				require.IsType(t, &ModelError{}, err)
				require.NotContains(t, err.Error(), "Go struct")
				require.NotContains(t, err.Error(), "Go value")
				require.Empty(t, says)
			}
		})
	})
}
